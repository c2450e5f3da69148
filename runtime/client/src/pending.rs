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
use millstream_sync::facade::THREADS;
use millstream_sync::reply::ReplyReceiver;
use millstream_sync::timeline::WaitKey;

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
        let answer = self.advance();
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
        if THREADS && let Some(answer) = self.advance() {
            return Some(answer);
        }
        let span = tracing::trace_span!(target: "millstream", "wait");
        let _entered = span.enter();
        if self.device().channel().drive().is_some() {
            return self.drive_until(deadline);
        }
        // A drive of a device that runs by itself may have stepped in for its thread.
        if let Some(answer) = self.advance() {
            return Some(answer);
        }
        let home = self.home.clone();
        let device = home.device();
        let spin = device.spin();
        match &mut self.state {
            State::Asked(receiver, _) => {
                let answer = match deadline {
                    None => receiver.wait(spin),
                    Some(deadline) => receiver.wait_deadline(spin, deadline)?,
                };
                self.issued(answer);
            }
            State::Value(receiver) => {
                let answer = match deadline {
                    None => receiver.wait(spin),
                    Some(deadline) => receiver.wait_deadline(spin, deadline)?,
                };
                self.state = State::Taken;
                return Some(answer.unwrap_or_else(|_| Err(self.device().gone())));
            }
            _ => {}
        }
        if let State::Issued(ticket, _) = &self.state {
            for point in &ticket.points {
                let timeline = device.timeline(*point);
                let passed = match deadline {
                    None => timeline.wait(point.cursor, spin),
                    Some(deadline) => timeline.wait_deadline(point.cursor, spin, deadline)?,
                };
                if passed.is_err() {
                    self.state = State::Taken;
                    return Some(Err(self.device().gone()));
                }
            }
        }
        self.advance()
    }

    /// Waiting on a driven device is driving it.
    fn drive_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, Error>> {
        loop {
            let worked = self.device().channel().drive().unwrap_or(false);
            if let Some(answer) = self.advance() {
                return Some(answer);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            if !worked {
                let (home, mut answer) = (self.home.clone(), None);
                home.device().channel().rest(deadline, &mut |waker| {
                    match self.poll_answer(&mut Context::from_waker(waker)) {
                        Poll::Ready(ready) => answer = Some(ready),
                        Poll::Pending => {}
                    }
                    answer.is_some()
                });
                if answer.is_some() {
                    return answer;
                }
            }
        }
    }

    /// Takes in the device's word.
    fn issued(&mut self, answer: Result<Result<Ticket, Error>, millstream_sync::reply::Closed>) {
        let state = std::mem::replace(&mut self.state, State::Taken);
        self.state = match (state, answer) {
            (State::Asked(_, finish), Ok(Ok(ticket))) => State::Issued(ticket, finish),
            (_, Ok(Err(error))) => State::Failed(error),
            (_, Err(_closed)) => State::Failed(self.device().gone()),
            (state, _) => state,
        };
    }

    /// Goes as far as it can without blocking.
    fn advance(&mut self) -> Option<Result<T, Error>> {
        if let State::Asked(receiver, _) = &mut self.state {
            let answer = receiver.try_take()?;
            self.issued(answer);
        }
        match &mut self.state {
            State::Issued(ticket, _) => {
                let device = self.home.device();
                let open = ticket
                    .points
                    .iter()
                    .find(|point| device.timeline(**point).completed() < point.cursor);
                if let Some(point) = open {
                    if device.timeline(*point).has_ended() {
                        self.state = State::Taken;
                        return Some(Err(self.device().gone()));
                    }
                    return None;
                }
                match std::mem::replace(&mut self.state, State::Taken) {
                    State::Issued(_, finish) => {
                        // SAFETY: all points have passed.
                        Some(unsafe { finish.take() }.map_err(|failure| device.told(failure)))
                    }
                    _ => None,
                }
            }
            State::Value(receiver) => {
                let answer = receiver.try_take()?;
                self.state = State::Taken;
                Some(answer.unwrap_or_else(|_| Err(self.device().gone())))
            }
            State::Failed(_) => match std::mem::replace(&mut self.state, State::Taken) {
                State::Failed(error) => Some(Err(error)),
                _ => None,
            },
            State::Taken => Some(Err(Error::Taken)),
            State::Asked(..) => None,
        }
    }

    /// Looks, and leaves the waker where the answer will come.
    pub(super) fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        loop {
            match &mut self.state {
                State::Asked(receiver, _) => match receiver.poll_take(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(answer) => self.issued(answer),
                },
                State::Value(receiver) => match receiver.poll_take(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(answer) => {
                        self.state = State::Taken;
                        return Poll::Ready(answer.unwrap_or_else(|_| Err(self.device().gone())));
                    }
                },
                State::Issued(ticket, _) => {
                    if let Some((point, key)) = self.woken_by
                        && self
                            .home
                            .device()
                            .timeline(point)
                            .replace(key, context.waker())
                    {
                        return Poll::Pending;
                    }
                    self.woken_by = ticket.points.iter().find_map(|point| {
                        let key = self
                            .home
                            .device()
                            .timeline(*point)
                            .register(point.cursor, context.waker())?;
                        Some((*point, key))
                    });
                    if self.woken_by.is_some() {
                        return Poll::Pending;
                    }
                    if let Some(answer) = self.advance() {
                        return Poll::Ready(answer);
                    }
                }
                State::Failed(_) | State::Taken => {
                    return match self.advance() {
                        Some(answer) => Poll::Ready(answer),
                        None => Poll::Pending,
                    };
                }
            }
        }
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
