//! Answers that arrive later: waiting, polling, and registering for a wake.
//!
//! # States
//! ```text
//!  waiting ──wait, poll, look──► settled: a value or an error ──result──► made: an object. Each error is a new exception
//! ```
//! The lock of `waiting` is held by a thread that waits, for at most a slice. That thread is detached, and no other thread
//! waits for the lock with the interpreter's lock: it waits detached, or only tries. An answer that has arrived needs no
//! lock, so a child that is forked meanwhile does not wait for a thread that it does not have.
//!
//! No code of Python runs under this lock: it may come here again, on the same thread. So an object is made outside of
//! the lock, by a closure that is shared, and what looked for the answer is dropped after the lock. Several threads may
//! each make an object; the first that is stored is the answer.
//!
//! # Wakes
//! Event loops register as targets (`Pending::_register`). The runtime's waker rings all of them, and each polls again,
//! because an answer arrives in two steps: the work is issued, then it completes. Whatever settles the answer rings the
//! other targets.
//!
//! A loop adds its target before it tries the lock, and looks at `settled` first. If the lock is taken, the holder either
//! settles the answer and then rings the target; or it does not, and looks for targets after it has unlocked
//! (`poll_for_targets`), so the runtime has a waker whenever there is a target.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use millstream::backend::Process;
use millstream::{CancelToken, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::exception;
use crate::exchange::stall::StallWarning;
use crate::held::release_dropped;
use crate::submit::SLICE;
use crate::wakeups::{Bell, Wakeups};

/// Makes the object of a value that has arrived, any number of times.
pub(crate) type Make = Box<dyn Fn(Python<'_>) -> PyResult<Py<PyAny>> + Send + Sync>;

/// An answer of any type: looks for it, and returns it if it has arrived.
type Answer = Box<dyn FnMut(Look<'_, '_>) -> Option<Result<Make, Error>> + Send>;

/// How a call looks for an answer.
enum Look<'a, 'b> {
    Now,
    Within(Duration),
    Poll(&'a mut Context<'b>),
}

/// An event loop that wants to know, with the token that it uses for the answer.
type Target = (Arc<Bell>, u64);

/// The event loops that want to know.
#[derive(Default)]
struct Targets(Mutex<Vec<Target>>);

impl Targets {
    fn list(&self) -> MutexGuard<'_, Vec<Target>> {
        // A panic cannot leave the list in a bad state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring_others(&self, caller: Option<&Target>) {
        for target in self.list().iter() {
            if caller.is_none_or(|caller| !is_same(caller, target)) {
                target.0.ring(target.1);
            }
        }
    }
}

impl Wake for Targets {
    fn wake(self: Arc<Self>) {
        self.ring_others(None);
    }
}

fn is_same(one: &Target, other: &Target) -> bool {
    one.1 == other.1 && Arc::ptr_eq(&one.0, &other.0)
}

/// An answer that arrives later. Wait for it, await it on asyncio or trio, or take its future.
///
/// The answer stays: every call returns the same object, or raises a new exception of the same failure. Any thread may
/// use it.
///
/// ```text
/// class Pending(Awaitable[T_co], Generic[T_co])
/// def __await__(self) -> Generator[Any, None, T_co]
/// ```
#[pyclass(frozen, weakref, generic, module = "millstream")]
pub(crate) struct Pending {
    /// `None` once the answer has arrived.
    waiting: Mutex<Option<Answer>>,
    /// The answer. Set under the lock, before targets are rung, and read without it.
    settled: OnceLock<Result<Make, Error>>,
    made: PyOnceLock<Py<PyAny>>,
    targets: Arc<Targets>,
    /// In a child that was forked since, a thread that held a lock does not exist.
    process: Process,
    /// Withdraws the request, if nothing else is submitted under the token.
    cancel: Option<CancelToken>,
}

impl Pending {
    pub(crate) fn new<T: Send + 'static>(
        mut pending: millstream::Pending<T>,
        map: impl Fn(T) -> Make + Send + 'static,
    ) -> Self {
        let answer = move |look: Look<'_, '_>| {
            let arrived = match look {
                Look::Now => pending.try_take(),
                Look::Within(time) => match pending.wait_timeout(time) {
                    Err(Error::TimedOut { .. }) => None,
                    arrived => Some(arrived),
                },
                Look::Poll(context) => match Pin::new(&mut pending).poll(context) {
                    Poll::Ready(arrived) => Some(arrived),
                    Poll::Pending => None,
                },
            };
            arrived.map(|arrived| arrived.map(&map))
        };
        Self {
            waiting: Mutex::new(Some(Box::new(answer))),
            settled: OnceLock::new(),
            made: PyOnceLock::new(),
            targets: Arc::default(),
            process: Process::current(),
            cancel: None,
        }
    }

    pub(crate) fn nothing(pending: millstream::Pending<()>) -> Self {
        Self::new(pending, |()| Box::new(|py| Ok(py.None())))
    }

    /// Adds the token that withdraws the request if its await is cancelled.
    pub(crate) fn with_cancel(mut self, cancel: Option<CancelToken>) -> Self {
        self.cancel = cancel;
        self
    }

    /// Waits for the answer until `deadline`, without the interpreter's lock, and runs signal handlers meanwhile. Returns
    /// whether it has arrived.
    pub(crate) fn wait_until(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<bool> {
        release_dropped(py);
        if self.has_arrived() {
            return Ok(true);
        }
        self.check_process()?;
        let mut stalled = StallWarning::new();
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            if py.detach(|| self.wait_slice(slice)) {
                release_dropped(py);
                return Ok(true);
            }
            py.check_signals()?;
            stalled.look(py)?;
            if left.is_some_and(|left| left <= slice) {
                return Ok(false);
            }
        }
    }

    /// Waits for the answer. The thread is detached.
    fn wait_slice(&self, slice: Duration) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.advance(waiting, None, Look::Within(slice)) || self.poll_for_targets()
    }

    /// Looks for the answer, unless another thread has the lock. Returns whether it has arrived.
    fn try_advance(&self, caller: Option<&Target>, look: Look<'_, '_>) -> bool {
        match self.waiting.try_lock() {
            Ok(waiting) => self.advance(waiting, caller, look),
            Err(TryLockError::Poisoned(waiting)) => {
                self.advance(waiting.into_inner(), caller, look)
            }
            // The other thread stores the answer.
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Refuses to wait in a child that was forked since: the answer would never arrive there.
    fn check_process(&self) -> PyResult<()> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(exception(Error::Forked)),
        }
    }

    fn has_arrived(&self) -> bool {
        self.settled.get().is_some()
    }

    /// Polls if there are targets, whose loops may have found the lock taken. Returns whether the answer has arrived.
    fn poll_for_targets(&self) -> bool {
        self.process.is_current() && !self.targets.list().is_empty() && self.poll_as(None)
    }

    /// Polls for a target, or for all, unless another thread has the lock. Returns whether the answer has arrived.
    fn poll_as(&self, target: Option<&Target>) -> bool {
        if self.has_arrived() {
            return true;
        }
        let waker = Waker::from(self.targets.clone());
        let mut context = Context::from_waker(&waker);
        self.try_advance(target, Look::Poll(&mut context))
    }

    /// Looks for the answer; if it has arrived, stores it and rings all targets but the caller's. Returns whether
    /// it has arrived.
    fn advance(
        &self,
        mut waiting: MutexGuard<'_, Option<Answer>>,
        caller: Option<&Target>,
        look: Look<'_, '_>,
    ) -> bool {
        let Some(answer) = &mut *waiting else {
            return true;
        };
        let Some(arrived) = answer(look) else {
            return false;
        };
        let answer = waiting.take();
        // Only the thread that takes `answer` sets it.
        let _ = self.settled.set(arrived);
        self.targets.ring_others(caller);
        // The lock first: `answer` may have the last reference to an object, whose destructor may come here.
        drop(waiting);
        drop(answer);
        true
    }

    /// Returns the object of an answer that has arrived.
    fn made(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let make = match self.settled.get() {
            None => return Ok(py.None()),
            // An exception that is raised again would keep, and lengthen, the traceback of each time before.
            Some(Err(error)) => return Err(exception(error)),
            Some(Ok(make)) => make,
        };
        let made = match self.made.get(py) {
            Some(made) => made,
            None => {
                let made = make(py)?;
                // Another thread, or code of Python that ran meanwhile, may have been first.
                self.made.get_or_init(py, || made)
            }
        };
        Ok(made.clone_ref(py))
    }
}

