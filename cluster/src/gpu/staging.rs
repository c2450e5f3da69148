//! For networks that cannot access memory of CUDA devices: the bytes of a part on their way through pinned memory of the
//! host, piece by piece, while other pieces are on the network.
//!
//! ```text
//!  device:  piece 2 ──► load ──► host: piece 1 ◄──► network        host: piece 0 ──► store ──► device
//! ```
//! Both kinds of copies are on lanes of their own, outside of the queues of the device, since the data of a part is complete
//! when it begins. No call waits for a copy: the network polls its copies beside its requests.

use std::ops::Range;

use millstream::Reason;
use millstream::backend::Refused;
use millstream::cuda::{CurrentContext, HostPiece, Lane, Mark, PieceCopy};

use super::{mark_end, reason_of};
use crate::network::NetworkPart;
use crate::part::DeviceMemory;

/// The context of a CUDA device, current on the thread of the value until it is dropped.
#[must_use = "a drop restores the previous context"]
pub struct EnteredContext(#[expect(dead_code, reason = "a guard")] CurrentContext);

impl EnteredContext {
    /// Makes the context of a part's device current on this thread. `None` for a part with memory of the host.
    ///
    /// # Errors
    /// [`Reason::Lost`], [`Reason::Refused`].
    pub fn of(part: &mut NetworkPart) -> Result<Option<Self>, Reason> {
        let Ok(memory) = device_memory(part) else {
            return Ok(None);
        };
        let entered = memory.resources.enter().map_err(reason_of)?;
        Ok(Some(Self(entered)))
    }
}

/// Pinned memory of the host, in pieces, and the copies between it and the memory of parts on one CUDA device. May serve
/// any number of calls, one after the other.
pub struct Staging {
    loads: Lane,
    stores: Lane,
    pieces: Vec<HostPiece>,
}

impl Staging {
    /// Allocates pieces of this number of bytes for the device of a part.
    ///
    /// # Errors
    /// [`Reason::Refused`] if the part has memory of the host, or the driver refuses; [`Reason::Lost`].
    pub fn new(part: &mut NetworkPart, pieces: usize, bytes: usize) -> Result<Self, Reason> {
        let create = |resources: &millstream::cuda::CudaResources| {
            let loads = resources.new_lane()?;
            let pieces = (0..pieces).map(|_| loads.host_piece(bytes));
            Ok::<_, Refused>(Self {
                pieces: pieces.collect::<Result<_, _>>()?,
                stores: resources.new_lane()?,
                loads,
            })
        };
        create(device_memory(part)?.resources).map_err(reason_of)
    }

    /// Whether it can copy from and to the memory of a part: both are of one device.
    pub fn serves(&self, part: &mut NetworkPart) -> bool {
        device_memory(part).is_ok_and(|memory| memory.resources.has_lane(&self.loads))
    }

    /// Returns the start of a piece, which has one address as long as the value lives.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn piece(&self, piece: usize) -> *mut u8 {
        self.pieces[piece].start().as_ptr()
    }

    /// Copies these bytes of the part, which it reads, to a piece.
    ///
    /// # Errors
    /// [`Reason::Refused`], [`Reason::Lost`]; nothing is copied then.
    ///
    /// # Safety
    /// Until the copy has ended ([`StagedCopy::poll`]) the part is not ended, the staging is not dropped, and nothing else
    /// accesses these bytes of the piece or writes these of the part.
    pub unsafe fn load(
        &self,
        part: &mut NetworkPart,
        range: Range<usize>,
        piece: usize,
    ) -> Result<StagedCopy, Reason> {
        let memory = device_memory(part)?;
        let copy = self.copy(&memory, memory.source(), range, piece);
        // SAFETY: the caller's duty.
        let copied = unsafe { self.loads.copy_to_host(&copy) };
        StagedCopy::after(copied, &self.loads)
    }

    /// Copies a piece to these bytes of the part, which it writes.
    ///
    /// # Errors
    /// As [`Staging::load`].
    ///
    /// # Safety
    /// As [`Staging::load`]; nothing else accesses these bytes of the part or writes these of the piece.
    pub unsafe fn store(
        &self,
        part: &mut NetworkPart,
        range: Range<usize>,
        piece: usize,
    ) -> Result<StagedCopy, Reason> {
        let memory = device_memory(part)?;
        let copy = self.copy(&memory, memory.target(), range, piece);
        // SAFETY: the caller's duty.
        let copied = unsafe { self.stores.copy_to_gpu(&copy) };
        StagedCopy::after(copied, &self.stores)
    }

    fn copy<'a>(
        &'a self,
        memory: &DeviceMemory<'a>,
        binding: usize,
        range: Range<usize>,
        piece: usize,
    ) -> PieceCopy<'a> {
        PieceCopy {
            resources: memory.resources,
            binding,
            range: range.start as u64..range.end as u64,
            piece: &self.pieces[piece],
        }
    }
}

/// A copy of a [`Staging`].
#[must_use = "its memory is in use until it has ended"]
pub struct StagedCopy {
    /// `None` if the copy has completed already.
    mark: Option<Mark>,
    failure: Option<Reason>,
}

impl StagedCopy {
    /// The copy that was submitted to a lane last.
    fn after(submitted: Result<(), Refused>, lane: &Lane) -> Result<Self, Reason> {
        submitted.map_err(reason_of)?;
        Ok(Self {
            mark: mark_end(lane).map_err(reason_of)?,
            failure: None,
        })
    }

    /// Returns the outcome once the copy has ended. Never waits.
    pub fn poll(&mut self) -> Option<Result<(), Reason>> {
        match self.mark.as_ref().map(Mark::is_complete) {
            None | Some(Ok(true)) => {
                self.mark = None;
                Some(self.failure.take().map_or(Ok(()), Err))
            }
            Some(Ok(false)) => None,
            // On a lost GPU no work runs.
            Some(Err(Refused::Lost(_))) => {
                self.mark = None;
                Some(Err(Reason::Lost))
            }
            // The copy may run, so the driver is asked again.
            Some(Err(refused)) => {
                self.failure.get_or_insert(reason_of(refused));
                None
            }
        }
    }
}

fn device_memory(part: &mut NetworkPart) -> Result<DeviceMemory<'_>, Reason> {
    let memory = match &mut part.parts[..] {
        [part] => part.device_memory(),
        _ => None,
    };
    let why = "its memory is of the host";
    memory.ok_or_else(|| Reason::Refused(why.to_owned()))
}
