//! The resources of a context that wait for their release, for `reaper`.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::CUmodule;
use millstream_protocol::{DeviceStatus, threads::Spawner};

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
#[derive(Default)]
pub(super) enum Place {
    /// On the thread that drops the owner.
    #[default]
    Drop,
    /// On a thread that this starts, unless the device is lost.
    Thread(Spawner, Arc<DeviceStatus>),
    /// In [`Context::release_retired`](super::Context::release_retired), which `pump` calls.
    Pump,
}

/// The retired resources of a context.
#[derive(Default)]
pub(super) struct Reaper {
    pub(super) place: Place,
    pub(super) retired: Vec<Retired>,
    /// Whether a thread will still look at the list.
    pub(super) is_running: bool,
}
