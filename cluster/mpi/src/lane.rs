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
//! Each call is a job. The checks of a group are in the order of its calls, so those after a small
//! call start after its part has begun. A rank whose part has failed takes part with zeros, so that the others do not wait
//! for it. Transfers of a lane begin one after the other, since the group has one stream for them, so that their messages
//! have the same tags.

use std::collections::VecDeque;

use millstream::FailureRef;
use millstream_cluster::{Announcement, EnteredContext, Operation};

use crate::aware::{Way, way_of_part};
use crate::check::{check, is_small};
use crate::comm::Comm;
use crate::job::Job;
use crate::moving::Mover;
use crate::part::{Outcome, Part, Stage};
use crate::pieces::PIECE_BYTES;
use crate::raw::MpiError;
use crate::text::describe_with_place;
use crate::transfer::Route;
use crate::waiting::Waiting;

/// The checks of one group that are in flight together.
const CHECKS_MAX: usize = 64;

/// The calls of a group that follow each other.
pub(crate) struct Lane {
    kind: Kind,
    /// In the order of their tickets.
    calls: VecDeque<Call>,
    /// The number of calls that are over.
    ended: u64,
}

/// What the calls are.
#[derive(Clone)]
pub(crate) enum Kind {
    /// With the communicator of checks, which begin before the data of earlier calls has moved.
    Collectives(Comm, Mover),
    Sends(Route),
    Receives(Route),
}

struct Call {
    ticket: u64,
    what: Announcement,
    part: Part,
    /// Returns why its part fails. After an error of MPI the group fails it.
    job: Job<Result<Option<FailureRef>, MpiError>>,
}

impl Lane {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            calls: VecDeque::new(),
            ended: 0,
        }
    }

    pub(crate) fn announce(&mut self, ticket: u64, what: Announcement) {
        let part = Part::default();
        let own = part.clone();
        let job = match self.kind.clone() {
            Kind::Collectives(comm, mover) => Job::new(collective(comm, mover, what, own)),
            Kind::Sends(route) => Job::new(route.send(what, own)),
            Kind::Receives(route) => Job::new(route.receive(what, own)),
        };
        self.calls.push_back(Call {
            ticket,
            what,
            part,
            job,
        });
    }

    /// Adds the part of a call. Returns it if there is no such call.
    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) -> Option<Outcome> {
        let found = self.calls.binary_search_by_key(&ticket, |call| call.ticket);
        let Ok(index) = found else {
            return Some(part);
        };
        self.calls[index].part.begin(part);
        None
    }

    /// Whether the data of a call moves.
    pub(crate) fn moves(&self) -> bool {
        let first = self.calls.front();
        first.is_some_and(|call| call.part.stage() == Stage::Moves)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the number of calls that this rank has joined: their data is ready here.
    pub(crate) fn joined(&self) -> u64 {
        let begun = self.calls.iter().take_while(|call| call.part.has_begun());
        self.ended + begun.count() as u64
    }

    /// Returns the number of the first call that is not over, if there is one.
    pub(crate) fn first_number(&self) -> Option<u64> {
        (!self.calls.is_empty()).then_some(self.ended)
    }

    /// Returns the first call that is not over. `missing` are the ranks that have not joined the collective with this number.
    pub(crate) fn waiting(&self, missing: impl FnOnce(u64) -> Vec<usize>) -> Option<Waiting> {
        let Call { what, part, .. } = self.calls.front()?;
        let transfer = |route: &Route, direction: &str, awaits_in: Stage| {
            let (Announcement { name, place, .. }, peer) = (what, route.peer);
            let call = format!("`{name}` of {what} {direction} rank {peer} at {place}");
            let waits = part.stage() == awaits_in;
            (call, waits.then_some(peer).into_iter().collect())
        };
        let (call, missing) = match &self.kind {
            Kind::Collectives(..) => (describe_with_place(what), missing(self.ended)),
            Kind::Sends(route) => transfer(route, "to", Stage::Moves),
            Kind::Receives(route) => transfer(route, "from", Stage::Announced),
        };
        Some(Waiting {
            call,
            is_ready: part.has_begun(),
            missing,
        })
    }

    /// Goes on as far as possible.
    pub(crate) fn step(&mut self) {
        let calls_max = match &self.kind {
            Kind::Collectives(..) => CHECKS_MAX,
            // The headers of a lane have one tag.
            Kind::Sends(_) | Kind::Receives(_) => 1,
        };
        // The checks start in the order of the calls, and the data of one call moves at a time.
        let (mut index, mut may_check) = (0, true);
        while index < calls_max {
            let _current = self.enter();
            let Some(call) = self.calls.get_mut(index) else {
                return;
            };
            call.part.let_reach(match index {
                0 => Stage::Moves,
                _ if may_check => Stage::Checked,
                _ => Stage::Announced,
            });
            match call.job.poll() {
                None => {
                    may_check &= call.part.stage() > Stage::Announced;
                    index += 1;
                }
                Some(Ok(failure)) => {
                    match failure {
                        Some(cause) => call.part.fail_by(cause),
                        None => call.part.complete(&call.what),
                    }
                    // It is the first one: the data of others has not moved.
                    self.calls.pop_front();
                    self.ended += 1;
                    self.comm().note_change();
                }
                Some(Err(error)) => return self.comm().note_error(&error),
            }
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
            _ => 1,
        };
        match way_of_part(&first.what, size) {
            Way::ByAddress => first.part.enter(),
            Way::ByHost | Way::InPieces => None,
        }
    }

    /// After an error. Returns `true` once no request is in flight any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        let calls = self.calls.iter_mut();
        calls.fold(true, |ended, call| ended & call.job.has_ended())
    }

    /// Fails all calls, except one whose requests have not ended: its part is leaked with its job.
    pub(crate) fn fail_all(&mut self, cause: &FailureRef) {
        for mut call in self.calls.drain(..) {
            if call.part.stage() != Stage::Moves || call.job.has_ended() {
                call.part.fail_by(cause.clone());
            }
        }
    }
}

impl Drop for Lane {
    /// The engine has ended. Jobs that have not are leaked; parts that MPI does not access fail by their drop.
    fn drop(&mut self) {
        let waits = |call: &&Call| call.part.stage() != Stage::Moves;
        for call in self.calls.iter().filter(waits) {
            call.part.abandon();
        }
    }
}

async fn collective(
    checks: Comm,
    mover: Mover,
    call: Announcement,
    part: Part,
) -> Result<Option<FailureRef>, MpiError> {
    let is_small = is_small(&call, mover.size);
    part.reach(Stage::Checked, is_small, &checks).await?;
    let in_pieces = match way_of_part(&call, mover.size) {
        Way::InPieces => true,
        Way::ByHost => is_faster_cut(&call),
        Way::ByAddress => false,
    };
    let small = is_small.then_some(&part);
    let verdict = check(&checks, mover.size, call, small, in_pieces).await?;
    part.reach(Stage::Moves, true, &checks).await?;
    mover.finish(call, part, verdict).await
}

/// Whether a call of data on the host is faster in pieces. Of 64 MiB in place, Open MPI's non-blocking all-reduce takes 0.7
/// of the time with 2 ranks, and half with 4 (`benches/RESULTS.md`). A broadcast takes longer.
fn is_faster_cut(call: &Announcement) -> bool {
    matches!(call.operation, Operation::AllReduce(_)) && call.bytes() > PIECE_BYTES
}
