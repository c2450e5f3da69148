//! A session: one test's use of the intercepted driver. Sessions of a process run one after the other.
//!
//! The interception lies above the validation layer and the driver: they do not see a refused call. So the layer still
//! checks the calls that the backend makes after a refusal.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::calls;
use crate::state::{CHANGED, Fault, STATE, State, lock, lose, with};

/// The time in which objects are destroyed after the last request has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// The use of the driver by one test. No other session runs until it is dropped.
pub struct Session {
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    /// Waits for the turn, and begins. `None` if this machine has no Vulkan loader.
    pub fn begin() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        let turn = lock(&TURN);
        if !*INSTALLED.get_or_init(calls::install) {
            return None;
        }
        *lock(&STATE) = State::default();
        Some(Self { _turn: turn })
    }

    /// Refuses a call, once.
    pub fn refuse(&self, fault: Fault) {
        with(|state| {
            state.fault = Some(fault);
            (state.matched, state.refused) = (0, 0);
        });
    }

    /// Returns the number of calls that were refused because of the last fault.
    pub fn refused(&self) -> u64 {
        with(|state| state.refused)
    }

    /// Makes devices appear to lack an extension.
    pub fn hide(&self, extension: &'static CStr) {
        with(|state| state.hidden.push(extension));
    }

    /// Makes GPUs appear to be cards of their own.
    pub fn pretend_discrete(&self) {
        with(|state| state.discrete = true);
    }

    /// Makes the device appear to make no progress: waits block until their time limits, and values of semaphores stay
    /// at 0.
    pub fn hold(&self) {
        self.hold_at(0);
    }

    /// As [`Session::hold`], but with values up to `value`.
    pub fn hold_at(&self, value: u64) {
        with(|state| state.held = Some(value));
        CHANGED.notify_all();
    }

    /// Returns the last value that a submission signals.
    pub fn signalled(&self) -> u64 {
        with(|state| state.signalled)
    }

    /// Blocks until `count` calls more than at `before` are counted by this name, or until the patience ends. Returns
    /// `false` then.
    pub fn await_count(
        &self,
        name: &'static str,
        count: u64,
        before: &BTreeMap<&'static str, u64>,
    ) -> bool {
        let before = before.get(name).copied().unwrap_or_default();
        let is_missing = |state: &mut State| {
            state.counts.get(name).copied().unwrap_or_default() < before + count
        };
        let waited = CHANGED.wait_timeout_while(lock(&STATE), PATIENCE, is_missing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Makes waits for semaphores block, whatever their time limits and values, while the device makes progress.
    pub fn stall(&self) {
        with(|state| state.stalled = true);
    }

    /// Ends [`Session::stall`]. Waits that it has stopped have no time limit any more.
    pub fn resume(&self) {
        with(|state| state.stalled = false);
        CHANGED.notify_all();
    }

    /// Ends [`Session::hold`] and [`Session::stall`].
    pub fn release(&self) {
        with(|state| (state.held, state.stalled) = (None, false));
        CHANGED.notify_all();
    }

    /// Blocks until this number of calls without a time limit waits because of [`Session::hold`], or of calls because of
    /// [`Session::stall`].
    pub fn await_held(&self, calls: usize) {
        let waited = CHANGED.wait_while(lock(&STATE), |state| state.waiting < calls);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Blocks until a call was refused, or this number of calls without a time limit waits because of [`Session::hold`]. Returns the number
    /// of refused calls.
    pub fn await_refused_or_held(&self, calls: usize) -> u64 {
        let goes_on = |state: &mut State| state.refused == 0 && state.waiting < calls;
        let waited = CHANGED.wait_while(lock(&STATE), goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).refused
    }

    /// Loses the device now, and ends [`Session::hold`]: every call that waits reports the loss.
    pub fn lose(&self) {
        with(|state| state.fault = None);
        lose(calls::wait_idle);
        self.release();
    }

    /// Returns the number of objects of a kind that are alive.
    pub fn alive(&self, kind: &str) -> usize {
        with(|state| state.alive.iter().filter(|(of, _)| *of == kind).count())
    }

    /// Returns the number of calls of each function so far.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        with(|state| state.counts.clone())
    }

    /// Returns the calls of each function since `before`.
    pub fn counts_since(
        &self,
        before: &BTreeMap<&'static str, u64>,
    ) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts();
        counts.retain(|name, count| {
            *count -= before.get(name).copied().unwrap_or_default();
            *count > 0
        });
        counts
    }

    /// Ends the session. Returns what is wrong: objects that are alive, or that were destroyed twice. Waits for threads
    /// that drop the last owner of an object at this moment.
    pub fn end(self) -> Vec<String> {
        let has_objects = |state: &mut State| !state.alive.is_empty();
        let waited = CHANGED.wait_timeout_while(lock(&STATE), PATIENCE, has_objects);
        let (mut guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let state = std::mem::take(&mut *guard);
        drop(guard);
        let leaks = state.alive.iter();
        let leaks = leaks.map(|(kind, handle)| format!("leak: {kind} {handle:#x}"));
        let mut all: Vec<_> = leaks.chain(state.mistakes.iter().cloned()).collect();
        all.sort();
        all
    }
}
