//! Answers that arrive later: waiting, polling, and registering for a wake.
//!
//! # States
//! ```text
//!  Waiting(answer) ──wait, poll, look──► Settled(value or error) ──result──► made: an object or exception
//! ```
//! The lock of the state is held by a thread that waits, for at most a slice. That thread is detached, and every other
//! thread locks it detached too, so nothing waits for this lock with the interpreter's lock.
//!
//! No code of Python runs under this lock: it may come here again, on the same thread. So an object is made outside of
//! the lock, by a closure that is shared. Several threads may each make one; the first that is stored is the answer.
//!
//! # Wakes
//! Event loops register as targets (`Pending::_register`). The runtime's waker rings all of them, and each polls again,
//! because an answer arrives in two steps: the work is issued, then it completes. Whatever settles the answer rings the
//! other targets.
//!
//! A loop adds its target before it tries the lock, and looks at `has_arrived` first. If the lock is taken, the holder
//! either settles the answer, sets `has_arrived` and then rings the target; or it does not, and looks for targets after it
//! has unlocked (`poll_for_targets`), so the runtime has a waker whenever there is a target.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use millstream::backend::Process;
use millstream::{CancelToken, Error};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};

use crate::errors::exception;
use crate::exchange::stall::StallWarning;
use crate::held::release_dropped;
use crate::submit::SLICE;
use crate::wakeups::{Bell, Wakeups};

