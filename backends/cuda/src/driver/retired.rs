//! The resources of a context that wait for their release, for `reaper`.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUmodule;
use millstream_protocol::threads::{Spawner, Thread};

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
    /// On a thread that this starts.
    Thread(Spawner),
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
    pub(super) thread: Option<Thread<()>>,
}

impl Reaper {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            place: Place::Drop,
            retired: Vec::new(),
            is_running: false,
            thread: None,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the list consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is left, for the drop of the context.
    pub(super) fn take(&mut self) -> Vec<Retired> {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.retired)
    }
}
