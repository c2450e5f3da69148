//! A group on the engine's side: three communicators and the calls in flight.
//!
//! Each group has its own communicators, by a duplicate that does not block. So groups may begin their calls in any
//! order on any rank, where one communicator would need a common order of the calls of all groups.

use std::time::{Duration, Instant};

use millstream::{FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, EnteredContext, Operation};

use crate::collective::Collectives;
use crate::element::Operations;
use crate::failures::Broken;
use crate::inquiry::Inquiry;
use crate::pair::Pairs;
use crate::patience::Patience;
use crate::raw::{Comm, MpiError, Ulfm};
use crate::running::Outcome;
use crate::waiting::Waiting;

/// The ranks of a group that report for all that a collective waits: two, as one of them may be what it waits for. Each
/// further report of a wait has twice as many, as the collective may wait for all before; so its messages stay few.
const REPORTERS: usize = 2;

/// A group.
pub(crate) struct Group {
    comms: [Comm; 3],
    collectives: Collectives,
    pairs: Pairs,
    rank: usize,
    inquiry: Inquiry,
    patience: Patience,
    /// How long the calls have waited, if that is to be reported, and whether this rank reports for all.
    report: Option<(Duration, bool)>,
    broken: Option<Broken>,
    /// Whether the application has dropped it.
    pub(crate) closed: bool,
}

impl Group {
    pub(crate) fn new(comms: [Comm; 3]) -> Result<Self, MpiError> {
        let [checks, data, pairs] = comms;
        let (rank, size) = (data.rank()?, data.size()?);
        Ok(Self {
            comms,
            collectives: Collectives::new(checks, data, rank, size),
            pairs: Pairs::new(pairs, rank),
            rank,
            inquiry: Inquiry::new(pairs, rank, size),
            patience: Patience::default(),
            report: None,
            broken: None,
            closed: false,
        })
    }

    pub(crate) fn announce(&mut self, ticket: u64, call: Announcement) {
        match call.operation {
            Operation::Send { .. } | Operation::Receive { .. } => self.pairs.announce(ticket, call),
            _ => self.collectives.announce(ticket, call),
        }
    }

    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) {
        let left = self.collectives.begin(ticket, part);
        let left = left.and_then(|part| self.pairs.begin(ticket, part));
        // A call that is not known any more was failed with its group.
        if let (Some(Ok(part)), Some(cause)) = (left, self.cause()) {
            part.fail_by(cause.clone());
        }
    }

    fn cause(&self) -> Option<&FailureRef> {
        self.broken.as_ref().and_then(Broken::known_cause)
    }

    /// Whether MPI must be polled.
    pub(crate) fn is_in_flight(&self) -> bool {
        match &self.broken {
            Some(broken) => broken.known_cause().is_none() || !self.is_empty(),
            None => {
                self.collectives.is_in_flight()
                    || self.pairs.is_in_flight()
                    || self.inquiry.is_open()
            }
        }
    }

    /// Makes the context of its device current, if MPI accesses memory of that device.
    pub(crate) fn enter(&mut self) -> Option<EnteredContext> {
        self.collectives.enter().or_else(|| self.pairs.enter())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.collectives.is_empty() && self.pairs.is_empty()
    }

    /// Whether a rank is known to have ended. A group that another error of MPI has broken ends on all ranks, which then
    /// finalize MPI together.
    pub(crate) fn has_ended_rank(&self) -> bool {
        let ended = |cause: &FailureRef| {
            matches!(
                cause.reason,
                Reason::Remote(Remote::Ended { rank: Some(_) })
            )
        };
        self.cause().is_some_and(ended)
    }

    /// Goes on as far as possible. Returns `true` if anything changed.
    pub(crate) fn step(&mut self, operations: &Operations, ulfm: Option<&Ulfm>) -> bool {
        if self.broken.is_some() {
            return self.fail_calls(ulfm);
        }
        let stepped = self.collectives.step(operations);
        let stepped = stepped.and_then(|changed| Ok(changed | self.pairs.step()?));
        stepped.unwrap_or_else(|error| {
            self.broken = Some(Broken::new(&error, ulfm, &self.comms));
            true
        })
    }

    /// Answers other ranks, and reports calls that have waited for `after`. `moved` is whether anything has changed.
    pub(crate) fn watch(&mut self, now: Instant, moved: bool, after: Duration) {
        if self.broken.is_some() {
            return;
        }
        self.inquiry.look(now, || self.collectives.joined());
        let waits = !moved && (self.collectives.is_in_flight() || self.pairs.is_in_flight());
        if let Some(waited) = self.patience.turn(waits, now, after) {
            let earlier = self.patience.reports().saturating_sub(1);
            let reporters = REPORTERS.saturating_mul(2_usize.saturating_pow(earlier));
            let is_reporter = self.rank < reporters;
            self.report = Some((waited, is_reporter));
            if is_reporter {
                self.ask(now);
            }
        }
        if moved {
            self.report = None;
        }
        if !self.inquiry.is_open()
            && let Some((waited, is_reporter)) = self.report.take()
        {
            let collective = self.collective().filter(|_| is_reporter);
            for waiting in collective.into_iter().chain(self.pairs.waiting()) {
                let (rank, size) = (self.rank, self.inquiry.size());
                tracing::warn!("rank {rank} of {size}, after {waited:.1?}: {waiting}");
            }
        }
    }

    /// Asks the other ranks which collectives they have joined.
    pub(crate) fn ask(&mut self, now: Instant) {
        if self.broken.is_none()
            && let Some(number) = self.collectives.first_number()
        {
            self.inquiry.ask(now, number);
        }
    }

    /// Whether answers are expected. A broken group does not look for them any more.
    pub(crate) fn is_asking(&self) -> bool {
        self.broken.is_none() && self.inquiry.is_open()
    }

    /// Returns the calls that wait, by the last answers.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.collective().into_iter().chain(self.pairs.waiting())
    }

    fn collective(&self) -> Option<Waiting> {
        let (number, call, is_ready) = self.collectives.first()?;
        Some(Waiting {
            call,
            is_ready,
            missing: self.inquiry.missing(number),
        })
    }

    /// Fails the calls of a broken group.
    fn fail_calls(&mut self, ulfm: Option<&Ulfm>) -> bool {
        let ended = self.collectives.have_ended() & self.pairs.have_ended();
        let Some(broken) = &mut self.broken else {
            return false;
        };
        let Some(cause) = broken.cause(ended, ulfm, self.comms[1]) else {
            return false;
        };
        let any = !(self.collectives.is_empty() && self.pairs.is_empty());
        self.collectives.fail_all(cause);
        self.pairs.fail_all(cause);
        any
    }
}