/// Converts a timeout in seconds to a deadline; a negative one has passed.
pub(crate) fn deadline_of(timeout: Option<f64>) -> Option<Instant> {
    let seconds = timeout?.max(0.0);
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    Instant::now().checked_add(time)
}

#[pymethods]
impl Pending {
    /// `(timeout: float | None = None) -> T_co`
    ///
    /// Blocks until the answer arrives, without the interpreter's lock. Ctrl-C ends the wait.
    ///
    /// :param timeout: seconds
    /// :raises WaitTimeout: it did not arrive in time; wait for it again
    /// :raises DeviceForked: the process was forked since, and the answer will not arrive
    /// :raises TaskFailed: a task failed whose data this reads
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        if self.wait_until(py, deadline_of(timeout))? {
            return self.made(py);
        }
        let waited = Duration::try_from_secs_f64(timeout.unwrap_or(0.0).max(0.0));
        let waited = waited.unwrap_or_default();
        Err(exception(Error::TimedOut { waited }))
    }

    /// `() -> bool`
    ///
    /// Returns whether the answer has arrived. Never blocks.
    ///
    /// :raises DeviceForked: the process was forked since, and the answer will not arrive
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        release_dropped(py);
        if self.has_arrived() || self.try_advance(None, Look::Now) || self.poll_for_targets() {
            return Ok(true);
        }
        // A thread of the parent may have had the lock, which nothing releases then.
        self.check_process().map(|()| false)
    }

    /// `() -> T_co`
    ///
    /// Returns the answer if it has arrived. Never blocks.
    ///
    /// :raises WaitTimeout: it has not arrived
    /// :raises DeviceForked: the process was forked since, and the answer will not arrive
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.done(py)? {
            return self.made(py);
        }
        let waited = Duration::ZERO;
        Err(exception(Error::TimedOut { waited }))
    }

    /// `(wakeups: Wakeups, token: int) -> bool`
    ///
    /// Registers a token that `wakeups` receives each time the answer advances. Returns `True` if it has arrived.
    ///
    /// :raises DeviceForked: the process was forked since, and the answer has not arrived
    fn _register(&self, py: Python<'_>, wakeups: &Wakeups, token: u64) -> PyResult<bool> {
        release_dropped(py);
        if self.has_arrived() {
            return Ok(true);
        }
        // Before a lock, which a thread of the parent may have held.
        self.check_process()?;
        let target = (wakeups.bell.clone(), token);
        self.targets.list().push(target.clone());
        Ok(self.poll_as(Some(&target)))
    }

    /// `(wakeups: Wakeups, token: int) -> bool`
    ///
    /// Polls again after a wake. Returns `True` if the answer has arrived.
    fn _poll(&self, py: Python<'_>, wakeups: &Wakeups, token: u64) -> bool {
        release_dropped(py);
        self.poll_as(Some(&(wakeups.bell.clone(), token)))
    }

    /// `(wakeups: Wakeups, token: int) -> None`
    ///
    /// Removes a token.
    fn _unregister(&self, wakeups: &Wakeups, token: u64) {
        let target = (wakeups.bell.clone(), token);
        self.targets.list().retain(|other| !is_same(other, &target));
    }

    /// `() -> bool`
    ///
    /// Withdraws the tasks of its `Stream.request` that have not begun. Returns `False` if it belongs to none.
    fn cancel(&self) -> bool {
        match &self.cancel {
            Some(token) => {
                token.cancel();
                true
            }
            None => false,
        }
    }

    /// `() -> Future[T_co]`
    ///
    /// Returns a future of the answer. Its callbacks run on one thread that belongs to Python alone.
    fn future(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let module = slf.py().import("millstream._async")?;
        module.call_method1("future", (slf,))
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let module = slf.py().import("millstream._async")?;
        let waiting = module.call_method1("wait", (slf,))?;
        waiting.call_method0("__await__")
    }

    fn __repr__(&self, py: Python<'_>) -> &'static str {
        match self.done(py) {
            Ok(true) => "<Pending: done>",
            _ => "<Pending: waiting>",
        }
    }
}
