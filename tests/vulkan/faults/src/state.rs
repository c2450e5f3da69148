//! The state of the session that runs: the fault, the objects alive, the counts. `calls` asks it before and after each
//! call.
//!
//! # Loss
//! A loss waits until the driver has completed all work, as the rules of Vulkan promise for a lost device: its objects
//! may be destroyed. From then on every call of the device that can report a loss does, until a device is created.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CStr;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ash::vk;

/// A refusal of the next calls that match.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The name of the function; `None` for any function that can be refused.
    pub call: Option<&'static str>,
    /// Which of the matching calls is refused, from 1.
    pub nth: u64,
    /// The result.
    pub result: vk::Result,
    /// Whether the device is lost from then on.
    pub lasts: bool,
}

/// The name by which the semaphores are counted that submissions wait for.
pub const WAITS: &str = "waits of submissions";

/// The name by which the waits are counted whose time limit has passed because the device appears to make no progress.
pub const TIMEOUTS: &str = "waits that timed out";

/// The name by which the waits are counted that have ended because a value was reached.
pub const REACHED: &str = "waits that reached a value";

/// What a wait for semaphores asks for.
#[derive(Clone, Copy)]
pub(crate) struct Waited {
    /// The lowest value at which the wait ends: of all semaphores, or of any.
    pub(crate) value: u64,
    /// The time limit, in nanoseconds; `u64::MAX` for none.
    pub(crate) limit_ns: u64,
}

/// What a wait does after the progress of the device was held.
pub(crate) enum Outcome {
    /// The call goes on.
    Proceeds,
    TimedOut,
    Lost,
}

/// The state of the session that runs.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) fault: Option<Fault>,
    /// Matching calls since the fault was set.
    pub(crate) matched: u64,
    pub(crate) refused: u64,
    pub(crate) lost: bool,
    /// The value that semaphores appear to have at most; `None` if the device makes progress.
    pub(crate) held: Option<u64>,
    /// Whether waits ignore their time limits and what they wait for.
    pub(crate) stalled: bool,
    /// Calls that wait because of `stalled`, and calls without a time limit that wait because of `held`.
    pub(crate) waiting: usize,
    /// The last value that a submission signals.
    pub(crate) signalled: u64,
    /// Objects alive: the kind and the handle.
    pub(crate) alive: HashSet<(&'static str, u64)>,
    /// Command buffers whose recording could not be ended.
    pub(crate) invalid: HashSet<u64>,
    /// Whether GPUs appear to be cards of their own.
    pub(crate) discrete: bool,
    /// Extensions that devices appear to lack.
    pub(crate) hidden: Vec<&'static CStr>,
    pub(crate) mistakes: Vec<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

pub(crate) static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
pub(crate) static CHANGED: Condvar = Condvar::new();
/// Serializes the uses of queues, so that a loss can wait for the device on any thread.
static QUEUES: Mutex<()> = Mutex::new(());

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a failed test the next session begins with a new state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    body(&mut lock(&STATE))
}

/// Waits until the device is idle, by `wait_idle` for each device; then it is lost.
pub(crate) fn lose(wait_idle: fn(u64)) {
    let _queues = lock(&QUEUES);
    let devices: Vec<_> = with(|state| {
        let alive = state.alive.iter();
        alive
            .filter(|(kind, _)| *kind == "Device")
            .map(|(_, handle)| *handle)
            .collect()
    });
    devices.into_iter().for_each(wait_idle);
    with(|state| state.lost = true);
    CHANGED.notify_all();
}

/// Counts a call.
pub(crate) fn count(call: &'static str) {
    with(|state| *state.counts.entry(call).or_default() += 1);
    CHANGED.notify_all();
}

/// Whether a call of a device may proceed.
pub(crate) fn enter(
    call: &'static str,
    of_device: bool,
    wait_idle: fn(u64),
) -> Result<(), vk::Result> {
    let fault = with(|state| {
        if state.lost && of_device {
            return Err(vk::Result::ERROR_DEVICE_LOST);
        }
        let Some(fault) = state.fault else {
            return Ok(None);
        };
        if fault.call.is_some_and(|name| name != call) {
            return Ok(None);
        }
        state.matched += 1;
        if state.matched != fault.nth {
            return Ok(None);
        }
        state.refused += 1;
        state.fault = None;
        CHANGED.notify_all();
        Ok(Some(fault))
    });
    match fault? {
        None => Ok(()),
        Some(fault) => {
            if fault.lasts && of_device {
                lose(wait_idle);
            }
            Err(fault.result)
        }
    }
}

