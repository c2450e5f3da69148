//! A call that is cut into pieces, which are on their way at the same time.
//!
//! ```text
//!  piece 2:  load ──► MPI                      of a part on a CUDA device; others have MPI alone
//!  piece 1:           MPI ──► store
//!  piece 0:                   store ──► its place is free for piece 4
//! ```
//! The calls of MPI start in the order of the pieces, as on all ranks. A copy that fails does not stop the call, which
//! other ranks have joined: the pieces that are left travel with any bytes, and the part fails at the end.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

use millstream::Reason;
use millstream_cluster::{
    Announcement, NetworkAddresses, NetworkPart, Operation, StagedCopy, Staging,
};

use crate::comm::Comm;
use crate::job::{Request, all, until};
use crate::part::Part;
use crate::raw::MpiError;

/// The bytes of a piece, on all ranks. All-reduces of data on the host are about as fast in pieces of a quarter of that, and
/// slower in pieces of 4 MiB (`benches/RESULTS.md`). A copy of a piece should take a GPU some 50 microseconds, of which its
/// start is a tenth; that was not measured.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The pieces on their way: one to load, to move and to store, and one more so that none of the three runs dry.
const PIECES_MAX: usize = 4;

/// The stagings that are kept for later calls.
const STAGINGS_KEPT_MAX: usize = 4;

/// Where the pieces are while MPI moves them.
pub(crate) enum Place {
    /// At their place in memory that MPI accesses.
    Whole(At),
    /// In pinned memory.
    Staged(Staging),
}

/// Where MPI reads and writes a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// `None` if the piece is replaced, or only written.
    pub(crate) input: Option<*const u8>,
    /// The piece, if it is only read as well.
    pub(crate) piece: *mut u8,
}

impl At {
    fn offset(self, bytes: usize) -> Self {
        Self {
            input: self.input.map(|start| start.wrapping_add(bytes)),
            piece: self.piece.wrapping_add(bytes),
        }
    }

    fn piece(piece: *mut u8) -> Self {
        Self { input: None, piece }
    }
}

/// What a part does with the bytes of its pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Uses {
    reads: bool,
    writes: bool,
}

impl Uses {
    /// Returns what the part of a rank does in a call.
    fn of(call: &Announcement, rank: usize) -> Self {
        let (reads, writes) = match call.operation {
            Operation::Broadcast { root } => (root == rank, root != rank),
            Operation::Send { .. } => (true, false),
            Operation::Receive { .. } => (false, true),
            _ => (true, true),
        };
        Self { reads, writes }
    }

    /// Returns where the memory starts that it uses.
    fn at(self, addresses: NetworkAddresses) -> At {
        let input = addresses.input.filter(|_| self.reads);
        match addresses.output.filter(|_| self.writes) {
            Some(output) => At {
                input,
                piece: output,
            },
            None => At::piece(input.map_or_else(std::ptr::null_mut, <*const u8>::cast_mut)),
        }
    }
}

/// A call in pieces.
pub(crate) struct Pieces<'a> {
    pub(crate) comm: &'a Comm,
    pub(crate) call: &'a Announcement,
    pub(crate) part: &'a Part,
    pub(crate) bytes: usize,
    pub(crate) rank: usize,
    pub(crate) spares: &'a Spares,
}

