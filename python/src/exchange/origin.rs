//! What a buffer knows of its device.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::ComputeClient;

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
    pins: AtomicUsize,
}

impl Origin {
    pub(crate) fn new(client: ComputeClient, place: Place) -> Arc<Self> {
        Arc::new(Self {
            client,
            place,
            pins: AtomicUsize::new(0),
        })
    }

    /// Returns the number of uses of pins of the device's memory.
    pub(crate) fn pins(&self) -> usize {
        // Relaxed: a pin of another thread may come or go at any time; those of this thread are counted.
        self.pins.load(Ordering::Relaxed)
    }

    /// Counts a pin until the value is dropped.
    pub(crate) fn count_pin(self: &Arc<Self>) -> CountedPin {
        // Relaxed: see `pins`.
        self.pins.fetch_add(1, Ordering::Relaxed);
        ALL_PINS.fetch_add(1, Ordering::Relaxed);
        CountedPin(self.clone())
    }
}

/// Counts as a pin of its device. A clone counts as another.
pub(crate) struct CountedPin(Arc<Origin>);

impl Clone for CountedPin {
    fn clone(&self) -> Self {
        self.0.count_pin()
    }
}

/// The pins of all devices.
static ALL_PINS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of uses of pins of all devices.
pub(super) fn all_pins() -> usize {
    // Relaxed: see `Origin::pins`.
    ALL_PINS.load(Ordering::Relaxed)
}

impl Drop for CountedPin {
    fn drop(&mut self) {
        // Relaxed: see `Origin::pins`.
        ALL_PINS.fetch_sub(1, Ordering::Relaxed);
        // Relaxed: see `Origin::pins`.
        self.0.pins.fetch_sub(1, Ordering::Relaxed);
    }
}
