//! The resources of a context that wait for their release, for `reaper`.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUmodule;
use millstream_protocol::{
    DeviceStatus,
    threads::{Spawner, Thread},
};

/// A resource without an owner, which nothing uses any more.
#[derive(Clone, Copy)]
pub(super) enum Retired {
    /// Pinned memory.
    Pinned(NonNull<c_void>),
    Module(CUmodule),
}

// SAFETY: the driver accepts addresses and modules on any thread.
unsafe impl Send for Retired {}

/// Where retired resources are released.
pub(super) enum Place {
    /// On the thread that drops the owner.
    Drop,
    /// On a thread that this starts, unless the device is lost.
    Thread(Spawner, Arc<DeviceStatus>),
    /// In [`Context::release_retired`](super::Context::release_retired), which `pump` calls.
    Pump,
}

/// The retired resources of a context.
pub(super) struct Reaper(Mutex<State>);

pub(super) struct State {
    pub(super) place: Place,
    pub(super) retired: Vec<Retired>,
    /// Whether the thread will still look at the list.
    pub(super) is_running: bool,
    /// Whether a caller starts the thread and will store it.
    pub(super) is_starting: bool,
    pub(super) thread: Option<Thread<()>>,
}

impl Reaper {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            place: Place::Drop,
            retired: Vec::new(),
            is_running: false,
            is_starting: false,
            thread: None,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the list consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the thread that the caller has started, or none if it could not be started.
    pub(super) fn end_start(&self, thread: Option<Thread<()>>) {
        let mut state = self.lock();
        state.is_starting = false;
        state.is_running &= thread.is_some();
        state.thread = thread;
    }

    /// Takes what is left, for the drop of the context.
    pub(super) fn take(&mut self) -> Vec<Retired> {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.retired)
    }
}
