//! The state that clients share across the epochs of a device, so that they outlive a loss.
//!
//! Objects made in an epoch (streams, handles, kernels, recordings, answers) hold the [`DeviceShared`] of that epoch.
//! Once the epoch has ended its mailbox is closed, and every call on it returns the error that ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_protocol::{
    AtLimit, ClientId, ClientSlotId, DeviceProperties, Health, HealthState, Limit, SlotRef,
};
use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::DeviceShared;

/// A device across its epochs: the current epoch, and the state that does not change.
pub struct DeviceEpochs {
    current: Mutex<Arc<DeviceShared>>,
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
            current: Mutex::new(first),
            health_state,
            clients: AtomicU32::new(0),
        })
    }

    /// Returns the current epoch.
    pub fn current(&self) -> Arc<DeviceShared> {
        self.slot().clone()
    }

    /// Makes `next` the current epoch. Clients create new objects in it from now on.
    pub fn begin_epoch(&self, next: Arc<DeviceShared>) {
        let epoch = next.epoch();
        *self.slot() = next;
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

    fn slot(&self) -> MutexGuard<'_, Arc<DeviceShared>> {
        lock(&self.current)
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
