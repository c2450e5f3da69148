//! How a device is opened.

use std::sync::Arc;

use millstream_sync::facade::SpinPolicy;

use crate::backend::Backend;
use crate::error::OpenError;
use crate::device_status::Gone;
use crate::staging::HostMemory;
use crate::table::Table;
use crate::threads::Spawner;

/// What a backend is opened with.
pub struct HostContext {
    /// Start no thread: queued work runs in [`Backend::pump`].
    pub driven: bool,
    /// The poison of slices, for [`settle`](crate::settle).
    pub table: Arc<Table>,
    /// Spans to keep; 0 records none.
    pub trace_capacity: usize,
    /// How long the backend's own threads spin before they park.
    pub spin: SpinPolicy,
    /// How a backend that finds out by itself that its device is lost tells so: by [`Gone::set_lost`], before it
    /// ends its timelines. Who waits on them is told of the loss then.
    pub gone: Arc<Gone>,
    /// Starts the backend's own threads, all of them.
    pub spawner: Spawner,
}

impl HostContext {
    /// Uploads of 64 KiB and more lie in this memory before the device copies them, instead of the system's: pinned memory of a GPU's
    /// driver, say. [`HostBytes::is_of_host_memory`](crate::message::HostBytes::is_of_host_memory) says of a copy in whether its bytes do.
    /// Only the first call counts. The memory goes when the epoch ends.
    pub fn set_host_memory(&self, memory: Arc<dyn HostMemory>) {
        self.table.sink().staging.set_memory(memory);
    }
}

/// Options of a device kind, and how it is opened.
pub trait Open: Send + 'static {
    /// The device.
    type Backend: Backend;

    /// The word for this kind of backend.
    const NAME: &'static str;

    /// The same options once more, to reopen a lost device with. `None`, the default: they can be used once
    /// only, and who reopens gives others.
    fn again(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Opens the device.
    ///
    /// # Errors
    /// What is missing, and what to do.
    fn open(self, context: HostContext) -> Result<Self::Backend, OpenError>;
}
