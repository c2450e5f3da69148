//! The calls of a group that follow each other: its collectives, or the transfers from a device of one rank to a device of
//! another.
//!
//! ```text
//!  collective:  announced ──► check: did all ranks call the same? (starts at once, beside earlier calls)
//!                               │
//!               part begins ──► │ ──► data, and beside it the status: has a part failed? ──► complete
//!                               │                                       └─ yes: the cause, from that rank ──► fail
//!                               └ no: what each rank called ──► fail
//!  small one:   announced, part begins ──► check, with its data and the status ──► complete, or as above
//!  receive:     announced ──► header of the sender ──► part begins ──► data
//!  send:        part begins ──► header, data
//! ```
//! The checks of a group are in the order of its calls, so those after a small call start after its part has begun.
//! A rank whose part has failed takes part with zeros, so that the others do not wait for it. Transfers of a lane begin one
//! after the other, since the group has one stream for them, so that their messages have the same tags.

use std::collections::VecDeque;

use millstream::FailureRef;
use millstream_cluster::{Announcement, EnteredContext, Operation};

use crate::aware::{Way, way_of_part};
use crate::check::{Verdict, check, is_small};
use crate::comm::Comm;
use crate::job::{Job, Outcome, Part};
use crate::moving::Mover;
use crate::pieces::PIECE_BYTES;
use crate::raw::MpiError;
use crate::text::describe_with_place;
use crate::transfer::{Header, Route};
use crate::waiting::Waiting;

/// The checks of one group that are in flight together.
const CHECKS_MAX: usize = 64;

/// The calls of a group that follow each other.
pub(crate) struct Lane {
    kind: Kind,
    /// In the order of their tickets.
    calls: VecDeque<Call>,
    /// The data of the first of them moves. Returns why its part fails. After an error of MPI the group fails it.
    moving: Option<Job<Result<Option<FailureRef>, MpiError>>>,
    /// The number of calls that are over.
    ended: u64,
}

/// What the calls are.
pub(crate) enum Kind {
    /// With the communicator of checks, which begin before the data of earlier calls has moved.
    Collectives(Comm, Mover),
    Sends(Route),
    Receives(Route),
}

struct Call {
    ticket: u64,
    what: Announcement,
    known: Known,
    part: Option<Part>,
}

/// What is known of a call before its data moves.
#[allow(
    clippy::large_enum_variant,
    reason = "one for each call, and most of those that wait have a header"
)]
enum Known {
    Nothing,
    /// The ranks compare it.
    Checks(Job<Result<Verdict, MpiError>>),
    Verdict(Verdict),
    /// The header of a receive travels.
    Expects(Job<Result<Header, MpiError>>),
    Header(Header),
}

