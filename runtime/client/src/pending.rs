//! The answer to a request, which arrives later.
//!
//! # Protocol
//! A task's answer arrives in two steps. The device thread replies with a [`Ticket`] as soon as the work is issued: the
//! points (queue + cursor) after which the value is complete. The client then waits for these points on the queues'
//! timelines itself. So the queue that publishes a cursor wakes the waiter directly, and the device thread takes no
//! part in completion. A query, a host function or a guard answers in one step, with the value itself.
//!
//! ```text
//!                        reply: ticket            every point has passed
//!  submitted ► Requested ─────────────► Issued ──────────────────────────► Taken   value or failure
//!                  │ reply: error, or      │ a timeline ended
//!                  │ sender dropped        │
//!                  └───────────────────────┴─────────────────────────────► Taken   error
//!  query     ► Value ─────── reply: value or error, or sender dropped ───► Taken
//!  not sent  ► Failed ────────────────────────────────────────────────────► Taken   error
//! ```
//! [`Pending::advance`] takes every transition; [`WaitMode`] selects what it does if a step is not ready: return,
//! block, or leave a waker. A value is handed out once, on the transition to `Taken`. A `Pending` has at most one waker
//! registered on a timeline, at `waker_at`; polling again replaces it, and dropping the `Pending` removes it.
//!
//! # Example: a read
//! ```text
//!  caller                                   device thread, then the queue
//!  read: sends CopyOut {landing, reply}
//!  wait: no reply yet, parks                admits and issues it; replies with the ticket
//!                                           queue: copies the bytes to the landing, marks failures
//!                                           queue: publishes the cursor (Release), wakes the caller
//!  reads the timeline (Acquire): passed
//!  takes the bytes from the landing
//! ```
//! The queue settles failures before it publishes the cursor, so the outcome that the caller takes is final (I5). A
//! dropped reply sender and an ended timeline are answers too, so a request cannot wait forever.
//!
//! The models `reply`, `timeline` and `law` of `loom-tests` check the two steps and the ends; the modules `answers`,
//! `lifetime` and `withdrawal` of the conformance suite check the whole.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millstream_protocol::{Error, FailureRef, Landed, Point, Ticket, marks::is_runtime_thread};
use millstream_sync::facade::{SpinPolicy, THREADS};
use millstream_sync::reply::{Closed, ReplyReceiver};
use millstream_sync::timeline::{Ended, WaitKey};

use crate::{DeviceShared, Requester};

/// Produces the value once the work has completed.
pub(crate) enum Finish<T> {
    /// The value exists already.
    Value(T),
    /// The value is in the landing of a copy.
    Landed(Arc<dyn Landed<T>>),
    /// The closure builds the value from several landings.
    Made(Box<dyn FnOnce() -> Result<T, FailureRef> + Send>),
}

impl<T> Finish<T> {
    /// Takes the value.
    ///
    /// # Safety
    /// Every point of the work has passed.
    unsafe fn take(self) -> Result<T, FailureRef> {
        match self {
            Finish::Value(value) => Ok(value),
            // SAFETY: the caller's promise; consuming `self` makes this the only call.
            Finish::Landed(landed) => unsafe { landed.take() },
            Finish::Made(make) => make(),
        }
    }
}

enum State<T> {
    /// Waits for the device thread's reply with the points of the work.
    Requested(ReplyReceiver<Result<Ticket, Error>>, Finish<T>),
    /// The work is issued; waits for its points.
    Issued(Ticket, Finish<T>),
    /// Waits for the value, which the device thread or a host function sends.
    Value(ReplyReceiver<Result<T, Error>>),
    /// The request could not be submitted.
    Failed(Error),
    /// The answer has been taken.
    Taken,
}

/// The answer to a request, which arrives later: block on it, poll it, await it, or give it a callback.
///
/// Dropping a `Pending` discards the answer; the work itself still runs.
#[must_use = "dropping an answer does not wait for the work"]
pub struct Pending<T> {
    requester: Requester,
    state: State<T>,
    /// Where the last poll registered its waker.
    waker_at: Option<(Point, WaitKey)>,
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some((point, key)) = self.waker_at.take()
            && self.requester.device().is_of_this_process()
        {
            self.requester.device().timeline(point).cancel(key);
        }
    }
}

