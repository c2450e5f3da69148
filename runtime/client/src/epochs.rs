//! The state that clients share across the epochs of a device, so that they outlive a loss.
//!
//! Objects made in an epoch (streams, handles, kernels, recordings, answers) hold the [`DeviceShared`] of that epoch.
//! Once the epoch has ended its mailbox is closed, and every call on it returns the error that ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use millstream_protocol::{
    AtLimit, ClientId, ClientSlotId, DeviceProperties, Health, HealthState, Limit, Process, SlotRef,
};
use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, lock};

use crate::DeviceShared;

/// A value of the current epoch, which the value of a later epoch replaces.
///
/// A forked child takes no lock, since a thread of the parent may have held it, and replaces no value. It reads the address,
/// which names a value that is never dropped there:
///
/// ```text
///   replacing thread                       fork: the child reads
///   lock
///                                          the address of the old value, which `value` holds
///   address = next          (Release)
///                                          that of `next`, which this thread holds; it does not go on in the child
///   value = next
///   unlock, drop the old value             that of `next`, which `value` holds
/// ```
pub(crate) struct EpochCell<T> {
    value: Mutex<Arc<T>>,
    address: AtomicPtr<T>,
    process: Process,
}

impl<T> EpochCell<T> {
    pub(crate) fn new(first: Arc<T>) -> Self {
        Self {
            address: AtomicPtr::new(Arc::as_ptr(&first).cast_mut()),
            value: Mutex::new(first),
            process: Process::current(),
        }
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> Arc<T> {
        self.get_or_replace(|_| None)
    }

    /// Replaces the value if `next` returns another one, and returns the new value.
    pub(crate) fn get_or_replace(&self, next: impl FnOnce(&T) -> Option<Arc<T>>) -> Arc<T> {
        if !self.process.is_current() {
            // Relaxed: threads of the parent wrote it, before the fork.
            let address = self.address.load(Ordering::Relaxed);
            // SAFETY: it is the address of an `Arc`, which a field or a thread of the parent owns: see the type.
            return unsafe {
                Arc::increment_strong_count(address);
                Arc::from_raw(address)
            };
        }
        let mut value = lock(&self.value);
        let replaced = next(&value).map(|next| {
            let address = Arc::as_ptr(&next).cast_mut();
            // Release: before the old value is dropped.
            self.address.store(address, Ordering::Release);
            std::mem::replace(&mut *value, next)
        });
        let current = value.clone();
        drop(value);
        drop(replaced);
        current
    }
}

/// A device across its epochs: the current epoch, and the state that does not change.
pub struct DeviceEpochs {
    current: EpochCell<DeviceShared>,
    /// The same in every epoch.
    properties: DeviceProperties,
    health_state: Arc<HealthState>,
    clients: AtomicU32,
}

impl DeviceEpochs {
    /// Creates the state of a device in its first epoch.
    pub fn new(first: Arc<DeviceShared>, health_state: Arc<HealthState>) -> Arc<Self> {
        Arc::new(Self {
            properties: first.properties().clone(),
            current: EpochCell::new(first),
            health_state,
            clients: AtomicU32::new(0),
        })
    }

    /// Returns the current epoch. Takes no lock in a forked child.
    pub fn current(&self) -> Arc<DeviceShared> {
        self.current.get()
    }

    /// Makes `next` the current epoch. Clients create new objects in it from now on.
    pub fn begin_epoch(&self, next: Arc<DeviceShared>) {
        let epoch = next.epoch();
        self.current.get_or_replace(|_| Some(next));
        self.health_state.change(Health::Running { epoch });
    }

    /// Returns the properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// Returns the health record of the device.
    pub fn health_state(&self) -> &Arc<HealthState> {
        &self.health_state
    }

    pub(crate) fn next_client(&self) -> ClientId {
        // Relaxed: the ids must only be distinct.
        ClientId(self.clients.fetch_add(1, Ordering::Relaxed))
    }
}

// A client's state in one epoch of its device: the credits that limit its work in flight.

/// The limits of a client that were set on its builder; `None` for the device's default.
#[derive(Default)]
pub(crate) struct ClientLimits {
    /// Tasks of all its streams that are accepted and not issued.
    pub(crate) tasks: Option<u64>,
    /// Bytes of its uploads in flight.
    pub(crate) upload_bytes: Option<u64>,
    /// Bytes of its slices.
    pub(crate) memory_bytes: Option<u64>,
    /// What requests do at the limit of memory.
    pub(crate) at_limit: AtLimit,
}

/// A client in one epoch.
pub(crate) struct ClientEpoch {
    pub(crate) device: Arc<DeviceShared>,
    /// Its slot in the table, whose drop notifies the device that the client is gone. `None` if the table was full; the
    /// client's streams are refused then, too.
    hold: Option<SlotRef>,
    /// Credit for the tasks of all its streams, if they share one.
    pub(crate) tasks: Option<Arc<Credit>>,
    /// Credit for bytes of its uploads in flight.
    pub(crate) uploads: Arc<Credit>,
    /// Credit for its host functions, callbacks and deferred drops in flight.
    pub(crate) jobs: Arc<Credit>,
    /// The hard limit on its memory, if it has one.
    pub(crate) limit: Option<Arc<Limit>>,
}

impl ClientEpoch {
    pub(crate) fn new(device: Arc<DeviceShared>, limits: &ClientLimits) -> Arc<Self> {
        let options = device.settings();
        let upload_bytes = limits.upload_bytes.unwrap_or(options.max_upload_bytes);
        Arc::new(Self {
            tasks: limits.tasks.map(|tasks| device.gone.credit(tasks)),
            uploads: device.gone.credit(upload_bytes),
            jobs: device.gone.credit(options.max_jobs),
            limit: limits
                .memory_bytes
                .map(|bytes| Limit::new(bytes, device.gone.credit(bytes), limits.at_limit)),
            hold: device.table().acquire().ok(),
            device,
        })
    }

    /// Returns its id in the device's table.
    pub(crate) fn id(&self) -> Option<ClientSlotId> {
        self.hold.as_ref().map(|hold| ClientSlotId(hold.id()))
    }
}

#[cfg(all(test, unix, not(any(miri, loom, shuttle))))]
mod tests {
    use super::*;
    use crate::of_process::tests::in_child;

    /// I5: a child that was forked while a thread held the lock reads the value, and does not replace it.
    #[test]
    fn forked_child_reads_the_value_without_the_lock_i5() {
        let cell = EpochCell::new(Arc::new(1));
        cell.get_or_replace(|_| {
            let read = || [*cell.get(), *cell.get_or_replace(|_| Some(Arc::new(3)))];
            assert!(in_child(|| read() == [1, 1]));
            Some(Arc::new(2))
        });
        assert_eq!(*cell.get(), 2);
    }
}
