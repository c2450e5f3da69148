//! The devices that answer a sequence of readbacks. A waiting consumer drives the driven ones.
//!
//! A consumer may wait before any readback was requested, and one sequence may serve several devices, or a device and
//! its reopened epoch. So each request adds its device here and wakes the waiting consumers, which then drive that
//! device as well.

use std::sync::{Arc, Weak};
use std::task::Waker;

use millstream_sync::facade::{Mutex, lock};
use slab::Slab;

use crate::DeviceShared;

/// The devices of a sequence.
#[derive(Default)]
pub(super) struct Drives(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// A device with an outstanding answer is alive, since the answer keeps it.
    devices: Vec<Weak<DeviceShared>>,
    /// The number of devices added so far.
    noted: u64,
    /// Wakers of the consumers that wait, by key.
    waiting: Slab<Waker>,
}

impl Drives {
    /// Adds a device that a readback was requested from, and wakes the waiting consumers if it is new.
    pub(super) fn note(&self, device: &Arc<DeviceShared>) {
        let mut known = lock(&self.0);
        let is_it = |other: &Weak<DeviceShared>| other.as_ptr() == Arc::as_ptr(device);
        if known.devices.iter().any(is_it) {
            return;
        }
        // Answers of dropped devices have arrived, so nothing is left to drive there.
        known.devices.retain(|device| device.strong_count() > 0);
        known.devices.push(Arc::downgrade(device));
        known.noted += 1;
        let waiting: Vec<_> = known
            .waiting
            .iter()
            .map(|(_, waker)| waker.clone())
            .collect();
        drop(known);
        // Wakers run foreign code, so wake them after the lock.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the devices, and the number of devices added so far.
    pub(super) fn look(&self) -> (Vec<Arc<DeviceShared>>, u64) {
        let known = lock(&self.0);
        let devices = known.devices.iter().filter_map(Weak::upgrade).collect();
        (devices, known.noted)
    }

    /// Returns whether devices were added since `noted` was read. If not, registers the waker for the next addition; it
    /// stays under `key` until [`SequenceDevices::forget`].
    pub(super) fn has_news(&self, noted: u64, key: &mut Option<usize>, waker: &Waker) -> bool {
        let mut known = lock(&self.0);
        if known.noted != noted {
            return true;
        }
        match key.and_then(|key| known.waiting.get_mut(key)) {
            Some(known) => known.clone_from(waker),
            None => *key = Some(known.waiting.insert(waker.clone())),
        }
        false
    }

    /// Removes the waker of a consumer that no longer waits.
    pub(super) fn forget(&self, key: usize) {
        let waker = lock(&self.0).waiting.try_remove(key);
        drop(waker);
    }
}
