//! What a buffer knows of its device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

use millstream::{ComputeClient, Handle};

use super::abi;

/// The backend of a device, as far as the exchange of memory depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Memory of the host, of the backend `cpu`.
    Cpu,
    /// Memory of the host, of the simulator.
    Sim,
    /// Memory of this GPU of CUDA.
    Cuda(usize),
    /// Memory of this GPU of Vulkan.
    Vulkan(usize),
}

impl Place {
    /// Returns the device in DLPack's terms.
    pub(crate) fn device(self) -> abi::Device {
        match self {
            Place::Cpu | Place::Sim => abi::Device::CPU,
            Place::Cuda(index) => abi::Device::cuda(index),
            Place::Vulkan(index) => abi::Device::vulkan(index),
        }
    }
}

/// The device of a buffer.
pub(crate) struct Origin {
    /// The device's default client, which submits the tasks of pins and copies.
    pub(crate) client: ComputeClient,
    pub(crate) place: Place,
    /// What is in use, and what was until it is removed.
    uses: Mutex<Vec<Weak<Use>>>,
}

/// Memory of a buffer that a consumer outside of the runtime uses.
pub(crate) struct Use {
    handle: Handle<u8>,
    is_writable: bool,
    /// The thread that exported it.
    thread: ThreadId,
    /// The buffer in messages.
    buffer: String,
}

impl Use {
    /// Describes the use in messages.
    pub(crate) fn describe(&self) -> String {
        let access = match self.is_writable {
            true => "writable",
            false => "read-only",
        };
        format!("a {access} view of `{}`", self.buffer)
    }
}

impl Origin {
    pub(crate) fn new(client: ComputeClient, place: Place) -> Arc<Self> {
        Arc::new(Self {
            client,
            place,
            uses: Mutex::default(),
        })
    }

    fn list(&self) -> MutexGuard<'_, Vec<Weak<Use>>> {
        // A panic cannot leave the list in a bad state.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the uses of the device's memory. Those of other threads may come or go at any time.
    pub(crate) fn uses(&self) -> Vec<Arc<Use>> {
        // Not dropped under the lock: the last reference may be one of these.
        self.list().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a use by this thread that an access of these bytes would wait for.
    pub(crate) fn own_conflict(&self, handle: &Handle<u8>, is_writable: bool) -> Option<Arc<Use>> {
        let own = thread::current().id();
        let conflicts = |used: &Arc<Use>| {
            used.thread == own && (is_writable || used.is_writable) && used.handle.overlaps(handle)
        };
        self.uses().into_iter().find(conflicts)
    }

    /// Counts a use of a buffer that has this name, until the last reference to the value is dropped.
    pub(crate) fn count_pin(
        &self,
        handle: Handle<u8>,
        is_writable: bool,
        buffer: String,
    ) -> Arc<Use> {
        // Relaxed: a use of another thread may come or go at any time; those of this thread are counted.
        ALL_USES.fetch_add(1, Ordering::Relaxed);
        let counted = Arc::new(Use {
            handle,
            is_writable,
            thread: thread::current().id(),
            buffer,
        });
        let mut uses = self.list();
        uses.retain(|used| used.strong_count() > 0);
        uses.push(Arc::downgrade(&counted));
        counted
    }
}

/// The uses of all devices.
static ALL_USES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of uses of all devices.
pub(super) fn all_uses() -> usize {
    // Relaxed: see `Origin::count_pin`.
    ALL_USES.load(Ordering::Relaxed)
}

impl Drop for Use {
    fn drop(&mut self) {
        // Relaxed: see `Origin::count_pin`.
        ALL_USES.fetch_sub(1, Ordering::Relaxed);
    }
}
