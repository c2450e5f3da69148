//! A call that is cut into pieces, which are on their way at the same time.
//!
//! ```text
//!  piece 2:  load ──► MPI                      of a part on a CUDA device; others have MPI alone
//!  piece 1:           MPI ──► store
//!  piece 0:                   store ──► its place is free for piece 3
//! ```
//! Each stage takes the pieces in their order, so that all ranks start the calls of MPI in one order. No stage waits: the
//! engine polls the first of each. A copy that fails does not stop the call, which other ranks have joined: the pieces that
//! are left travel with any bytes, and the owner learns of the failure at the end.

use std::collections::VecDeque;
use std::ops::Range;

use millstream::Reason;
use millstream_cluster::{NetworkAddresses, NetworkPart, StagedCopy, Staging};

use crate::raw::{MpiError, Request, leak};

/// The bytes of a piece, on all ranks. All-reduces of data on the host are about as fast in pieces of a quarter of that, and
/// slower in pieces of 4 MiB (`benches/RESULTS.md`). A copy of a piece should take a GPU some 50 microseconds, of which its
/// start is a tenth; that was not measured.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The pieces on their way: one for each stage, and one more so that no stage runs dry.
pub(crate) const PIECES_MAX: usize = 4;

/// The stagings that are kept for later calls.
const STAGINGS_KEPT_MAX: usize = 4;

/// Where the pieces are while MPI moves them.
enum Place {
    /// At their place in memory that MPI accesses.
    Whole(At),
    /// In pinned memory.
    Staged(Staging),
    /// Nowhere: the part has failed.
    Scratch(Vec<u64>),
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
pub(crate) struct Uses {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Uses {
    /// Returns where the memory starts that it uses.
    pub(crate) fn at(self, addresses: NetworkAddresses) -> At {
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

/// Whether a step has changed anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Waits,
    Changed,
    Done,
}

/// A call in pieces.
pub(crate) struct Pieces {
    bytes: usize,
    uses: Uses,
    place: Place,
    /// The pieces of each stage, from the last to the first; `None` if there is nothing to copy.
    loads: VecDeque<Option<StagedCopy>>,
    requests: VecDeque<Request>,
    stores: VecDeque<Option<StagedCopy>>,
    /// The number of pieces that have left each stage: none is greater than the one before it.
    loaded: usize,
    moved: usize,
    stored: usize,
    failure: Option<Reason>,
}

// SAFETY: the place is memory of the part, which its owner keeps; only the holder of the engine's lock uses it.
unsafe impl Send for Pieces {}

impl Pieces {
    fn new(bytes: usize, uses: Uses, place: Place) -> Self {
        Self {
            bytes,
            uses,
            place,
            loads: VecDeque::new(),
            requests: VecDeque::new(),
            stores: VecDeque::new(),
            loaded: 0,
            moved: 0,
            stored: 0,
            failure: None,
        }
    }

    /// The pieces of memory that MPI accesses. It is that of a part, which the owner keeps.
    pub(crate) fn whole(bytes: usize, uses: Uses, addresses: NetworkAddresses) -> Self {
        Self::new(bytes, uses, Place::Whole(uses.at(addresses)))
    }

    /// The pieces of a part that has failed.
    pub(crate) fn scratch(bytes: usize, uses: Uses) -> Self {
        let words = PIECES_MAX * PIECE_BYTES / size_of::<u64>();
        Self::new(bytes, uses, Place::Scratch(vec![0; words]))
    }

    /// The pieces of a part on a CUDA device.
    pub(crate) fn staged(bytes: usize, uses: Uses, staging: Staging) -> Self {
        Self::new(bytes, uses, Place::Staged(staging))
    }

    fn count(&self) -> usize {
        self.bytes.div_ceil(PIECE_BYTES)
    }

    fn range(&self, piece: usize) -> Range<usize> {
        let start = piece * PIECE_BYTES;
        start..self.bytes.min(start + PIECE_BYTES)
    }

    /// Returns where MPI accesses a piece.
    fn at(&mut self, piece: usize) -> At {
        match &mut self.place {
            Place::Whole(start) => start.offset(piece * PIECE_BYTES),
            Place::Staged(staging) => At::piece(staging.piece(piece % PIECES_MAX)),
            Place::Scratch(words) => {
                let start = At::piece(words.as_mut_ptr().cast());
                start.offset(piece % PIECES_MAX * PIECE_BYTES)
            }
        }
    }