impl Lane {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            calls: VecDeque::new(),
            moving: None,
            ended: 0,
        }
    }

    pub(crate) fn announce(&mut self, ticket: u64, what: Announcement) {
        self.calls.push_back(Call {
            ticket,
            what,
            known: Known::Nothing,
            part: None,
        });
    }

    /// Adds the part of a call. Returns it if there is no such call.
    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) -> Option<Outcome> {
        let found = self.calls.binary_search_by_key(&ticket, |call| call.ticket);
        let Ok(index) = found else {
            return Some(part);
        };
        self.calls[index].part = Some(Part::new(part));
        None
    }

    /// Whether MPI must be polled for progress.
    pub(crate) fn is_in_flight(&self) -> bool {
        let mut calls = self.calls.iter().take(CHECKS_MAX);
        let travels = |call: &Call| matches!(call.known, Known::Checks(_) | Known::Expects(_));
        self.moving.is_some() || calls.any(travels)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the number of calls that this rank has joined: their data is ready here.
    pub(crate) fn joined(&self) -> u64 {
        let begun = self.calls.iter().take_while(|call| call.part.is_some());
        self.ended + begun.count() as u64
    }

    /// Returns the number of the first call that is not over, if there is one.
    pub(crate) fn first_number(&self) -> Option<u64> {
        (!self.calls.is_empty()).then_some(self.ended)
    }

    /// Returns the first call that is not over. `missing` are the ranks that have not joined the collective with this number.
    pub(crate) fn waiting(&self, missing: impl FnOnce(u64) -> Vec<usize>) -> Option<Waiting> {
        let Call {
            what, known, part, ..
        } = self.calls.front()?;
        let transfer = |route: &Route, direction: &str, waits: bool| {
            let (Announcement { name, place, .. }, peer) = (what, route.peer);
            let call = format!("`{name}` of {what} {direction} rank {peer} at {place}");
            (call, waits.then_some(peer).into_iter().collect())
        };
        let (call, missing) = match &self.kind {
            Kind::Collectives(..) => (describe_with_place(what), missing(self.ended)),
            Kind::Sends(route) => transfer(route, "to", self.moving.is_some()),
            Kind::Receives(route) => transfer(route, "from", matches!(known, Known::Expects(_))),
        };
        Some(Waiting {
            call,
            is_ready: part.is_some(),
            missing,
        })
    }

    /// Goes on as far as possible.
    pub(crate) fn step(&mut self) {
        self.find_out();
        let _current = self.enter();
        while self.step_data() {
            self.comm().note_change();
            self.find_out();
        }
    }

    /// Goes on with the data of the first call. Returns whether anything has changed.
    fn step_data(&mut self) -> bool {
        let Some(Call {
            what,
            known,
            part: Some(part),
            ..
        }) = self.calls.front_mut()
        else {
            return false;
        };
        let Some(job) = &mut self.moving else {
            let part = part.clone();
            self.moving = Some(
                match (&self.kind, std::mem::replace(known, Known::Nothing)) {
                    (Kind::Collectives(_, mover), Known::Verdict(verdict)) => {
                        Job::new(mover.clone().finish(*what, part, verdict))
                    }
                    (Kind::Sends(route), _) => Job::new(route.clone().send(*what, part)),
                    (Kind::Receives(route), Known::Header(header)) => {
                        Job::new(route.clone().receive(*what, part, header))
                    }
                    (_, early) => {
                        *known = early;
                        return false;
                    }
                },
            );
            return true;
        };
        match job.poll() {
            None => return false,
            Some(Ok(Some(cause))) => part.fail_by(cause),
            Some(Ok(None)) => part.complete(what),
            Some(Err(error)) => {
                self.comm().note_error(&error);
                return false;
            }
        }
        self.moving = None;
        self.calls.pop_front();
        self.ended += 1;
        true
    }

    /// Starts what comes before the data of calls, and takes note of what has ended.
    fn find_out(&mut self) {
        let calls_max = match &self.kind {
            Kind::Collectives(..) => CHECKS_MAX,
            // The headers of a lane have one tag.
            Kind::Sends(_) | Kind::Receives(_) => 1,
        };
        // They complete in their order, more or less; polling one makes progress with all.
        let (mut polls, mut started) = (true, false);
        let moving = usize::from(self.moving.is_some());
        for call in self.calls.iter_mut().take(calls_max).skip(moving) {
            let is_new = matches!(call.known, Known::Nothing);
            match &self.kind {
                _ if !is_new => {}
                Kind::Sends(_) => continue,
                Kind::Receives(route) => {
                    call.known = Known::Expects(Job::new(route.clone().expect(call.what)));
                }
                Kind::Collectives(comm, mover) => {
                    let small = match (is_small(&call.what, mover.size), &call.part) {
                        (false, _) => None,
                        (true, Some(part)) => Some(part.clone()),
                        (true, None) => break,
                    };
                    let in_pieces = match way_of_part(&call.what, mover.size) {
                        Way::InPieces => true,
                        Way::ByHost => is_faster_cut(&call.what),
                        Way::ByAddress => false,
                    };
                    let job = check(comm.clone(), mover.size, call.what, small, in_pieces);
                    call.known = Known::Checks(Job::new(job));
                }
            }
            // The first poll starts it.
            started |= is_new;
            let known = match &mut call.known {
                Known::Checks(job) if polls || is_new => {
                    job.poll().map(|known| known.map(Known::Verdict))
                }
                Known::Expects(job) => job.poll().map(|known| known.map(Known::Header)),
                _ => continue,
            };
            match known {
                Some(Ok(known)) => call.known = known,
                Some(Err(_)) | None => polls = false,
            }
        }
        if started {
            self.comm().note_change();
        }
    }

    fn comm(&self) -> &Comm {
        match &self.kind {
            Kind::Collectives(comm, _) => comm,
            Kind::Sends(route) | Kind::Receives(route) => &route.comm,
        }
    }

    /// Makes the context of the device current whose memory MPI accesses, if it does.
    pub(crate) fn enter(&self) -> Option<EnteredContext> {
        let first = self.calls.front()?;
        let size = match &self.kind {
            Kind::Collectives(_, mover) => mover.size,
            Kind::Sends(_) | Kind::Receives(_) => 1,
        };
        match way_of_part(&first.what, size) {
            Way::ByAddress => first.part.as_ref()?.enter(),
            Way::ByHost | Way::InPieces => None,
        }
    }

    /// Returns `true` once no request is in flight any more, with or without errors.
    pub(crate) fn has_ended(&mut self) -> bool {
        let mut ended = self.moving.as_mut().is_none_or(Job::has_ended);
        for call in &mut self.calls {
            ended &= match &mut call.known {
                Known::Checks(job) => job.has_ended(),
                Known::Expects(job) => job.has_ended(),
                Known::Nothing | Known::Verdict(_) | Known::Header(_) => true,
            };
        }
        ended
    }

    /// Fails all calls, except one whose requests have not ended: its part is leaked with its job.
    pub(crate) fn fail_all(&mut self, cause: &FailureRef) {
        if let Some(mut job) = self.moving.take()
            && !job.has_ended()
        {
            self.calls.pop_front();
        }
        for part in self.calls.drain(..).filter_map(|call| call.part) {
            part.fail_by(cause.clone());
        }
    }
}

/// Whether a call of data on the host is faster in pieces. Of 64 MiB in place, Open MPI's non-blocking all-reduce takes 0.7
/// of the time with 2 ranks, and half with 4 (`benches/RESULTS.md`). A broadcast takes longer.
fn is_faster_cut(call: &Announcement) -> bool {
    matches!(call.operation, Operation::AllReduce(_)) && call.bytes() > PIECE_BYTES
}
