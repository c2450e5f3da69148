//! A slice as the device thread knows it.

use millstream_protocol::backend::BoundSlice;
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::{FailureRef, Reason};
use millstream_protocol::id::{ClientId, SliceId};

use super::poisoned_ranges::PoisonedRanges;
use crate::memory::Reservation;
use millstream_protocol::hazard::log::AccessLog;

/// A range of device memory that handles count.
///
/// Life: reserved when the device meets its `Reserve` task (or parked until memory returns), used
/// by tasks, dropped when its last handle goes, freed once no stream holds a task on it; its range
/// then returns to the pool with the points that still use it, its slot once those have passed.
pub(super) struct Slice {
    pub(super) id: SliceId,
    pub(super) client: ClientId,
    pub(super) backing: Backing,
    pub(super) log: AccessLog,
    pub(super) poisoned_ranges: PoisonedRanges,
    /// Tasks that streams hold and that name this slice.
    pub(super) held_tasks: u32,
    /// The last handle is gone.
    pub(super) dropped: bool,
    /// When it went, if a stream held a task on it then and latencies are sampled; else 0.
    pub(super) dropped_ns: u64,
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

/// Why a binding cannot be handed to a backend.
pub(crate) enum Unbound {
    /// There is no such slice.
    Gone,
    /// Its bytes hold no data, or never got memory.
    Failed(FailureRef),
    /// Its slice has no memory yet.
    Pending,
    /// It asks for bytes up to here of a slice that has fewer.
    Beyond {
        /// The end of what it asks for.
        end: u64,
        /// Bytes of the slice.
        bytes: u64,
    },
}

impl Slice {
    pub(super) fn new(id: SliceId, client: ClientId, bytes: u64) -> Self {
        Self {
            id,
            client,
            backing: Backing::Pending(bytes),
            // It starts when there is memory.
            log: AccessLog::default(),
            poisoned_ranges: PoisonedRanges::default(),
            held_tasks: 0,
            dropped: false,
            dropped_ns: 0,
        }
    }

    /// Bytes that were asked for.
    pub(super) fn bytes(&self) -> u64 {
        match &self.backing {
            Backing::Reserved(reservation) => reservation.requested,
            Backing::Pending(bytes) | Backing::None(bytes) | Backing::Failed(bytes, _) => *bytes,
        }
    }

    /// Whether it holds bytes that are no data, where that is known without what tasks have settled: no, of what stands for something
    /// in a recording; yes, if it has failed ranges.
    pub(super) fn has_failed(&self) -> Option<bool> {
        match &self.backing {
            Backing::Failed(_, failure) => Some(failure.reason != Reason::Parameter),
            _ => (!self.poisoned_ranges.is_clean()).then_some(true),
        }
    }

    /// A binding, up to `end`, if the slice has memory, no failed ranges, and the bytes.
    #[inline(always)]
    pub(super) fn bind_clean(&self, binding: &Binding, end: u64) -> Option<BoundSlice> {
        match &self.backing {
            Backing::Reserved(reservation)
                if self.poisoned_ranges.is_clean() && end <= reservation.requested =>
            {
                Some(BoundSlice {
                    page: Some(reservation.page),
                    offset: reservation.offset + binding.offset,
                    len: binding.len,
                    access: binding.access,
                    slice: binding.slice,
                    slice_offset: binding.offset,
                })
            }
            _ => None,
        }
    }

    /// A binding as the backend sees it, or what keeps its bytes from being data.
    #[inline]
    pub(super) fn bind(&self, binding: &Binding) -> Result<BoundSlice, Unbound> {
        debug_assert!(self.id == binding.slice, "a key outlived its slice (I4)");
        let bound = |page, base: u64, len| BoundSlice {
            page,
            offset: base + binding.offset,
            len,
            access: binding.access,
            slice: binding.slice,
            slice_offset: binding.offset,
        };
        if binding.len == 0 {
            // No bytes need no memory and cannot have failed; no log has an entry of them.
            return Ok(BoundSlice {
                offset: 0,
                ..bound(None, 0, 0)
            });
        }
        let end = binding.offset.saturating_add(binding.len);
        if !self.poisoned_ranges.is_clean()
            && binding.access.reads()
            && let Some(failure) = self.poisoned_ranges.find(&(binding.offset..end))
        {
            return Err(Unbound::Failed(failure.clone()));
        }
        if end > self.bytes() {
            // Clients check this; a hand-made message may not have.
            let bytes = self.bytes();
            return Err(Unbound::Beyond { end, bytes });
        }
        match &self.backing {
            Backing::Reserved(reservation) => Ok(bound(
                Some(reservation.page),
                reservation.offset,
                binding.len,
            )),
            Backing::None(_) => Ok(bound(None, 0, 0)),
            Backing::Failed(_, failure) => Err(Unbound::Failed(failure.clone())),
            Backing::Pending(_) => {
                debug_assert!(false, "a task goes before its slice has memory");
                Err(Unbound::Pending)
            }
        }
    }
}
