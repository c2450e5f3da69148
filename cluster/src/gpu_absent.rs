//! What takes the place of `gpu` without the feature `cuda`: no call moves its bytes between CUDA devices.

use std::ops::Range;
use std::sync::Arc;

use millstream::{DType, Device, Reason, Stream};

use crate::announcement::Operation;
use crate::network::NetworkPart;
use crate::part::Part;

/// The CUDA devices of a group: none that the group knows of.
pub(crate) struct Gpus;

/// There are no threads of groups.
#[derive(Default)]
pub(crate) struct Threads;

/// There is no way between CUDA devices.
#[derive(Clone, Copy)]
pub(crate) enum Transfer {}

/// There is no such call.
#[expect(dead_code, reason = "it is made by the same code as with the feature")]
pub(crate) struct Arrived {
    pub(crate) name: &'static str,
    pub(crate) transfer: Transfer,
    pub(crate) members: Box<[usize]>,
    pub(crate) parts: Vec<Part>,
}

impl Threads {
    pub(crate) fn join(&self) {}
}

impl Gpus {
    pub(crate) fn new<'a>(
        _devices: impl Iterator<Item = &'a Device>,
        _threads: &Arc<Threads>,
        _may_use_nccl: bool,
    ) -> Arc<Self> {
        Arc::new(Self)
    }

    pub(crate) fn transfer(
        &self,
        _operation: Operation,
        _dtype: DType,
        _members: &[usize],
    ) -> Option<Transfer> {
        None
    }

    pub(crate) fn begin(&self, call: Arrived) {
        match call.transfer {}
    }

    pub(crate) fn end(&self) {}
}

/// No stream is on a CUDA device that the group knows of.
pub(crate) fn is_on_gpu(_stream: &Stream) -> bool {
    false
}

/// The context of a CUDA device that is current on a thread. There is none without the feature `cuda`.
pub enum EnteredContext {}

impl EnteredContext {
    /// Returns `None`.
    ///
    /// # Errors
    /// None.
    pub fn of(_part: &mut NetworkPart) -> Result<Option<Self>, Reason> {
        Ok(None)
    }
}

/// Pinned memory for the bytes of a part on a CUDA device. There is none without the feature `cuda`.
pub enum Staging {}

/// A copy of a [`Staging`].
pub enum StagedCopy {}

impl Staging {
    /// Refuses the part.
    ///
    /// # Errors
    /// [`Reason::Refused`].
    pub fn new(_part: &mut NetworkPart, _pieces: usize, _bytes: usize) -> Result<Self, Reason> {
        let why = "its memory is of the host";
        Err(Reason::Refused(why.to_owned()))
    }

    /// Whether it can copy from and to the memory of a part.
    pub fn serves(&self, _part: &mut NetworkPart) -> bool {
        match *self {}
    }

    /// Returns the start of a piece.
    pub fn piece(&self, _piece: usize) -> *mut u8 {
        match *self {}
    }

    /// Copies from the device to a piece.
    ///
    /// # Errors
    /// None.
    ///
    /// # Safety
    /// None.
    pub unsafe fn load(
        &self,
        _part: &mut NetworkPart,
        _range: Range<usize>,
        _piece: usize,
    ) -> Result<StagedCopy, Reason> {
        match *self {}
    }

    /// Copies from a piece to the device.
    ///
    /// # Errors
    /// None.
    ///
    /// # Safety
    /// None.
    pub unsafe fn store(
        &self,
        _part: &mut NetworkPart,
        _range: Range<usize>,
        _piece: usize,
    ) -> Result<StagedCopy, Reason> {
        match *self {}
    }
}

impl StagedCopy {
    /// Returns the outcome once the copy has ended.
    pub fn poll(&mut self) -> Option<Result<(), Reason>> {
        match *self {}
    }
}
