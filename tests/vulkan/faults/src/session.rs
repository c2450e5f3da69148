//! A session: one test's use of the intercepted driver. Sessions of a process run one after the other.
//!
//! The interception lies above the validation layer and the driver: they do not see a refused call. So the layer still
//! checks the calls that the backend makes after a refusal.
//!
//! # Loss
//! A loss waits until the driver has completed all work, as the rules of Vulkan promise for a lost device: its objects
//! may be destroyed. From then on every call of the device that can report a loss does, until a device is created.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use std::time::{Duration, Instant};

use ash::vk;

use crate::calls;

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

/// The time in which objects are destroyed after the last request has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of the session that runs.
#[derive(Default)]
struct State {
    fault: Option<Fault>,
    /// Matching calls since the fault was set.
    matched: u64,
    refused: u64,
    lost: bool,
    /// Whether the device appears to make no progress.
    held: bool,
    /// Calls that wait because of `held`.
    waiting: usize,
    /// Objects alive: the kind and the handle.
    alive: HashSet<(&'static str, u64)>,
    /// Command buffers whose recording could not be ended.
    invalid: HashSet<u64>,
    mistakes: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();
/// Serializes the uses of queues, so that a loss can wait for the device on any thread.
static QUEUES: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a failed test the next session begins with a new state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(body: impl FnOnce(&mut State) -> T) -> T {
    body(lock(&STATE).get_or_insert_default())
}

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
        *lock(&STATE) = Some(State::default());
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

    /// Makes the device appear to make no progress: waits block, and values of semaphores stay at 0.
    pub fn hold(&self) {
        with(|state| state.held = true);
    }

    /// Ends [`Session::hold`].
    pub fn release(&self) {
        with(|state| state.held = false);
        CHANGED.notify_all();
    }

    /// Blocks until this number of calls waits because of [`Session::hold`].
    pub fn await_held(&self, calls: usize) {
        let mut guard = lock(&STATE);
        while guard.get_or_insert_default().waiting < calls {
            guard = CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Loses the device now, and ends [`Session::hold`]: every call that waits reports the loss.
    pub fn lose(&self) {
        with(|state| state.fault = None);
        lose();
        self.release();
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
        let deadline = Instant::now() + PATIENCE;
        while with(|state| !state.alive.is_empty()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let state = lock(&STATE).take().unwrap_or_default();
        let leaks = state.alive.iter();
        let leaks = leaks.map(|(kind, handle)| format!("leak: {kind} {handle:#x}"));
        let mut all: Vec<_> = leaks.chain(state.mistakes.iter().cloned()).collect();
        all.sort();
        all
    }
}

/// Waits until the device is idle; then it is lost.
fn lose() {
    let _queues = lock(&QUEUES);
    let devices: Vec<_> = with(|state| {
        let alive = state.alive.iter();
        alive
            .filter(|(kind, _)| *kind == "Device")
            .map(|(_, handle)| *handle)
            .collect()
    });
    devices.into_iter().for_each(calls::wait_idle);
    with(|state| state.lost = true);
    CHANGED.notify_all();
}

/// Counts a call.
pub(crate) fn count(call: &'static str) {
    with(|state| *state.counts.entry(call).or_default() += 1);
}

/// Whether a call of a device may proceed.
pub(crate) fn enter(call: &'static str, of_device: bool) -> Result<(), vk::Result> {
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
        Ok(Some(fault))
    });
    match fault? {
        None => Ok(()),
        Some(fault) => {
            if fault.lasts && of_device {
                lose();
            }
            Err(fault.result)
        }
    }
}

/// Waits while the progress of the device is held. Returns `true` if the device is lost.
pub(crate) fn wait_while_held() -> bool {
    let mut guard = lock(&STATE);
    guard.get_or_insert_default().waiting += 1;
    CHANGED.notify_all();
    let is_blocked = |state: &mut State| state.held && !state.lost;
    while is_blocked(guard.get_or_insert_default()) {
        guard = CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    let state = guard.get_or_insert_default();
    state.waiting = state.waiting.saturating_sub(1);
    state.lost
}

pub(crate) fn is_held() -> bool {
    with(|state| state.held)
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
}
