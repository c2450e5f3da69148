//! How a backend is opened.

use std::sync::Arc;

use millstream_sync::facade::SpinPolicy;

use crate::backend::Backend;
use crate::device_status::DeviceStatus;
use crate::error::OpenError;
use crate::staging::HostMemory;
use crate::table::Table;
use crate::threads::Spawner;

/// The environment of a backend.
pub struct HostContext {
    /// Whether the device is driven. If so the backend starts no thread, and queued tasks run in [`Backend::pump`].
    pub driven: bool,
    /// The table of slots with the poison of slices, for [`settle`](crate::settle).
    pub table: Arc<Table>,
    /// The number of spans to keep; 0 records none.
    pub trace_capacity: usize,
    /// How long the backend's own threads spin before they park.
    pub spin: SpinPolicy,
    /// Reports a loss that the backend notices outside of calls. The backend calls [`DeviceStatus::set_lost`] before it ends
    /// its timelines, so that callers that wait on them receive
    /// [`Error::DeviceLost`](crate::error::Error::DeviceLost).
    pub gone: Arc<DeviceStatus>,
    /// Starts all of the backend's own threads.
    pub spawner: Spawner,
}

impl HostContext {
    /// Sets the memory for uploads of 64 KiB and more, such as pinned memory of a GPU's driver, instead of the
    /// system's. The bytes of an upload lie there until the device copies them; they report it by
    /// [`OwnedBytes::host_block`](crate::message::OwnedBytes::host_block). Only the first call has an
    /// effect. The memory is freed when the epoch ends.
    pub fn set_host_memory(&self, memory: Arc<dyn HostMemory>) {
        self.table.sink().staging.set_memory(memory);
    }
}

/// The options of a kind of device, which open it.
pub trait Open: Send + 'static {
    /// The device.
    type Backend: Backend;

    /// The name of this kind of backend.
    const NAME: &'static str;

    /// Returns a copy of the options for reopening a lost device. `None`, the default, means that the options can be
    /// used only once; the caller that reopens then passes others.
    fn again(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`OpenError`]: what is missing, and what to do.
    fn open(self, context: HostContext) -> Result<Self::Backend, OpenError>;
}
