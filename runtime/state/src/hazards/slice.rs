//! A slice as the device thread sees it.

use millstream_protocol::{
    Binding, BoundSlice, ClientId, FailureRef, PageId, Reason, SliceId, hazard::log::AccessLog,
};

use crate::memory::Reservation;
use crate::points::Points;
use millstream_sync::ranges::Ranges;

/// A range of device memory that handles count.
///
/// Its life: it gets memory when the server admits its `Reserve` task, or later if that parks for memory. Tasks use it.
/// It is dropped with its last handle, and removed once no held task names it. Then its range returns to the pool with
/// the points that still use it, and its slot is recycled once these have passed.
pub struct Slice {
    pub id: SliceId,
    pub client: ClientId,
    pub backing: Backing,
    pub(super) log: AccessLog,
    /// The failures that the device thread found when it issued tasks, in issue order, which is the order of every
    /// conflicting pair of tasks. Those that a queue finds while a task runs are recorded by
    /// [`settle`](millstream_protocol::settle). `None` while no byte is poisoned.
    pub(super) poisoned: Option<Box<Ranges<FailureRef>>>,
    /// The number of held tasks that name this slice.
    pub(super) held_tasks: u32,
    /// Whether the last handle is gone.
    pub dropped: bool,
}

/// What is left of a slice that was removed.
pub struct Removed {
    /// Its id.
    pub id: SliceId,
    /// The client that its memory is accounted to.
    pub client: ClientId,
    /// Its memory.
    pub backing: Backing,
    /// The points that still use its memory.
    pub busy: Points,
}

/// The memory of a slice. Each state has the number of bytes that were requested.
pub enum Backing {
    /// None yet: a stream holds its reservation.
    Pending(u64),
    /// A range of a page.
    Reserved(Reservation),
    /// None needed: a point, or a slice of no bytes.
    None(u64),
    /// None: the reservation failed. A task that overwrites the slice may try again.
    Failed(u64, FailureRef),
}

/// The reason why a binding cannot be handed to a backend.
pub enum Unbound {
    /// The slice does not exist, or its reservation has not been served. Neither happens.
    Missing,
    /// The task reads poisoned bytes, or the slice got no memory.
    Failed(FailureRef),
    /// The binding ends beyond the slice.
    Beyond {
        /// The end of the binding.
        end: u64,
        /// The number of bytes of the slice.
        bytes: u64,
    },
}

impl Slice {
    pub(super) fn new(id: SliceId, client: ClientId, bytes: u64) -> Self {
        Self {
            id,
            client,
            backing: Backing::Pending(bytes),
            // `Hazards::give` creates the log, once there is memory.
            log: AccessLog::default(),
            poisoned: None,
            held_tasks: 0,
            dropped: false,
        }
    }

    /// Returns the number of bytes that were requested.
    pub fn bytes(&self) -> u64 {
        match &self.backing {
            Backing::Reserved(reservation) => reservation.requested,
            Backing::Pending(bytes) | Backing::None(bytes) | Backing::Failed(bytes, _) => *bytes,
        }
    }

    /// Returns `true` if the slice has no poisoned ranges.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.poisoned.is_none()
    }

    /// Returns whether the slice has poisoned bytes, if that is known without what queues settled: `true` if it got no
    /// memory or has poisoned ranges, `false` for a parameter of a recording, which never has memory.
    pub(super) fn has_failed(&self) -> Option<bool> {
        match &self.backing {
            Backing::Failed(_, failure) => Some(failure.reason != Reason::Parameter),
            _ => self.poisoned.is_some().then_some(true),
        }
    }

    /// Resolves a binding that ends at `end`, if the slice has memory, enough bytes, and no poisoned ranges.
    #[inline(always)]
    pub(super) fn bind_clean(&self, binding: &Binding, end: u64) -> Option<BoundSlice> {
        match &self.backing {
            Backing::Reserved(reservation)
                if self.poisoned.is_none() && end <= reservation.requested =>
            {
                Some(reserved(binding, reservation))
            }
            _ => None,
        }
    }

    /// Resolves a binding for the backend. Returns an error if its bytes cannot be handed to the backend.
    #[inline]
    pub(super) fn bind(&self, binding: &Binding) -> Result<BoundSlice, Unbound> {
        debug_assert!(
            self.id == binding.slice,
            "a key is used after its slice was removed (I4)"
        );
        if binding.len == 0 {
            // An empty binding needs no memory and reads no failure; no log has an entry of it.
            return Ok(bound(binding, None, 0, 0));
        }
        let end = binding.offset.saturating_add(binding.len);
        if let Some(poisoned) = &self.poisoned
            && binding.access.reads()
            && let Some(failure) = poisoned.find(&(binding.offset..end))
        {
            return Err(Unbound::Failed(failure.clone()));
        }
        if end > self.bytes() {
            // Clients check this, but a message may be made by hand.
            let bytes = self.bytes();
            return Err(Unbound::Beyond { end, bytes });
        }
        match &self.backing {
            Backing::Reserved(reservation) => Ok(reserved(binding, reservation)),
            Backing::None(_) => Ok(bound(binding, None, 0, 0)),
            Backing::Failed(_, failure) => Err(Unbound::Failed(failure.clone())),
            Backing::Pending(_) => {
                debug_assert!(false, "a task is issued before its slice has memory");
                Err(Unbound::Missing)
            }
        }
    }
}

/// Returns the range of a binding in the memory of its slice.
#[inline(always)]
fn reserved(binding: &Binding, memory: &Reservation) -> BoundSlice {
    let offset = memory.offset + binding.offset;
    bound(binding, Some(memory.page), offset, binding.len)
}

#[inline(always)]
fn bound(binding: &Binding, page: Option<PageId>, offset: u64, len: u64) -> BoundSlice {
    BoundSlice {
        page,
        offset,
        len,
        access: binding.access,
        slice: binding.slice,
        slice_offset: binding.offset,
    }
}
