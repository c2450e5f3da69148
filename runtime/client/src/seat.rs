//! A client's place in one epoch of its device: the credits of that epoch that bound what the client has on its way.

use std::sync::Arc;

use millstream_protocol::charge::Limit;
use millstream_protocol::id::SeatId;
use millstream_protocol::table::Hold;
use millstream_sync::credit::Credit;

use crate::DeviceShared;

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
