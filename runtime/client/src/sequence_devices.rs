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
pub(super) struct SequenceDevices(Mutex<DeviceList>);

#[derive(Default)]
struct DeviceList {
    /// A device with an outstanding answer is alive, since the answer keeps it.
    devices: Vec<Weak<DeviceShared>>,
    /// The number of devices added so far.
    added: u64,
    /// Wakers of the consumers that wait, by key.
    wakers: Slab<Waker>,
}

impl SequenceDevices {
    /// Adds a device that a readback was requested from, and wakes the waiting consumers if it is new.
    pub(super) fn add(&self, device: &Arc<DeviceShared>) {
        let mut list = lock(&self.0);
        let is_device = |other: &Weak<DeviceShared>| other.as_ptr() == Arc::as_ptr(device);
        if list.devices.iter().any(is_device) {
            return;
        }
        // Answers of dropped devices have arrived, so nothing is left to drive there.
        list.devices.retain(|device| device.strong_count() > 0);
        list.devices.push(Arc::downgrade(device));
        list.added += 1;
        let wakers: Vec<_> = list.wakers.iter().map(|(_, waker)| waker.clone()).collect();
        drop(list);
        // Wakers run foreign code, so wake them after the lock.
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the devices, and the number of devices added so far.
    pub(super) fn snapshot(&self) -> (Vec<Arc<DeviceShared>>, u64) {
        let list = lock(&self.0);
        let devices = list.devices.iter().filter_map(Weak::upgrade).collect();
        (devices, list.added)
    }

    /// Returns whether devices were added since `added` was read. If not, registers the waker for the next addition; it
    /// stays under `key` until [`SequenceDevices::remove_waker`].
    pub(super) fn changed_since(&self, added: u64, key: &mut Option<usize>, waker: &Waker) -> bool {
        let mut list = lock(&self.0);
        if list.added != added {
            return true;
        }
        match key.and_then(|key| list.wakers.get_mut(key)) {
            Some(registered) => registered.clone_from(waker),
            None => *key = Some(list.wakers.insert(waker.clone())),
        }
        false
    }

    /// Removes the waker of a consumer that no longer waits.
    pub(super) fn remove_waker(&self, key: usize) {
        let waker = lock(&self.0).wakers.try_remove(key);
        drop(waker);
    }
}
