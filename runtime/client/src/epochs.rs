//! The state that clients share across the epochs of a device, so that they outlive a loss.
//!
//! Objects made in an epoch (streams, handles, kernels, recordings, answers) hold the [`DeviceShared`] of that epoch.
//! Once the epoch has ended its mailbox is closed, and every call on it returns the error that ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_protocol::{ClientId, DeviceProperties, Health, HealthState};
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