impl<T> Unpin for Pending<T> {}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn ticket(
        requester: Requester,
        receiver: ReplyReceiver<Result<Ticket, Error>>,
        finish: Finish<T>,
    ) -> Self {
        Self {
            requester,
            state: State::Requested(receiver, finish),
            waker_at: None,
        }
    }

    pub(crate) fn value(requester: Requester, receiver: ReplyReceiver<Result<T, Error>>) -> Self {
        Self {
            requester,
            state: State::Value(receiver),
            waker_at: None,
        }
    }

    pub(crate) fn failed(requester: Requester, error: Error) -> Self {
        Self {
            requester,
            state: State::Failed(error),
            waker_at: None,
        }
    }

    /// Returns `self` if the request was submitted, and otherwise the error: [`Error::Busy`] through
    /// [`Stream::nowait`](super::Stream::nowait), or arguments that do not fit. For use with
    /// [`Stream::when_ready`](super::Stream::when_ready): `stream.when_ready(|stream| stream.read(&values).submitted())`.
    ///
    /// # Errors
    /// The error that waiting for the answer would return.
    pub fn submitted(mut self) -> Result<Self, Error> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Failed(error) => Err(error),
            state => {
                self.state = state;
                Ok(self)
            }
        }
    }

    /// Blocks until the answer arrives: spins briefly, then parks the thread. Drives a driven device meanwhile.
    ///
    /// # Errors
    /// The failure of the data or of the device; [`Error::WouldDeadlock`] on a thread that
    /// the device needs.
    pub fn wait(mut self) -> Result<T, Error> {
        match self.wait_until(None) {
            Some(answer) => answer,
            None => Err(Error::Taken),
        }
    }

    /// Blocks until the answer arrives, but not longer than `timeout`.
    ///
    /// An answer is handed out once. After [`Error::TimedOut`] it is still pending and can be waited for again. After a
    /// value or a failure it has been taken, and every later call returns [`Error::Taken`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use millstream_client::Pending;
    /// # use millstream_protocol::Error;
    /// fn patient(mut answer: Pending<Vec<u32>>) -> Result<Vec<u32>, Error> {
    ///     match answer.wait_timeout(Duration::from_millis(5)) {
    ///         Err(Error::TimedOut { .. }) => answer.wait(), // still pending
    ///         taken => taken, // taken: another `answer.wait()` would return `Error::Taken`
    ///     }
    /// }
    /// ```
    ///
    /// On a driven device the wait runs kernels meanwhile. It runs user code of the device (host functions, callbacks and
    /// destructors, of any client) only while there is nothing else to do, one piece at a time, and begins none after
    /// the deadline. A kernel or piece that has begun is not interrupted, so the call may return later than the deadline
    /// by the time that one of them takes. [`Pending::try_take`] runs nothing.
    ///
    /// The wait takes the place of a task that has polled the answer: that task polls again after a timeout.
    /// [`Pending::try_take`] leaves it its place.
    ///
    /// # Errors
    /// Same as [`Pending::wait`]; [`Error::TimedOut`] if the answer did not arrive in time; [`Error::Taken`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<T, Error> {
        match self.wait_until(Instant::now().checked_add(timeout)) {
            Some(answer) => answer,
            None => Err(Error::TimedOut { waited: timeout }),
        }
    }

    /// Returns the answer if it has arrived; it is handed out once, as by [`Pending::wait_timeout`]. Never blocks, and
    /// does not drive a driven device.
    pub fn try_take(&mut self) -> Option<Result<T, Error>> {
        if let Some(forked) = self.forked() {
            return Some(forked);
        }
        self.device().channel().looked();
        let answer = self.advance(&mut WaitMode::NoWait);
        if answer.is_none() {
            self.device().channel().awaited();
        }
        answer
    }

    /// Moves the answer out, and leaves [`State::Taken`] behind.
    pub(super) fn take(&mut self) -> Self {
        let taken = Self {
            requester: self.requester.clone(),
            state: State::Taken,
            waker_at: None,
        };
        std::mem::replace(self, taken)
    }

    /// Returns `true` if the work has been issued, so that the answer arrives without further messages.
    pub(super) fn is_issued(&self) -> bool {
        matches!(self.state, State::Issued(..))
    }

    pub(super) fn requester(&self) -> &Requester {
        &self.requester
    }

    fn device(&self) -> &DeviceShared {
        self.requester.device()
    }

    pub(super) fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>> {
        // Checked even if the answer has arrived, so that the mistake shows every time and not only under load.
        if is_runtime_thread() && !matches!(self.state, State::Failed(_)) {
            return Some(Err(Error::WouldDeadlock));
        }
        if let Some(forked) = self.forked() {
            return Some(forked);
        }
        self.device().channel().waits();
        // In a model this look would be one more choice, and could find nothing that the wait below does not.
        if THREADS && let Some(answer) = self.advance(&mut WaitMode::NoWait) {
            return Some(answer);
        }
        let span = tracing::trace_span!(target: "millstream", "wait");
        let _entered = span.enter();
        let (requester, mut answer) = (self.requester.clone(), None);
        let is_over = requester.device().channel().wait(deadline, &mut |waker| {
            answer = match waker {
                None => self.advance(&mut WaitMode::NoWait),
                Some(waker) => {
                    self.advance(&mut WaitMode::Register(&mut Context::from_waker(waker)))
                }
            };
            answer.is_some()
        });
        if is_over {
            return answer;
        }
        // External tasks may wait for something that this thread can go on with.
        requester.device().helpers.help(|| {
            answer = self.advance(&mut WaitMode::NoWait);
            answer.is_some() || deadline.is_some_and(|deadline| Instant::now() >= deadline)
        });
        if answer.is_some() {
            return answer;
        }
        // The wait above may have stepped in, so the answer may have arrived.
        self.advance(&mut WaitMode::Block(deadline))
    }

    /// Returns the error in a child that was forked since the device was opened, which takes the place of the answer.
    fn forked(&mut self) -> Option<Result<T, Error>> {
        let forked = self.device().check_process().err()?;
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Failed(error) => Some(Err(error)),
            State::Taken => Some(Err(Error::Taken)),
            // Leaked: the fork may have copied an answer that was half sent, whose drop waits for the other half.
            state => {
                std::mem::forget(state);
                Some(Err(forked))
            }
        }
    }

    /// Takes transitions until the answer arrives. If a step is not ready, `mode` selects what happens.
    fn advance(&mut self, mode: &mut WaitMode<'_, '_>) -> Option<Result<T, Error>> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Taken);
            let device = self.requester.device();
            self.state = match state {
                State::Requested(mut receiver, finish) => {
                    match mode.receive(&mut receiver, device.spin()) {
                        None => {
                            self.state = State::Requested(receiver, finish);
                            return None;
                        }
                        Some(Ok(Ok(ticket))) => State::Issued(ticket, finish),
                        Some(Ok(Err(error))) => return Some(Err(error)),
                        Some(Err(_closed)) => return Some(Err(device.terminal_error())),
                    }
                }
                State::Issued(ticket, finish) => {
                    match mode.pass(device, &ticket, &mut self.waker_at) {
                        None => {
                            self.state = State::Issued(ticket, finish);
                            return None;
                        }
                        Some(Ok(())) => {
                            // SAFETY: all points have passed.
                            let answer = unsafe { finish.take() };
                            return Some(answer.map_err(|failure| device.failure_error(failure)));
                        }
                        Some(Err(Ended)) => return Some(Err(device.terminal_error())),
                    }
                }
                State::Value(mut receiver) => match mode.receive(&mut receiver, device.spin()) {
                    None => {
                        self.state = State::Value(receiver);
                        return None;
                    }
                    Some(answer) => {
                        return Some(answer.unwrap_or_else(|_closed| Err(device.terminal_error())));
                    }
                },
                State::Failed(error) => return Some(Err(error)),
                State::Taken => return Some(Err(Error::Taken)),
            };
        }
    }

    /// Polls the answer, and registers the waker if it has not arrived.
    pub(super) fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        if let Some(forked) = self.forked() {
            return Poll::Ready(forked);
        }
        match self.advance(&mut WaitMode::Register(context)) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

