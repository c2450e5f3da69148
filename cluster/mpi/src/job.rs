//! What calls do over time, as futures that the engine polls in each turn.
//!
//! A future keeps the memory that MPI accesses, so it has three rules. It does not end before its requests have: after an
//! error of one it waits for the others, and the group is broken meanwhile ([`Events`]). A [`Job`] that is dropped before
//! its end is leaked. And it holds nothing of a thread across an `await`, such as a guard of a lock or of a context
//! ([`Part::enter`](crate::part::Part::enter)): its next poll may be on another thread ([`link`](crate::link)).

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use mpi::ffi::{self, MPI_Request};

use crate::raw::{MpiError, call};

/// A future of the engine.
pub(crate) struct Job<T>(Option<Pin<Box<dyn Future<Output = T>>>>);

impl<T> Job<T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }

    /// Goes on as far as possible. Returns the result once, at the end.
    pub(crate) fn poll(&mut self) -> Option<T> {
        // The engine polls again, so nothing needs to wake it.
        let mut context = Context::from_waker(Waker::noop());
        match self.0.as_mut()?.as_mut().poll(&mut context) {
            Poll::Pending => None,
            Poll::Ready(result) => {
                self.0 = None;
                Some(result)
            }
        }
    }

    /// Goes on, without interest in the result. Returns `true` once it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        drop(self.poll());
        self.0.is_none()
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if let Some(job) = self.0.take() {
            tracing::error!("a call of MPI has not ended; what it uses is kept for good");
            std::mem::forget(job);
        }
    }
}

/// What the requests of a group have met.
#[derive(Default)]
pub(crate) struct Events {
    /// Whether anything has changed.
    pub(crate) changed: Cell<bool>,
    /// The requests that have not ended: MPI must be polled for them.
    pub(crate) in_flight: Cell<usize>,
    /// The first error. The group starts no further requests.
    error: OnceCell<MpiError>,
}

impl Events {
    /// Breaks the group.
    pub(crate) fn note_error(&self, error: &MpiError) {
        // Only the first one counts.
        let _ = self.error.set(error.clone());
    }

    pub(crate) fn error(&self) -> Option<&MpiError> {
        self.error.get()
    }
}

/// A call of MPI that was started: a future of its end. An error ends it, too, also one of its start. It borrows the memory
/// that MPI accesses.
#[must_use = "a job waits for its requests"]
pub(crate) struct Request<'a> {
    /// `None` once it has ended.
    request: Option<MPI_Request>,
    /// Why it did not start.
    error: Option<MpiError>,
    /// Of its group.
    events: Option<Rc<Events>>,
    memory: PhantomData<&'a mut [u8]>,
}

impl Request<'_> {
    /// Starts a non-blocking call, which `start` makes with the place for its request.
    pub(crate) fn start(
        events: Option<&Rc<Events>>,
        start: impl FnOnce(*mut MPI_Request) -> Result<(), MpiError>,
    ) -> Self {
        // SAFETY: reads a constant of the library.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        let started = match events.and_then(|events| events.error()) {
            Some(error) => Err(error.clone()),
            None => start(&mut request),
        };
        if let (Some(events), Ok(())) = (events, &started) {
            events.in_flight.update(|requests| requests + 1);
            events.changed.set(true);
        }
        Self {
            request: started.is_ok().then_some(request),
            error: started.err(),
            events: events.cloned(),
            memory: PhantomData,
        }
    }
}

impl Future for Request<'_> {
    type Output = Result<(), MpiError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let outcome = match (&mut this.request, this.error.take()) {
            (Some(request), _) => {
                let mut done = 0;
                // SAFETY: the request is the one that was started.
                let tested =
                    unsafe { call!(MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE)) };
                if tested.is_ok() && done == 0 {
                    return Poll::Pending;
                }
                this.request = None;
                if let Some(events) = &this.events {
                    events.in_flight.update(|requests| requests - 1);
                }
                tested
            }
            (None, Some(error)) => Err(error),
            (None, None) => Ok(()),
        };
        if let Some(events) = &this.events {
            events.changed.set(true);
            if let Err(error) = &outcome {
                events.note_error(error);
            }
        }
        Poll::Ready(outcome)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if self.request.is_some() {
            // MPI would access memory that is used for something else. Only a panic comes here.
            std::process::abort();
        }
    }
}

/// Waits for all of the futures.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut ended = Poll::Ready(());
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => ended = Poll::Pending,
                }
            }
        }
        ended
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Waits until a condition is met, which is looked at in each turn.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    poll_fn(|_| match condition() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
