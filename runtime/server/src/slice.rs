//! A slice as the device thread knows it.

use millstream_protocol::failure::FailureRef;
use millstream_protocol::id::{ClientId, SliceId};

use crate::hazard::faults::Faults;
use crate::hazard::log::AccessLog;
use crate::memory::Reservation;

/// A range of device memory that handles count.
///
/// Life: reserved when the device meets its `Reserve` task (or parked until memory returns), used
/// by tasks, dropped when its last handle goes, freed once no stream holds a task on it; its range
/// then returns to the pool with the points that still use it, its slot once those have passed.
pub(crate) struct Slice {
    pub(crate) id: SliceId,
    pub(crate) client: ClientId,
    pub(crate) memory: Backing,
    pub(crate) log: AccessLog,
    pub(crate) faults: Faults,
    /// Tasks that streams hold and that name this slice.
    pub(crate) held_tasks: u32,
    /// The last handle is gone.
    pub(crate) dropped: bool,
    /// When it went, if a stream held a task on it then and latencies are sampled; else 0.
    pub(crate) dropped_ns: u64,
}

/// What is behind a slice. Each state knows the bytes that were asked for.
pub(crate) enum Backing {
    /// Nothing yet: its reservation waits in a stream.
    Pending(u64),
    /// A range of a page.
    Reserved(Reservation),
    /// No memory at all: a point, or a slice of no bytes.
    None(u64),
    /// Nothing, for ever: the reservation failed.
    Failed(u64, FailureRef),
}

impl Slice {
    /// Bytes that were asked for.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.memory {
            Backing::Reserved(reservation) => reservation.asked,
            Backing::Pending(bytes) | Backing::None(bytes) | Backing::Failed(bytes, _) => *bytes,
        }
    }
}