/// What [`Pending::advance`] does if a step is not ready.
enum WaitMode<'a, 'c> {
    /// Returns without registering anything.
    NoWait,
    /// Blocks, not beyond the deadline.
    Block(Option<Instant>),
    /// Registers the waker and returns.
    Register(&'a mut Context<'c>),
}

impl WaitMode<'_, '_> {
    /// Receives the reply; `None` if it is not ready.
    fn receive<V>(
        &mut self,
        receiver: &mut ReplyReceiver<V>,
        spin: &SpinPolicy,
    ) -> Option<Result<V, Closed>> {
        match self {
            WaitMode::NoWait => receiver.try_take(),
            WaitMode::Block(deadline) => receiver.wait_until(spin, *deadline),
            WaitMode::Register(context) => match receiver.poll_take(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            },
        }
    }

    /// Returns whether all points have passed; an error if one never will, `None` if this is not known yet. `waker_at`
    /// is where the waker of a poll is registered.
    fn pass(
        &mut self,
        device: &DeviceShared,
        ticket: &Ticket,
        waker_at: &mut Option<(Point, WaitKey)>,
    ) -> Option<Result<(), Ended>> {
        // A registered waker stays while the answer is looked at in another way: its task still awaits the answer.
        if let (WaitMode::Register(context), Some((point, key))) = (&mut *self, *waker_at) {
            if device.timeline(point).replace(key, context.waker()) {
                return None;
            }
            // It was woken or removed.
            *waker_at = None;
        }
        let mut passed = Ok(());
        for point in &ticket.points {
            let timeline = device.timeline(*point);
            let (cursor, spin) = (point.cursor, device.spin());
            passed = match self {
                WaitMode::NoWait => timeline.look(cursor)?,
                WaitMode::Block(deadline) => timeline.wait_until(cursor, spin, *deadline)?,
                WaitMode::Register(context) => match timeline.register(cursor, context.waker()) {
                    Some(key) => {
                        *waker_at = Some((*point, key));
                        return None;
                    }
                    // Not registered: the cursor has passed, or the timeline has ended and it never will.
                    None => timeline.look(cursor).unwrap_or(Err(Ended)),
                },
            };
            if passed.is_err() {
                break;
            }
        }
        if let Some((point, key)) = waker_at.take() {
            device.timeline(point).cancel(key);
        }
        Some(passed)
    }
}

impl<T: Send + 'static> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.device().channel().looked();
        self.device().channel().leaves_waker();
        let answer = self.poll_answer(context);
        if answer.is_pending() {
            self.device().channel().awaited();
        }
        answer
    }
}
