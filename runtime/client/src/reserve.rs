//! Allocation: takes a slot of the table at once, and sends a message that gives it memory.

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, MemoryError};
use millstream_protocol::id::SliceId;
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::message::{Op, Registration};
use millstream_protocol::table::SlotRef;

use crate::Stream;
use crate::handle::Handle;

/// A slot that was charged to its client's limit, for a reservation that is not sent yet.
#[must_use = "its charge ends only if it is sent or given up"]
pub(crate) struct Claim {
    hold: SlotRef,
    bytes: u64,
    mode: Option<AllocationMode>,
}

impl Claim {
    /// Ends the charge: neither a handle nor a task holds the slot, so nothing else would.
    fn give_up(self) {
        self.hold.payload().charge.clear();
    }
}

impl Stream {
    /// Allocates memory for `len` elements, with undefined contents. The device reserves the memory when it admits the
    /// task, so this does not wait for it. May block while there is no room for the task; also while dropped slices
    /// whose tasks have not completed use up the client's hard limit or
    /// [`max_handles`](millstream_protocol::options::DeviceOptions::max_handles).
    ///
    /// # Errors
    /// [`Error::Memory`] for what is known at once: an overflow, live handles that use up these limits, a size above
    /// the device's maximum. If the device has no memory when it admits the task, the slice is poisoned, and tasks and
    /// callers that read it receive the error.
    pub fn empty<T: Element>(&self, len: usize) -> Result<Handle<T>, Error> {
        self.reserve(self.waits(), len, AllocationMode::Automatic)
    }

    /// As [`Stream::empty`], but never blocks.
    ///
    /// # Errors
    /// Also [`Error::Busy`].
    pub fn try_empty<T: Element>(&self, len: usize) -> Result<Handle<T>, Error> {
        self.reserve(false, len, AllocationMode::Automatic)
    }

    /// As [`Stream::empty`], with a choice of where the memory comes from.
    ///
    /// # Errors
    /// Same as [`Stream::empty`].
    pub fn empty_with<T: Element>(
        &self,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Handle<T>, Error> {
        self.reserve(self.waits(), len, mode)
    }

    pub(crate) fn reserve<T: Element>(
        &self,
        wait: bool,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Handle<T>, Error> {
        let claim = self.claim::<T>(wait, len, mode)?;
        self.send_claim(wait, claim)
    }

    /// Takes a slot and the client's memory for `len` elements, and the `permit` of their upload.
    ///
    /// A call that blocks takes the memory first: memory may return late, and callers that hold memory may need the
    /// uploads to go on. An awaited call keeps the memory that it was granted while it waits for uploads.
    pub(crate) fn claim_for_upload<T: Element, P>(
        &self,
        wait: bool,
        len: usize,
        permit: impl FnOnce() -> Result<P, Error>,
    ) -> Result<(Claim, P), Error> {
        let claim = || self.claim::<T>(wait, len, AllocationMode::Automatic);
        if !wait {
            let permit = permit()?;
            return Ok((claim()?, permit));
        }
        let claim = claim()?;
        match permit() {
            Ok(permit) => Ok((claim, permit)),
            Err(error) => {
                claim.give_up();
                Err(error)
            }
        }
    }

    fn claim<T: Element>(
        &self,
        wait: bool,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Claim, Error> {
        let element_bytes = size_of::<T>() as u64;
        let bytes =
            (len as u64)
                .checked_mul(element_bytes)
                .ok_or_else(|| MemoryError::SizeOverflow {
                    client: self.client().shared.name.clone(),
                    elements: len as u64,
                    element_bytes,
                })?;
        let limit = self.device().properties().max_allocation_bytes;
        if bytes > limit {
            return Err(MemoryError::TooLarge {
                client: self.client().shared.name.clone(),
                requested: bytes,
                limit,
            }
            .into());
        }
        self.claim_bytes(wait, bytes, Some(mode))
    }

    /// Sends the reservation of a claim.
    pub(crate) fn send_claim<T: Element>(
        &self,
        wait: bool,
        claim: Claim,
    ) -> Result<Handle<T>, Error> {
        let bytes = claim.bytes;
        self.send_reserve(wait, claim)
            .map(|hold| Handle::new(hold, bytes))
    }

    /// Takes a slot and sends a message that makes it a slice of `bytes`.
    pub(crate) fn reserve_bytes(
        &self,
        wait: bool,
        bytes: u64,
        mode: Option<AllocationMode>,
    ) -> Result<SlotRef, Error> {
        let claim = self.claim_bytes(wait, bytes, mode)?;
        self.send_reserve(wait, claim)
    }

    fn claim_bytes(
        &self,
        wait: bool,
        bytes: u64,
        mode: Option<AllocationMode>,
    ) -> Result<Claim, Error> {
        let hold = self.device().slot(wait)?;
        let limit = self.epoch().limit.as_ref();
        if let Some(limit) = limit.filter(|_| bytes > 0 && mode.is_some()) {
            self.charge(limit, (&hold, bytes), wait)?;
        }
        Ok(Claim { hold, bytes, mode })
    }

    /// Makes a slice that never has memory: a parameter, which replays bind.
    pub(crate) fn formal(&self, bytes: u64) -> Result<SlotRef, Error> {
        let device = self.device();
        let hold = device.slot(true)?;
        device.register(Registration::Parameter {
            id: SliceId(hold.id()),
            bytes,
            client: self.client().shared.id,
        })?;
        Ok(hold)
    }

    fn send_reserve(&self, wait: bool, claim: Claim) -> Result<SlotRef, Error> {
        let binding = Binding::new(SliceId(claim.hold.id()), 0, claim.bytes, Access::Write);
        match self.submit_reserve(wait, binding, claim.mode) {
            Ok(()) => Ok(claim.hold),
            Err(error) => {
                claim.give_up();
                Err(error)
            }
        }
    }

    fn submit_reserve(
        &self,
        wait: bool,
        binding: Binding,
        mode: Option<AllocationMode>,
    ) -> Result<(), Error> {
        let stream = self.registered_id()?;
        self.acquire_task_credit(wait)?;
        let op = Op::Reserve {
            client: self.client().shared.id,
            mode,
            position: 0,
        };
        let mut message = self.slot(wait)?.begin(Some(stream), op);
        message.push_binding(binding);
        self.bind_terms(&mut message);
        message.send();
        Ok(())
    }
}