impl Pieces<'_> {
    /// Returns where the pieces are: in pinned memory if they are `staged`. `None` if the part has failed, or fails now.
    pub(crate) fn place(&self, staged: bool) -> Option<Place> {
        self.part.with(self.call, |part| {
            if staged {
                return self.spares.take(part).map(Place::Staged);
            }
            let addresses = part.addresses().map_err(Reason::Refused)?;
            let uses = Uses::of(self.call, self.rank);
            Ok(Place::Whole(uses.at(addresses)))
        })
    }

    /// Moves all pieces. Those of a part that has failed have no place: they are any bytes. `start` starts the call of MPI for
    /// this number of bytes at this place.
    pub(crate) async fn run(
        self,
        place: Option<Place>,
        start: impl Fn(At, usize) -> Request<'static>,
    ) -> Result<(), MpiError> {
        let uses = Uses::of(self.call, self.rank);
        let scratch_words = match place {
            Some(_) => 0,
            None => PIECES_MAX * PIECE_BYTES / size_of::<u64>(),
        };
        let mut scratch = vec![0_u64; scratch_words];
        let scratch_start = At::piece(scratch.as_mut_ptr().cast());
        let (started, failure) = (Cell::new(0), RefCell::new(None));
        let lane = async |lane: usize| {
            let mut outcome = Ok(());
            for piece in (lane..self.bytes.div_ceil(PIECE_BYTES)).step_by(PIECES_MAX) {
                let offset = piece * PIECE_BYTES;
                let len = PIECE_BYTES.min(self.bytes - offset);
                let at = match &place {
                    Some(Place::Whole(start)) => start.offset(offset),
                    Some(Place::Staged(staging)) => At::piece(staging.piece(lane)),
                    None => scratch_start.offset(lane * PIECE_BYTES),
                };
                let copy =
                    async |is_used, copy: unsafe fn(&Staging, &mut NetworkPart, _, _) -> _| {
                        if let (Some(Place::Staged(staging)), true) = (&place, is_used)
                            && failure.borrow().is_none()
                        {
                            let begun = self.part.with(self.call, |part| {
                                // SAFETY: the part and the staging stay until the copy has ended, and the place of the
                                // piece is free: the piece that had it before was stored.
                                Ok(unsafe { copy(staging, part, offset..offset + len, lane) })
                            });
                            let copied = copied(begun).await;
                            self.comm.note_change();
                            if let Err(reason) = copied {
                                failure.borrow_mut().get_or_insert(reason);
                            }
                        }
                    };
                copy(uses.reads && outcome.is_ok(), Staging::load).await;
                until(|| started.get() == piece).await;
                let request = start(at, len);
                started.set(piece + 1);
                // After an error the others fail at once, and MPI may still access the place.
                outcome = outcome.and(request.await);
                copy(uses.writes && outcome.is_ok(), Staging::store).await;
            }
            outcome
        };
        let outcomes = all((0..PIECES_MAX).map(lane)).await;
        drop(scratch);
        if let Some(reason) = failure.into_inner() {
            self.part.refuse(self.call, reason);
        }
        if let Some(Place::Staged(staging)) = place {
            self.spares.keep(staging);
        }
        outcomes.into_iter().collect()
    }
}

/// Waits for a copy. Looks for its end in the next turn at first, so that the copies of all pieces begin before.
async fn copied(begun: Option<Result<StagedCopy, Reason>>) -> Result<(), Reason> {
    let mut copy = match begun {
        None => return Ok(()),
        Some(begun) => begun?,
    };
    let mut is_first = true;
    poll_fn(|_| match std::mem::take(&mut is_first) {
        true => Poll::Pending,
        false => copy.poll().map_or(Poll::Pending, Poll::Ready),
    })
    .await
}

/// Pinned memory that no call uses.
#[derive(Default)]
pub(crate) struct Spares(RefCell<Vec<Staging>>);

impl Spares {
    /// Returns pinned memory for the device of a part.
    fn take(&self, part: &mut NetworkPart) -> Result<Staging, Reason> {
        let mut spares = self.0.borrow_mut();
        // A device that was opened again has another context.
        spares.retain(|staging| staging.serves(part));
        match spares.pop() {
            Some(staging) => Ok(staging),
            None => Staging::new(part, PIECES_MAX, PIECE_BYTES),
        }
    }

    fn keep(&self, staging: Staging) {
        let mut spares = self.0.borrow_mut();
        if spares.len() < STAGINGS_KEPT_MAX {
            spares.push(staging);
        }
    }
}
