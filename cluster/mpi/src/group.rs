//! A group on the engine's side: its communicators and the calls in flight.
//!
//! Each group has its own communicators, by a duplicate that does not block. So groups may begin their calls in any
//! order on any rank, where one communicator would need a common order of the calls of all groups.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use millstream::{FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, EnteredContext, Operation};
use mpi::ffi::MPI_Comm;

use crate::comm::Comm;
use crate::element::Operations;
use crate::failures::Broken;
use crate::inquiry::Inquiry;
use crate::job::Events;
use crate::lane::{Kind, Lane};
use crate::moving::Mover;
use crate::part::Outcome;
use crate::pieces::Spares;
use crate::raw::{MpiError, Ulfm};
use crate::transfer::Route;
use crate::waiting::Patience;
use crate::waiting::Waiting;

/// The ranks of a group that report for all that a collective waits: two, as one of them may be what it waits for. Each
/// further report of a wait has twice as many, as the collective may wait for all before; so its messages stay few.
const REPORTERS: usize = 2;

/// A group.
pub(crate) struct Group {
    comms: [Comm; 3],
    events: Rc<Events>,
    collectives: Lane,
    /// The transfers, by whether this rank sends, the member that sends and the one that receives.
    transfers: BTreeMap<(bool, usize, usize), Lane>,
    spares: Rc<Spares>,
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
    /// Creates a group of communicators that are duplicates of one.
    pub(crate) fn new(
        handles: [MPI_Comm; 3],
        operations: &'static Operations,
    ) -> Result<Self, MpiError> {
        let events = Rc::<Events>::default();
        let [checks, data, pairs] = handles.map(|comm| Comm::new(comm, Some(events.clone())));
        let comms = [checks?, data?, pairs?];
        let [checks, data, pairs] = comms.clone();
        let (rank, size) = (data.rank()?, data.size()?);
        let spares = Rc::<Spares>::default();
        let mover = Mover {
            comm: data,
            rank,
            size,
            operations,
            spares: spares.clone(),
        };
        Ok(Self {
            comms,
            events,
            collectives: Lane::new(Kind::Collectives(checks, mover)),
            transfers: BTreeMap::new(),
            spares,
            rank,
            // An error of it says that a rank has ended, which calls report better.
            inquiry: Inquiry::new(
                Comm {
                    events: None,
                    ..pairs
                },
                rank,
                size,
            ),
            patience: Patience::default(),
            report: None,
            broken: None,
            closed: false,
        })
    }

    pub(crate) fn announce(&mut self, ticket: u64, call: Announcement) {
        let (sends, from, to) = match call.operation {
            Operation::Send { from, to } => (true, from, to),
            Operation::Receive { from, to } => (false, from, to),
            _ => return self.collectives.announce(ticket, call),
        };
        let lane = self.transfers.entry((sends, from, to)).or_insert_with(|| {
            let devices = call.devices;
            let route = Route {
                comm: self.comms[2].clone(),
                rank: self.rank,
                peer: if sends { to } else { from } / devices,
                devices: from % devices * devices + to % devices,
                spares: self.spares.clone(),
            };
            Lane::new(match sends {
                true => Kind::Sends(route),
                false => Kind::Receives(route),
            })
        });
        lane.announce(ticket, call);
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&self.collectives).chain(self.transfers.values())
    }

    fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        std::iter::once(&mut self.collectives).chain(self.transfers.values_mut())
    }

    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) {
        let mut left = Some(part);
        for lane in self.lanes_mut() {
            left = left.and_then(|part| lane.begin(ticket, part));
        }
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
            None => self.travels() || self.inquiry.is_open(),
        }
    }

    /// Whether a request has not ended, or a piece is copied.
    fn travels(&self) -> bool {
        self.events.in_flight.get() > 0 || self.lanes().any(Lane::moves)
    }

    /// Makes the context of its device current, if MPI accesses memory of that device.
    pub(crate) fn enter(&self) -> Option<EnteredContext> {
        self.lanes().find_map(Lane::enter)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes().all(Lane::is_empty)
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
    pub(crate) fn step(&mut self, ulfm: Option<&Ulfm>) -> bool {
        if self.broken.is_some() {
            return self.fail_calls(ulfm);
        }
        self.lanes_mut().for_each(Lane::step);
        if let Some(error) = self.events.error() {
            self.broken = Some(Broken::new(error, ulfm, &self.comms));
        }
        self.events.changed.take()
    }

    /// Answers other ranks, and reports calls that have waited for `after`. `moved` is whether anything has changed.
    pub(crate) fn watch(&mut self, now: Instant, moved: bool, after: Duration) {
        if self.broken.is_some() {
            return;
        }
        self.inquiry.look(now, || self.collectives.joined());
        let waits = !moved && self.travels();
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
            for waiting in collective.into_iter().chain(self.waiting_transfers()) {
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
        self.collective()
            .into_iter()
            .chain(self.waiting_transfers())
    }

    /// Returns the transfers that no other one of their direction and members holds back.
    fn waiting_transfers(&self) -> impl Iterator<Item = Waiting> {
        let lanes = self.transfers.values();
        lanes.filter_map(|lane| lane.waiting(|_| Vec::new()))
    }

    fn collective(&self) -> Option<Waiting> {
        self.collectives
            .waiting(|number| self.inquiry.missing(number))
    }

    /// Fails the calls of a broken group.
    fn fail_calls(&mut self, ulfm: Option<&Ulfm>) -> bool {
        // Each of them goes on.
        let ended = self
            .lanes_mut()
            .fold(true, |ended, lane| ended & lane.has_ended());
        let Some(broken) = &mut self.broken else {
            return false;
        };
        let Some(cause) = broken.cause(ended, ulfm, &self.comms[1]) else {
            return false;
        };
        let cause = cause.clone();
        let any = !self.is_empty();
        self.lanes_mut().for_each(|lane| lane.fail_all(&cause));
        any
    }
}
