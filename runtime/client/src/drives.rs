//! The devices that answer a sequence of readbacks, for a consumer that waits and must drive those that are driven.
//!
//! A consumer may wait before anything was asked, and one sequence may serve several devices, or a device and its reopened self. So
//! the askers note each new device here and wake the consumers that wait, which then drive it as well.

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
    /// A device that is still to answer lives, as its answer keeps it.
    devices: Vec<Weak<DeviceShared>>,
    /// How many devices have been noted so far.
    noted: u64,
    /// Wakers of consumers that wait now, by a key that each has.
    waiting: Slab<Waker>,
}

impl Drives {
    /// The device is asked.
    pub(super) fn note(&self, device: &Arc<DeviceShared>) {
        let mut known = lock(&self.0);
        let is_it = |other: &Weak<DeviceShared>| other.as_ptr() == Arc::as_ptr(device);
        if known.devices.iter().any(is_it) {
            return;
        }
        // Those that are gone need no drive: their answers have come.
        known.devices.retain(|device| device.strong_count() > 0);
        known.devices.push(Arc::downgrade(device));
        known.noted += 1;
        let waiting: Vec<_> = known
            .waiting
            .iter()
            .map(|(_, waker)| waker.clone())
            .collect();
        drop(known);
        // Wakers are foreign code: after the lock.
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The devices of now, and how many have been noted so far.
    pub(super) fn look(&self) -> (Vec<Arc<DeviceShared>>, u64) {
        let known = lock(&self.0);
        let devices = known.devices.iter().filter_map(Weak::upgrade).collect();
        (devices, known.noted)
    }

    /// Whether devices were noted since `noted`. If not, the waker will be woken by the next one; it lies under `key` until
    /// [`Drives::forget`].
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

    /// The consumer waits no longer.
    pub(super) fn forget(&self, key: usize) {
        let waker = lock(&self.0).waiting.try_remove(key);
        drop(waker);
    }
}
