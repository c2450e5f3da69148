//! Allocation: takes a slot of the table at once, and sends a message that gives it memory.

use std::slice;

use millstream_protocol::{
    AllocationMode, ArgumentError, Error, MemoryError, Registration, SliceId, SlotRef, Stored,
    Strided,
};

use crate::Stream;
use crate::create::NewSlice;
use crate::handle::Handle;

impl Stream {
    /// Allocates memory for `len` elements, with undefined contents. The device reserves the memory when it admits the
    /// task, so this does not wait for it. May block while there is no room for the task; also while dropped slices
    /// whose tasks have not completed use up the client's hard limit or
    /// [`max_handles`](millstream_protocol::DeviceOptions::max_handles).
    ///
    /// # Errors
    /// [`Error::Argument`] if the bytes overflow. [`Error::Memory`] for what is known at once: live handles that use up
    /// these limits, a size above the device's maximum. If the device has no memory when it admits the task, the slice is poisoned, and tasks and
    /// callers that read it receive the error.
    pub fn empty<T: Stored>(&self, len: usize) -> Result<Handle<T>, Error> {
        self.reserve(len, AllocationMode::Automatic)
    }

    /// As [`Stream::empty`], with a choice of where the memory comes from.
    ///
    /// # Errors
    /// Same as [`Stream::empty`].
    pub fn empty_with<T: Stored>(
        &self,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Handle<T>, Error> {
        self.reserve(len, mode)
    }

    pub(crate) fn reserve<T: Stored>(
        &self,
        len: usize,
        mode: AllocationMode,
    ) -> Result<Handle<T>, Error> {
        let slice = self.new_slice::<T>(len, mode)?;
        let bytes = slice.binding().len;
        self.submit_reservation(slice)
            .map(|hold| Handle::new(hold, bytes))
    }

    /// Takes a slot and the client's memory for `len` elements, and the `permit` of their upload.
    ///
    /// A call that blocks takes the memory first: memory may return late, and callers that hold memory may need the
    /// uploads to go on. An awaited call keeps the memory that it was granted while it waits for uploads.
    pub(crate) fn slice_for_upload<T: Stored, P>(
        &self,
        len: usize,
        permit: impl FnOnce() -> Result<P, Error>,
    ) -> Result<(NewSlice, P), Error> {
        let slice = || self.new_slice::<T>(len, AllocationMode::Automatic);
        if !self.waits() {
            let permit = permit()?;
            return Ok((slice()?, permit));
        }
        let slice = slice()?;
        Ok((slice, permit()?))
    }

    /// Takes a slot for a slice of `len` elements, and charges it to the client.
    pub(crate) fn new_slice<T: Stored>(
        &self,
        len: usize,
        mode: AllocationMode,
    ) -> Result<NewSlice, Error> {
        let slice = self.uncharged::<T>(len, mode)?;
        self.charge(slice::from_ref(&slice))?;
        Ok(slice)
    }

    /// Takes slots for tensors, and charges them to the client together.
    pub(crate) fn new_slices<T: Stored>(
        &self,
        layouts: &[Strided],
    ) -> Result<Vec<NewSlice>, Error> {
        let slices = layouts.iter().map(|layout| {
            let len = layout.extent_bytes() as usize / size_of::<T>();
            self.uncharged::<T>(len, AllocationMode::Automatic)
        });
        let slices = slices.collect::<Result<Vec<_>, Error>>()?;
        self.charge(&slices)?;
        Ok(slices)
    }

    /// Takes a slot for a slice of `len` elements.
    fn uncharged<T: Stored>(&self, len: usize, mode: AllocationMode) -> Result<NewSlice, Error> {
        let bytes = bytes_of::<T>(len)?;
        let limit = self.device().properties().max_allocation_bytes;
        if bytes > limit {
            return Err(MemoryError::TooLarge {
                client: self.client().shared.name.clone(),
                requested: bytes,
                limit,
            }
            .into());
        }
        let hold = self.device().slot(self.waits())?;
        Ok(NewSlice::new(hold, bytes, Some(mode)))
    }

    /// Takes a slot for a slice of `bytes` that has no memory.
    pub(crate) fn new_point(&self, bytes: u64) -> Result<NewSlice, Error> {
        Ok(NewSlice::new(
            self.device().slot(self.waits())?,
            bytes,
            None,
        ))
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
}

/// Returns the bytes of `len` elements.
pub(crate) fn bytes_of<T: Stored>(len: usize) -> Result<u64, ArgumentError> {
    let (elements, element_bytes) = (len as u64, size_of::<T>() as u64);
    let bytes = elements.checked_mul(element_bytes);
    bytes.ok_or_else(|| ArgumentError::size_overflow(elements, element_bytes))
}
