//! The collectives of a group, one after the other.
//!
//! ```text
//!  announced ──► check: did all ranks call the same? (starts at once, beside earlier calls)
//!                  │
//!  part begins ──► │ ──► data, and beside it the status: has a part failed? ──► complete
//!                  │                                       └─ yes: the cause, from that rank ──► fail
//!                  └ no: what each rank called ──► fail
//!
//!  a small call:   announced, part begins ──► check, with its data and the status ──► complete, or as above
//! ```
//! The checks of a group are in the order of its calls, so those after a small call start after its part has begun.
//! A rank whose part has failed takes part with zeros, so that the others do not wait for it.

use std::collections::VecDeque;

use millstream::FailureRef;
use millstream_cluster::{Announcement, EnteredContext, Operation};

use crate::aware::{Way, way_of_part};
use crate::check::{Check, Verdict, describe_with_place};
use crate::element::Operations;
use crate::moves::Movers;
use crate::pieces::{PIECE_BYTES, Spares, Step};
use crate::raw::{Comm, MpiError};
use crate::record::is_small;
use crate::running::{Outcome, Running, own_part};

/// The checks of one group that are in flight together.
const CHECKS_MAX: usize = 64;

/// The collectives of a group.
pub(crate) struct Collectives {
    /// For checks, which begin before the data of earlier calls has moved.
    checks: Comm,
    data: Comm,
    size: usize,
    rank: usize,
    /// In the order of their tickets.
    waiting: VecDeque<Announced>,
    running: Option<Running>,
    /// The number of those that are over.
    ended: u64,
    /// Dropped after the running call, which may use it.
    spares: Spares,
}

/// An announced collective.
struct Announced {
    ticket: u64,
    call: Announcement,
    check: CheckState,
    part: Option<Outcome>,
}

enum CheckState {
    NotStarted,
    Started(Check),
    Decided(Verdict),
}

impl Collectives {
    pub(crate) fn new(checks: Comm, data: Comm, rank: usize, size: usize) -> Self {
        Self {
            checks,
            data,
            size,
            rank,
            waiting: VecDeque::new(),
            running: None,
            ended: 0,
            spares: Spares::default(),
        }
    }

    pub(crate) fn announce(&mut self, ticket: u64, call: Announcement) {
        self.waiting.push_back(Announced {
            ticket,
            call,
            check: CheckState::NotStarted,
            part: None,
        });
    }

    /// Adds the part of a call. Returns it if there is no such call.
    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) -> Option<Outcome> {
        let found = self
            .waiting
            .binary_search_by_key(&ticket, |call| call.ticket);
        match found {
            Ok(index) => {
                self.waiting[index].part = Some(part);
                None
            }
            Err(_) => Some(part),
        }
    }

    /// Whether MPI must be polled for progress.
    pub(crate) fn is_in_flight(&self) -> bool {
        let started = |call: &Announced| matches!(call.check, CheckState::Started(_));
        self.running.is_some() || self.waiting.iter().take(CHECKS_MAX).any(started)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// Returns the number of collectives that this rank has joined: their data is ready here.
    pub(crate) fn joined(&self) -> u64 {
        let begun = self.waiting.iter().take_while(|call| call.part.is_some());
        self.ended + u64::from(self.running.is_some()) + begun.count() as u64
    }

    /// Returns the number of the first collective that is not over, if there is one.
    pub(crate) fn first_number(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.ended)
    }

    /// Returns the number of the first collective that is not over, its description, and whether this rank has joined it.
    pub(crate) fn first(&self) -> Option<(u64, String, bool)> {
        let (call, is_ready) = match (&self.running, self.waiting.front()) {
            (Some(running), _) => (running.call(), true),
            (None, Some(first)) => (&first.call, first.part.is_some()),
            (None, None) => return None,
        };
        Some((self.ended, describe_with_place(call), is_ready))
    }

    /// Goes on as far as possible. Returns `true` if anything changed.
    pub(crate) fn step(&mut self, operations: &Operations) -> Result<bool, MpiError> {
        let mut changed = self.step_checks()?;
        let movers = Movers {
            comm: self.data,
            rank: self.rank,
            size: self.size,
            operations,
        };
        if let Some(running) = &mut self.running {
            let stepped = running.step(movers, &mut self.spares)?;
            changed |= stepped != Step::Waits;
            if stepped == Step::Done {
                self.running = None;
                self.ended += 1;
            }
        }
        if self.running.is_none()
            && let Some(first) = self.waiting.pop_front_if(|first| first.is_ready())
        {
            if let (Some(part), CheckState::Decided(verdict)) = (first.part, first.check) {
                let running = self.running.insert(Running::new(first.call, part));
                running.start(verdict, movers, &mut self.spares)?;
            }
            changed = true;
        }
        Ok(changed)
    }

    /// Starts the checks of calls that come soon, and takes note of those that have completed.
    fn step_checks(&mut self) -> Result<bool, MpiError> {
        let mut changed = false;
        // They complete in their order, more or less; polling one makes progress with all.
        let mut polls = true;
        for call in self.waiting.iter_mut().take(CHECKS_MAX) {
            match &mut call.check {
                CheckState::Decided(_) => {}
                CheckState::NotStarted => {
                    let part = match (is_small(&call.call, self.size), &mut call.part) {
                        (false, _) => None,
                        (true, Some(part)) => Some(own_part(&call.call, part)),
                        (true, None) => break,
                    };
                    let in_pieces = match way_of_part(&call.call, self.size) {
                        Way::InPieces => true,
                        Way::ByHost => is_faster_cut(&call.call),
                        Way::ByAddress => false,
                    };
                    let (comm, size) = (self.checks, self.size);
                    let check = Check::start(comm, size, &call.call, part.as_ref(), in_pieces)?;
                    call.check = CheckState::Started(check);
                    changed = true;
                }
                CheckState::Started(check) if polls => match check.outcome()? {
                    Some(verdict) => {
                        call.check = CheckState::Decided(verdict);
                        changed = true;
                    }
                    None => polls = false,
                },
                CheckState::Started(_) => {}
            }
        }
        Ok(changed)
    }

    /// Makes the context of the device current whose memory MPI accesses, if it does.
    pub(crate) fn enter(&mut self) -> Option<EnteredContext> {
        self.running.as_mut().and_then(Running::enter)
    }

    /// Returns `true` once no request is in flight any more, with or without errors.
    pub(crate) fn have_ended(&mut self) -> bool {
        let mut ended = self.running.as_mut().is_none_or(Running::has_ended);
        for call in &mut self.waiting {
            if let CheckState::Started(check) = &mut call.check {
                ended &= check.has_ended();
            }
        }
        ended
    }

    /// Fails all calls. Only after [`Collectives::have_ended`].
    pub(crate) fn fail_all(&mut self, cause: &FailureRef) {
        if let Some(mut running) = self.running.take() {
            running.fail_by(cause);
        }
        for part in self
            .waiting
            .drain(..)
            .filter_map(|call| call.part)
            .flatten()
        {
            part.fail_by(cause.clone());
        }
    }
}

impl Announced {
    fn is_ready(&self) -> bool {
        matches!(self.check, CheckState::Decided(_)) && self.part.is_some()
    }
}

/// Whether a call of data on the host is faster in pieces. Of 64 MiB in place, Open MPI's non-blocking all-reduce takes 0.7
/// of the time with 2 ranks, and half with 4 (`benches/RESULTS.md`). A broadcast takes longer.
fn is_faster_cut(call: &Announcement) -> bool {
    matches!(call.operation, Operation::AllReduce(_)) && call.bytes() > PIECE_BYTES
}