    /// Goes on as far as possible. `start` starts the call of MPI for this number of bytes at this place. Done once
    /// no piece is on its way and none is left.
    pub(crate) fn step(
        &mut self,
        part: Option<&mut NetworkPart>,
        mut start: impl FnMut(At, usize) -> Result<Request, MpiError>,
    ) -> Result<Step, MpiError> {
        let mut part = part;
        let before = self.progress();
        while self.loaded + self.loads.len() < self.count().min(self.stored + PIECES_MAX) {
            let piece = self.loaded + self.loads.len();
            let copy = self.begin_copy(part.as_deref_mut(), piece, Stage::Load);
            self.loads.push_back(copy);
        }
        while let Some(copy) = self.loads.front_mut()
            && let Some(outcome) = poll(copy)
        {
            self.note(outcome);
            self.loads.pop_front();
            let piece = self.loaded;
            self.loaded += 1;
            let bytes = self.range(piece).len();
            let request = start(self.at(piece), bytes)?;
            self.requests.push_back(request);
        }
        while let Some(request) = self.requests.front_mut()
            && request.has_completed()?
        {
            self.requests.pop_front();
            let copy = self.begin_copy(part.as_deref_mut(), self.moved, Stage::Store);
            self.moved += 1;
            self.stores.push_back(copy);
        }
        while let Some(copy) = self.stores.front_mut()
            && let Some(outcome) = poll(copy)
        {
            self.note(outcome);
            self.stores.pop_front();
            self.stored += 1;
        }
        Ok(match self.progress() == before {
            _ if self.stored == self.count() => Step::Done,
            true => Step::Waits,
            false => Step::Changed,
        })
    }

    fn progress(&self) -> usize {
        self.loaded + self.moved + self.stored
    }

    fn begin_copy(
        &mut self,
        part: Option<&mut NetworkPart>,
        piece: usize,
        stage: Stage,
    ) -> Option<StagedCopy> {
        let is_used = match stage {
            Stage::Load => self.uses.reads,
            Stage::Store => self.uses.writes,
        };
        let range = self.range(piece);
        let (Place::Staged(staging), Some(part), None, true) =
            (&self.place, part, &self.failure, is_used)
        else {
            return None;
        };
        // SAFETY: the owner ends neither the part nor these pieces while a copy is on its way, and the place of the piece is
        // free: the piece that had it before was stored, and MPI has no request for it.
        let copy = unsafe {
            match stage {
                Stage::Load => staging.load(part, range, piece % PIECES_MAX),
                Stage::Store => staging.store(part, range, piece % PIECES_MAX),
            }
        };
        copy.map_err(|reason| self.note(Err(reason))).ok()
    }

    fn note(&mut self, outcome: Result<(), Reason>) {
        if let Err(reason) = outcome {
            self.failure.get_or_insert(reason);
        }
    }

    /// Whether MPI or a lane may still access memory of the part, or of a piece.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.requests.iter().any(Request::is_in_flight)
            || self.loads.iter().chain(&self.stores).any(Option::is_some)
    }

    /// Returns `true` once nothing is on its way any more, with or without errors.
    pub(crate) fn has_ended(&mut self) -> bool {
        let requests = self.requests.iter_mut();
        let mut ended = requests.fold(true, |ended, request| {
            ended & request.has_completed().unwrap_or(true)
        });
        for copy in self.loads.iter_mut().chain(&mut self.stores) {
            match poll(copy) {
                Some(_) => *copy = None,
                None => ended = false,
            }
        }
        ended
    }

    /// Takes the failure of a copy. Only once nothing is on its way.
    pub(crate) fn take_failure(&mut self) -> Option<Reason> {
        self.failure.take()
    }

    /// Keeps the pinned memory for a later call. Only once nothing is on its way.
    pub(crate) fn give_back(mut self, spares: &mut Spares) {
        if let Place::Staged(staging) = self.take_place() {
            spares.keep(staging);
        }
    }

    fn take_place(&mut self) -> Place {
        std::mem::replace(&mut self.place, Place::Scratch(Vec::new()))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.is_in_flight() {
            leak(self.take_place());
        }
    }
}

#[derive(Clone, Copy)]
enum Stage {
    Load,
    Store,
}

fn poll(copy: &mut Option<StagedCopy>) -> Option<Result<(), Reason>> {
    copy.as_mut().map_or(Some(Ok(())), StagedCopy::poll)
}

/// Pinned memory that no call uses.
#[derive(Default)]
pub(crate) struct Spares(Vec<Staging>);

impl Spares {
    /// Returns pinned memory for the device of a part.
    pub(crate) fn take(&mut self, part: &mut NetworkPart) -> Result<Staging, Reason> {
        // A device that was opened again has another context.
        self.0.retain(|staging| staging.serves(part));
        match self.0.pop() {
            Some(staging) => Ok(staging),
            None => Staging::new(part, PIECES_MAX, PIECE_BYTES),
        }
    }

    fn keep(&mut self, staging: Staging) {
        if self.0.len() < STAGINGS_KEPT_MAX {
            self.0.push(staging);
        }
    }
}
