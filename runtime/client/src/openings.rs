//! A device through its epochs: what clients hold, so that they outlive a loss.
//!
//! What was made in an epoch (streams, handles, kernels, recordings, answers) holds that epoch's
//! [`DeviceShared`], whose mailbox is closed once the epoch has ended: it goes on answering what ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_protocol::health::Health;
use millstream_protocol::id::ClientId;
use millstream_protocol::properties::DeviceProperties;
use millstream_protocol::vitals::Vitals;
use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::DeviceShared;

/// A device through its epochs.
pub struct Openings {
    current: Mutex<Arc<DeviceShared>>,
    /// What the device is, in every epoch.
    properties: DeviceProperties,
    vitals: Arc<Vitals>,
    clients: AtomicU32,
}

impl Openings {
    /// A device in its first epoch.
    pub fn new(first: Arc<DeviceShared>, vitals: Arc<Vitals>) -> Arc<Self> {
        Arc::new(Self {
            properties: first.properties().clone(),
            current: Mutex::new(first),
            vitals,
            clients: AtomicU32::new(0),
        })
    }

    /// The device as it was opened last.
    pub fn current(&self) -> Arc<DeviceShared> {
        self.slot().clone()
    }

    /// A new epoch begins. Clients make what they make from here on in it.
    pub fn reopened(&self, next: Arc<DeviceShared>) {
        let epoch = next.epoch();
        *self.slot() = next;
        self.vitals.change(Health::Running { epoch });
    }

    /// What the device is.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// How the device is.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    pub(crate) fn next_client(&self) -> ClientId {
        // Relaxed: only that numbers differ matters.
        ClientId(self.clients.fetch_add(1, Ordering::Relaxed))
    }

    fn slot(&self) -> MutexGuard<'_, Arc<DeviceShared>> {
        lock(&self.current)
    }
}
