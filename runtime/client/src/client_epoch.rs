//! A client's state in one epoch of its device: the credits that limit its work in flight.

use std::sync::Arc;

use millstream_protocol::{AtLimit, ClientSlotId, Limit, SlotRef};
use millstream_sync::credit::Credit;

use crate::DeviceShared;

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
