//! An answer that comes later.
//!
//! It comes in two steps: the device thread says where the work is (a ticket), and the client then
//! waits for those points on the queues' timelines, woken by the queue itself. Errors up to the
//! points are settled before they are published, so what is taken then is final (I5).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use millstream_protocol::error::Error;
use millstream_protocol::failure::FailureRef;
use millstream_protocol::id::Point;
use millstream_protocol::marks::is_runtime_thread;
use millstream_protocol::message::Ticket;
use millstream_sync::facade::{SpinPolicy, THREADS};
use millstream_sync::reply::{Closed, ReplyReceiver};
use millstream_sync::timeline::{Ended, WaitKey};

use crate::{DeviceShared, Home};
use millstream_protocol::landing::Landed;

/// Where the value comes from once the work is done.
pub(crate) enum Finish<T> {
    /// It is there.
    Value(T),
    /// It lies where a copy landed.
    Landed(Arc<dyn Landed<T>>),
    /// It is made of several.
    Made(Box<dyn FnOnce() -> Result<T, FailureRef> + Send>),
}

impl<T> Finish<T> {
    /// The value.
    ///
    /// # Safety
    /// The work's points have passed.
    unsafe fn take(self) -> Result<T, FailureRef> {
        match self {
            Finish::Value(value) => Ok(value),
            // SAFETY: the caller's promise; `self` is used up, so this is the one time.
            Finish::Landed(landed) => unsafe { landed.take() },
            Finish::Made(make) => make(),
        }
    }
}

enum State<T> {
    /// The device will say where the work is.
    Asked(ReplyReceiver<Result<Ticket, Error>>, Finish<T>),
    /// The work is there.
    Issued(Ticket, Finish<T>),
    /// The device, or a host function, will give the value itself.
    Value(ReplyReceiver<Result<T, Error>>),
    /// It could not even be asked.
    Failed(Error),
    /// The answer was taken.
    Taken,
}

/// An answer that comes later: wait for it, poll it, await it, or leave it a callback.
///
/// Dropping it withdraws the answer, not the work.
#[must_use = "dropping an answer does not wait for it"]
pub struct Pending<T> {
    home: Home,
    state: State<T>,
    /// Where the last poll left its waker.
    woken_by: Option<(Point, WaitKey)>,
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some((point, key)) = self.woken_by.take() {
            self.home.device().timeline(point).cancel(key);
        }
    }
}