/// Makes the object of a value that has arrived, any number of times.
pub(crate) type Make = Box<dyn Fn(Python<'_>) -> PyResult<Py<PyAny>> + Send + Sync>;

/// An answer of any type.
trait Answer: Send {
    fn wait_for(&mut self, time: Duration) -> Option<Result<Make, Error>>;
    fn look(&mut self) -> Option<Result<Make, Error>>;
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Make, Error>>;
}

struct Mapped<T, F> {
    pending: millstream::Pending<T>,
    map: F,
}

impl<T: Send + 'static, F: Fn(T) -> Make + Send> Answer for Mapped<T, F> {
    fn wait_for(&mut self, time: Duration) -> Option<Result<Make, Error>> {
        match self.pending.wait_timeout(time) {
            Err(Error::TimedOut { .. }) => None,
            answer => Some(answer.map(&self.map)),
        }
    }

    fn look(&mut self) -> Option<Result<Make, Error>> {
        self.pending.try_take().map(|answer| answer.map(&self.map))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Make, Error>> {
        let answer = Pin::new(&mut self.pending).poll(context);
        answer.map(|answer| answer.map(&self.map))
    }
}

enum State {
    Waiting(Box<dyn Answer>),
    Settled(Arc<Result<Make, Error>>),
}

fn clone_made(py: Python<'_>, made: &PyResult<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    match made {
        Ok(object) => Ok(object.clone_ref(py)),
        Err(error) => Err(error.clone_ref(py)),
    }
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

/// The answer to a request, which arrives later.
#[pyclass(frozen, weakref, generic, module = "millstream")]
pub(crate) struct Pending {
    state: Mutex<State>,
    /// Whether the state is no longer `Waiting`. Set before targets are rung.
    has_arrived: AtomicBool,
    /// The object or exception. An exception is normalized, so that a clone of it runs no code of Python.
    made: PyOnceLock<PyResult<Py<PyAny>>>,
    targets: Arc<Targets>,
    /// In a child that was forked since, the thread that held the lock of the state does not exist.
    process: Process,
    /// Withdraws the request, if nothing else is submitted under the token.
    cancel: Option<CancelToken>,
}

impl Pending {
    pub(crate) fn new<T: Send + 'static>(
        pending: millstream::Pending<T>,
        map: impl Fn(T) -> Make + Send + 'static,
    ) -> Self {
        Self {
            state: Mutex::new(State::Waiting(Box::new(Mapped { pending, map }))),
            has_arrived: AtomicBool::new(false),
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
        if !self.process.is_current() && !self.has_arrived() {
            return Err(exception(py, &Error::Forked));
        }
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
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Waiting(answer) = &mut *state else {
            return true;
        };
        let arrived = answer.wait_for(slice);
        let has_arrived = self.settle(&mut state, arrived, None);
        drop(state);
        has_arrived || self.poll_for_targets()
    }

    fn has_arrived(&self) -> bool {
        // Acquire: pairs with the Release in `settle`.
        self.has_arrived.load(Ordering::Acquire)
    }

    /// Polls if there are targets, whose loops may have found the lock taken. Returns whether the answer has arrived.
    fn poll_for_targets(&self) -> bool {
        !self.targets.list().is_empty() && self.poll_as(None)
    }

    /// Polls for a target, or for all, unless another thread has the lock. Returns whether the answer has arrived.
    fn poll_as(&self, target: Option<&Target>) -> bool {
        if self.has_arrived() {
            return true;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let State::Waiting(answer) = &mut *state else {
            return true;
        };
        let arrived = self.poll(answer.as_mut());
        self.settle(&mut state, arrived, target)
    }

    /// Polls the answer with the waker of the targets.
    fn poll(&self, answer: &mut dyn Answer) -> Option<Result<Make, Error>> {
        let waker = Waker::from(self.targets.clone());
        match answer.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(arrived) => Some(arrived),
            Poll::Pending => None,
        }
    }

    /// Stores an answer that has arrived and rings all targets but the caller's. Returns whether it has arrived.
    fn settle(
        &self,
        state: &mut State,
        arrived: Option<Result<Make, Error>>,
        caller: Option<&Target>,
    ) -> bool {
        let Some(arrived) = arrived else {
            return false;
        };
        *state = State::Settled(Arc::new(arrived));
        // Release: pairs with the Acquire in `has_arrived`. A target that is rung below observes it.
        self.has_arrived.store(true, Ordering::Release);
        self.targets.ring_others(caller);
        true
    }

    /// Returns the object of an answer that has arrived.
    fn made(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(made) = self.made.get(py) {
            return clone_made(py, made);
        }
        // Attached, for a moment in which no code of Python runs.
        let locked = self.state.lock_py_attached(py);
        let settled = match &*locked.unwrap_or_else(PoisonError::into_inner) {
            State::Waiting(_) => return Ok(py.None()),
            State::Settled(settled) => settled.clone(),
        };
        let made = match &*settled {
            Ok(make) => make(py),
            Err(error) => Err(exception(py, error)),
        };
        if let Err(error) = &made {
            error.value(py);
        }
        match self.made.set(py, clone_made(py, &made)) {
            Ok(()) => made,
            // Another thread, or code of Python that ran meanwhile, was first.
            Err(_) => self.made(py),
        }
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
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        if self.wait_until(py, deadline_of(timeout))? {
            return self.made(py);
        }
        let waited = Duration::try_from_secs_f64(timeout.unwrap_or(0.0).max(0.0));
        let waited = waited.unwrap_or_default();
        Err(exception(py, &Error::TimedOut { waited }))
    }

    fn done(&self, py: Python<'_>) -> bool {
        release_dropped(py);
        if self.has_arrived() {
            return true;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            // Another thread waits.
            Err(TryLockError::WouldBlock) => return false,
        };
        let State::Waiting(answer) = &mut *state else {
            return true;
        };
        let arrived = answer.look();
        let has_arrived = self.settle(&mut state, arrived, None);
        drop(state);
        has_arrived || self.poll_for_targets()
    }

    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.done(py) {
            true => self.made(py),
            false => {
                let waited = Duration::ZERO;
                Err(exception(py, &Error::TimedOut { waited }))
            }
        }
    }

    /// Registers a token that `wakeups` receives each time the answer advances. Returns `True` if it has arrived.
    fn _register(&self, py: Python<'_>, wakeups: &Bound<'_, Wakeups>, token: u64) -> bool {
        let target = (wakeups.get().bell.clone(), token);
        self.targets.list().push(target.clone());
        release_dropped(py);
        self.poll_as(Some(&target))
    }

    /// Polls again after a wake. Returns `True` if the answer has arrived.
    fn _poll(&self, py: Python<'_>, wakeups: &Bound<'_, Wakeups>, token: u64) -> bool {
        release_dropped(py);
        self.poll_as(Some(&(wakeups.get().bell.clone(), token)))
    }

    /// Removes a token.
    fn _unregister(&self, wakeups: &Bound<'_, Wakeups>, token: u64) {
        let target = (wakeups.get().bell.clone(), token);
        self.targets.list().retain(|other| !is_same(other, &target));
    }

    fn cancel(&self) -> bool {
        match &self.cancel {
            Some(token) => {
                token.cancel();
                true
            }
            None => false,
        }
    }

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
            true => "<Pending: done>",
            false => "<Pending: waiting>",
        }
    }
}