/// Waits while the progress of the device is held below the value that a wait asks for.
pub(crate) fn wait_while_held(waited: Waited) -> Outcome {
    let mut guard = lock(&STATE);
    let limit = match waited.limit_ns {
        _ if guard.stalled => None,
        u64::MAX => None,
        ns => Some(Duration::from_nanos(ns)),
    };
    guard.waiting += usize::from(limit.is_none());
    CHANGED.notify_all();
    let is_blocked = |state: &mut State| {
        let is_held = state.held.is_some_and(|held| held < waited.value);
        (state.stalled || is_held) && !state.lost
    };
    let mut guard = match limit {
        None => CHANGED
            .wait_while(guard, is_blocked)
            .unwrap_or_else(PoisonError::into_inner),
        Some(limit) => {
            let waited = CHANGED.wait_timeout_while(guard, limit, is_blocked);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
    };
    guard.waiting = guard.waiting.saturating_sub(usize::from(limit.is_none()));
    if guard.lost {
        return Outcome::Lost;
    }
    match is_blocked(&mut guard) {
        true => {
            *guard.counts.entry(TIMEOUTS).or_default() += 1;
            CHANGED.notify_all();
            Outcome::TimedOut
        }
        false => Outcome::Proceeds,
    }
}

/// Returns the value that semaphores appear to have at most.
pub(crate) fn held() -> Option<u64> {
    with(|state| state.held)
}

/// Changes what a GPU appears to be.
pub(crate) fn pretend(gpu: &mut vk::PhysicalDeviceProperties) {
    if with(|state| state.discrete) {
        gpu.device_type = vk::PhysicalDeviceType::DISCRETE_GPU;
    }
}

/// Notes the value that a submission signals.
pub(crate) fn signals(value: u64) {
    with(|state| state.signalled = value);
}

pub(crate) fn is_hidden(extension: &CStr) -> bool {
    with(|state| state.hidden.contains(&extension))
}

pub(crate) fn is_lost() -> bool {
    with(|state| state.lost)
}

/// Calls `body` while no other thread uses a queue. A device that was lost meanwhile does no more work.
pub(crate) fn with_queues(body: impl FnOnce() -> vk::Result) -> vk::Result {
    let _queues = lock(&QUEUES);
    match is_lost() {
        true => vk::Result::ERROR_DEVICE_LOST,
        false => body(),
    }
}

/// Notes that a command buffer is being recorded.
pub(crate) fn begin_recording(commands: u64) {
    with(|state| state.invalid.remove(&commands));
}

/// Notes that the recording of a command buffer could not be ended, after which only a reset is allowed.
pub(crate) fn invalidate(commands: u64) {
    with(|state| state.invalid.insert(commands));
}

/// Notes that the recording of a command buffer is ended.
pub(crate) fn end_recording(commands: u64) {
    with(|state| {
        if state.invalid.contains(&commands) {
            let mistake = format!("command buffer {commands:#x} is invalid, and is ended");
            state.mistakes.push(mistake);
        }
    });
}

/// Notes that an object was created. A new device is not lost.
pub(crate) fn created(kind: &'static str, handle: u64) {
    with(|state| {
        state.lost &= kind != "Device";
        if !state.alive.insert((kind, handle)) {
            let mistake = format!("{kind} {handle:#x} was created twice");
            state.mistakes.push(mistake);
        }
    });
}

/// Notes that an object is destroyed.
pub(crate) fn destroyed(kind: &'static str, handle: u64) {
    with(|state| {
        if handle != 0 && !state.alive.remove(&(kind, handle)) {
            let mistake = format!("{kind} {handle:#x} is not alive, and is destroyed");
            state.mistakes.push(mistake);
        }
    });
    CHANGED.notify_all();
}
