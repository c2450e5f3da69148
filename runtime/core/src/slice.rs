//! A slice as the device thread knows it.

use crate::failure::FailureRef;
use crate::hazard::faults::Faults;
use crate::hazard::log::AccessLog;
use crate::id::{ClientId, SliceId};
use crate::memory::Reservation;

/// A range of device memory that handles count.
///
/// Life: reserved when the device meets its `Reserve` task (or parked until memory returns), used
/// by tasks, dropped when its last handle goes, freed once no stream holds a task on it; its range
/// then returns to the pool with the points that still use it, its slot once those have passed.
pub(crate) struct Slice {
    pub(crate) id: SliceId,
    /// Bytes that were asked for.
    pub(crate) bytes: u64,
    pub(crate) client: ClientId,
    /// The mailbox position of its reservation: who asked first gets memory first.
    pub(crate) asked_at: u64,
    pub(crate) memory: Memory,
    pub(crate) log: AccessLog,
    pub(crate) faults: Faults,
    /// Tasks that streams hold and that name this slice.
    pub(crate) held_tasks: u32,
    /// The last handle is gone.
    pub(crate) dropped: bool,
}

/// What is behind a slice.
pub(crate) enum Memory {
    /// Nothing yet: its reservation waits in a stream.
    Pending,
    /// A range of a page.
    Reserved(Reservation),
    /// No memory at all: a point, or a slice of no bytes.
    None,
    /// Nothing, for ever: the reservation failed.
    Failed(FailureRef),
}
