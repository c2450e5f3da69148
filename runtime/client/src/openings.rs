//! A device through its epochs: what clients hold, so that they outlive a loss.
//!
//! What was made in an epoch (streams, handles, kernels, recordings, answers) holds that epoch's
//! [`DeviceShared`], whose mailbox is closed once the epoch has ended: it goes on answering what ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_protocol::charge::Limit;
use millstream_protocol::health::{Health, Vitals};
use millstream_protocol::id::{ClientId, SeatId};
use millstream_protocol::properties::DeviceProperties;
use millstream_protocol::table::Hold;
use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::{ClientBuilder, DeviceShared};

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

    /// A client, to be given a name or limits.
    pub fn client_builder(self: &Arc<Self>) -> ClientBuilder {
        ClientBuilder::new(self.clone())
    }

    pub(crate) fn next_client(&self) -> ClientId {
        // Relaxed: only that numbers differ matters.
        ClientId(self.clients.fetch_add(1, Ordering::Relaxed))
    }

    fn slot(&self) -> MutexGuard<'_, Arc<DeviceShared>> {
        lock(&self.current)
    }
}

/// A client's own bounds, where it has any.
#[derive(Default)]
pub(crate) struct Bounds {
    /// On tasks of all its streams that are accepted and not issued.
    pub(crate) tasks: Option<u64>,
    /// On its uploads that are on their way.
    pub(crate) upload_bytes: Option<u64>,
    /// On the bytes of its slices.
    pub(crate) memory_bytes: Option<u64>,
}

/// A client in one epoch.
pub(crate) struct Seat {
    pub(crate) device: Arc<DeviceShared>,
    /// Its place in the table, by which the device learns that it is gone. A full table has none: its streams
    /// are refused then, too.
    hold: Option<Hold>,
    /// Credit for tasks of all its streams, if they share one.
    pub(crate) tasks: Option<Arc<Credit>>,
    /// Bytes of its uploads that are on their way.
    pub(crate) uploads: Arc<Credit>,
    /// Its host functions, callbacks and values to drop that are on their way.
    pub(crate) jobs: Arc<Credit>,
    /// The bytes that it may have; none means as many as the device has.
    pub(crate) limit: Option<Arc<Limit>>,
}

impl Seat {
    pub(crate) fn new(device: Arc<DeviceShared>, bounds: &Bounds) -> Arc<Self> {
        let options = device.settings();
        let upload_bytes = bounds.upload_bytes.unwrap_or(options.max_upload_bytes);
        Arc::new(Self {
            tasks: bounds.tasks.map(|tasks| device.credit(tasks)),
            uploads: device.credit(upload_bytes),
            jobs: device.credit(options.max_jobs),
            limit: bounds
                .memory_bytes
                .map(|bytes| Limit::new(bytes, device.credit(bytes))),
            hold: device.table().acquire().ok(),
            device,
        })
    }

    /// Its place in the device's table.
    pub(crate) fn id(&self) -> Option<SeatId> {
        self.hold.as_ref().map(|hold| SeatId(hold.id()))
    }
}