impl<T> Unpin for Pending<T> {}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn ticket(
        home: Home,
        receiver: ReplyReceiver<Result<Ticket, Error>>,
        finish: Finish<T>,
    ) -> Self {
        Self {
            home,
            state: State::Asked(receiver, finish),
            woken_by: None,
        }
    }

    pub(crate) fn value(home: Home, receiver: ReplyReceiver<Result<T, Error>>) -> Self {
        Self {
            home,
            state: State::Value(receiver),
            woken_by: None,
        }
    }

    pub(crate) fn failed(home: Home, error: Error) -> Self {
        Self {
            home,
            state: State::Failed(error),
            woken_by: None,
        }
    }

    /// Itself, if it was asked; else why it could not be: [`Error::Busy`] through [`Stream::nowait`](super::Stream::nowait), or
    /// arguments that do not fit. For those who await room: `stream.when_room(|stream| stream.read(&values).asked())`.
    ///
    /// # Errors
    /// What would be the answer otherwise.
    pub fn asked(mut self) -> Result<Self, Error> {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Failed(error) => Err(error),
            state => {
                self.state = state;
                Ok(self)
            }
        }
    }

    /// Blocks until the answer is there: spins briefly, then parks. On a driven device it pumps.
    ///
    /// # Errors
    /// What went wrong with the data, or with the device; [`Error::WouldDeadlock`] on a thread that
    /// the device needs.
    pub fn wait(mut self) -> Result<T, Error> {
        match self.wait_until(None) {
            Some(answer) => answer,
            None => Err(Error::Taken),
        }
    }

    /// Blocks until the answer is there, but not longer than `timeout`.
    ///
    /// An answer is given once. When the time is up it stays here, and can be waited for again as often as needed; once this has
    /// answered the value, or a failure, it has been taken, and every later call answers [`Error::Taken`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use millstream_client::Pending;
    /// # use millstream_protocol::error::Error;
    /// fn patient(mut answer: Pending<Vec<u32>>) -> Result<Vec<u32>, Error> {
    ///     match answer.wait_timeout(Duration::from_millis(5)) {
    ///         Err(Error::TimedOut { .. }) => answer.wait(), // it is still here
    ///         taken => taken, // keep it: `answer.wait()` would say that it was taken
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Pending::wait`]; [`Error::TimedOut`] when the time is up; [`Error::Taken`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<T, Error> {
        match self.wait_until(Instant::now().checked_add(timeout)) {
            Some(answer) => answer,
            None => Err(Error::TimedOut { waited: timeout }),
        }
    }

    /// The answer, if it is there; it is given once, as by [`Pending::wait_timeout`]. Never blocks; on a driven device it does not
    /// pump either.
    pub fn try_take(&mut self) -> Option<Result<T, Error>> {
        self.device().channel().looked();
        let answer = self.advance(&mut Else::Return);
        if answer.is_none() {
            self.device().channel().awaited();
        }
        answer
    }

    /// The answer, which is taken from here.
    pub(super) fn take(&mut self) -> Self {
        let taken = Self {
            home: self.home.clone(),
            state: State::Taken,
            woken_by: None,
        };
        std::mem::replace(self, taken)
    }

    /// Whether the work has been issued, so that the answer comes by itself.
    pub(super) fn is_issued(&self) -> bool {
        matches!(self.state, State::Issued(..))
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    fn device(&self) -> &DeviceShared {
        self.home.device()
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>> {
        // Also where the answer happens to be there already: a mistake is told every time.
        if is_runtime_thread() && !matches!(self.state, State::Failed(_)) {
            return Some(Err(Error::WouldDeadlock));
        }
        self.device().channel().waits();
        // In a model a look without a drive would be one more choice, and find nothing else.
        if THREADS && let Some(answer) = self.advance(&mut Else::Return) {
            return Some(answer);
        }
        let span = tracing::trace_span!(target: "millstream", "wait");
        let _entered = span.enter();
        if self.device().channel().drive().is_some() {
            return self.drive_until(deadline);
        }
        // A drive of a device that runs by itself may have stepped in for its thread: then the answer is there.
        self.advance(&mut Else::Wait(deadline))
    }

    /// Waiting on a driven device is driving it.
    fn drive_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>> {
        loop {
            let worked = self.device().channel().drive().unwrap_or(false);
            if let Some(answer) = self.advance(&mut Else::Return) {
                return Some(answer);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            if !worked {
                let (home, mut answer) = (self.home.clone(), None);
                home.device().channel().rest(deadline, &mut |waker| {
                    answer = self.advance(&mut Else::Wake(&mut Context::from_waker(waker)));
                    answer.is_some()
                });
                if answer.is_some() {
                    return answer;
                }
            }
        }
    }

    /// Goes from state to state until the answer is there; where it is not, does what `otherwise` says.
    fn advance(&mut self, otherwise: &mut Else<'_, '_>) -> Option<Result<T, Error>> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Taken);
            let device = self.home.device();
            self.state = match state {
                State::Asked(mut receiver, finish) => {
                    match otherwise.receive(&mut receiver, device.spin()) {
                        None => {
                            self.state = State::Asked(receiver, finish);
                            return None;
                        }
                        Some(Ok(Ok(ticket))) => State::Issued(ticket, finish),
                        Some(Ok(Err(error))) => return Some(Err(error)),
                        Some(Err(_closed)) => return Some(Err(device.gone())),
                    }
                }
                State::Issued(ticket, finish) => {
                    match otherwise.pass(device, &ticket, &mut self.woken_by) {
                        None => {
                            self.state = State::Issued(ticket, finish);
                            return None;
                        }
                        Some(Ok(())) => {
                            // SAFETY: all points have passed.
                            let answer = unsafe { finish.take() };
                            return Some(answer.map_err(|failure| device.told(failure)));
                        }
                        Some(Err(Ended)) => return Some(Err(device.gone())),
                    }
                }
                State::Value(mut receiver) => {
                    match otherwise.receive(&mut receiver, device.spin()) {
                        None => {
                            self.state = State::Value(receiver);
                            return None;
                        }
                        Some(answer) => {
                            return Some(answer.unwrap_or_else(|_closed| Err(device.gone())));
                        }
                    }
                }
                State::Failed(error) => return Some(Err(error)),
                State::Taken => return Some(Err(Error::Taken)),
            };
        }
    }

    /// Looks, and leaves the waker where the answer will come.
    pub(super) fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        match self.advance(&mut Else::Wake(context)) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

/// What to do where an answer is not there yet.
enum Else<'a, 'c> {
    /// Nothing.
    Return,
    /// Wait for it, not beyond the deadline.
    Wait(Option<Instant>),
    /// Leave a waker where it will come.
    Wake(&'a mut Context<'c>),
}

impl Else<'_, '_> {
    /// What a receiver has got, if it has.
    fn receive<V>(
        &mut self,
        receiver: &mut ReplyReceiver<V>,
        spin: &SpinPolicy,
    ) -> Option<Result<V, Closed>> {
        match self {
            Else::Return => receiver.try_take(),
            Else::Wait(None) => Some(receiver.wait(spin)),
            Else::Wait(Some(deadline)) => receiver.wait_deadline(spin, *deadline),
            Else::Wake(context) => match receiver.poll_take(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            },
        }
    }

    /// Whether all points have passed, or why the rest will not. The waker that a poll leaves is at `woken_by`.
    fn pass(
        &mut self,
        device: &DeviceShared,
        ticket: &Ticket,
        woken_by: &mut Option<(Point, WaitKey)>,
    ) -> Option<Result<(), Ended>> {
        if let (Else::Wake(context), Some((point, key))) = (&mut *self, *woken_by)
            && device.timeline(point).replace(key, context.waker())
        {
            return None;
        }
        // It has fired, or was taken.
        *woken_by = None;
        for point in &ticket.points {
            let timeline = device.timeline(*point);
            let (cursor, spin) = (point.cursor, device.spin());
            let passed = match self {
                Else::Return => timeline.look(cursor)?,
                Else::Wait(None) => timeline.wait(cursor, spin),
                Else::Wait(Some(deadline)) => timeline.wait_deadline(cursor, spin, *deadline)?,
                Else::Wake(context) => match timeline.register(cursor, context.waker()) {
                    Some(key) => {
                        *woken_by = Some((*point, key));
                        return None;
                    }
                    // It has passed, or has ended: nothing else comes of it.
                    None => timeline.look(cursor).unwrap_or(Err(Ended)),
                },
            };
            if let Err(ended) = passed {
                return Some(Err(ended));
            }
        }
        Some(Ok(()))
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
