//! The devices that answer a sequence of readbacks. A waiting consumer drives the driven ones.
//!
//! A consumer may wait before any readback was requested, and one sequence may serve several devices, or a device and
//! its reopened epoch. So each request adds its device here and wakes the waiting consumers, which then drive that
//! device as well.

use std::sync::{Arc, Weak};
use std::task::Waker;

use millstream_sync::facade::{Mutex, MutexGuard, lock};
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
    /// Wakers of the consumers that wait, by key; `None` once woken. They run foreign code when they are cloned, woken or
    /// dropped: never under the lock.
    wakers: Slab<Option<Waker>>,
}

impl SequenceDevices {
    /// Adds a device that a readback was requested from, and wakes the waiting consumers if it is new.
    pub(super) fn add(&self, device: &Arc<DeviceShared>) {
        let list = lock(&self.0);
        let is_device = |other: &Weak<DeviceShared>| other.as_ptr() == Arc::as_ptr(device);
        if list.devices.iter().any(is_device) {
            return;
        }
        Self::insert(list, Arc::downgrade(device));
    }

    /// Adds a device, and wakes the waiting consumers.
    fn insert(mut list: MutexGuard<'_, DeviceList>, device: Weak<DeviceShared>) {
        // Answers of dropped devices have arrived, so nothing is left to drive there.
        list.devices.retain(|device| device.strong_count() > 0);
        list.devices.push(device);
        list.added += 1;
        let wakers = list.wakers.iter_mut();
        let wakers: Vec<_> = wakers.filter_map(|(_, waker)| waker.take()).collect();
        drop(list);
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
        let waker = waker.clone();
        let mut list = lock(&self.0);
        if list.added != added {
            return true;
        }
        let old = match key.and_then(|key| list.wakers.get_mut(key)) {
            Some(registered) => registered.replace(waker),
            None => {
                *key = Some(list.wakers.insert(Some(waker)));
                None
            }
        };
        drop(list);
        drop(old);
        false
    }

    /// Removes the waker of a consumer that no longer waits.
    pub(super) fn remove_waker(&self, key: usize) {
        let waker = lock(&self.0).wakers.try_remove(key);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{RawWaker, RawWakerVTable};
    use std::time::Duration;

    use super::*;

    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            call_back(data);
            RawWaker::new(data, &TABLE)
        },
        call_back,
        call_back,
        call_back,
    );

    fn call_back(data: *const ()) {
        // SAFETY: only the test below makes wakers with this table, of a value that is never dropped.
        let devices = unsafe { &*data.cast::<SequenceDevices>() };
        devices.snapshot();
    }

    /// I5: the clone, the drop and the wake of a user's waker may use the sequence.
    #[test]
    fn wakers_run_no_foreign_code_under_the_lock_i5() {
        let devices: &'static SequenceDevices = Box::leak(Box::default());
        // SAFETY: the functions of the table own nothing, and may be called from any thread.
        let waker = unsafe { Waker::new(std::ptr::from_ref(devices).cast(), &TABLE) };
        let (sender, receiver) = mpsc::channel();
        // Detached, so that a deadlock fails the test.
        std::thread::spawn(move || {
            let mut key = None;
            let other = Waker::noop();
            assert!(!devices.changed_since(0, &mut key, &waker));
            assert!(!devices.changed_since(0, &mut key, other));
            assert!(!devices.changed_since(0, &mut key, &waker));
            SequenceDevices::insert(lock(&devices.0), Weak::new());
            assert!(devices.changed_since(0, &mut key, &waker));
            assert!(!devices.changed_since(1, &mut key, &waker));
            key.into_iter().for_each(|key| devices.remove_waker(key));
            assert!(lock(&devices.0).wakers.is_empty());
            drop(waker);
            _ = sender.send(());
        });
        receiver
            .recv_timeout(Duration::from_secs(20))
            .expect("the thread ends");
    }
}
