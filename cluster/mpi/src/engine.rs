//! What makes all calls of MPI, on one thread at a time: see `link`.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use millstream_cluster::Announcement;
use mpi::ffi;

use crate::aware;
use crate::comm::Comm;
use crate::element::Operations;
use crate::forming::Forming;
use crate::group::Group;
use crate::job::Job;
use crate::part::Outcome;
use crate::raw::{MpiError, Ulfm, call, check};
use crate::waiting::Patience;
use crate::waiting::Waiting;

/// A message to the caller that waits for it.
type Reply<T> = Sender<Result<T, MpiError>>;

/// A message to the engine.
pub(crate) enum Command {
    /// Make a group of these ranks, in this order, or of all, with this number of devices each. The answer is its number.
    Form(Option<Vec<usize>>, usize, Reply<u64>),
    /// A call of a group, in the order of the calls.
    Announce(u64, u64, Announcement),
    /// The part of this rank in a call.
    Begin(u64, u64, Outcome),
    /// The application has dropped the group.
    Close(u64),
    /// Find out what waits, and for which ranks.
    Waiting(Reply<Vec<Waiting>>),
    /// Report calls that have waited for this time.
    ReportAfter(Duration),
    /// Make the world one of the ranks that are left. The answer is the rank and the size.
    Survive(Reply<(usize, usize)>),
    /// Finish the calls, and end.
    End,
}

/// How long an engine that ends waits for calls that other ranks have not joined.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How long calls wait before that is reported, unless the application says otherwise.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// Makes a communicator of the ranks that are left.
type Surviving = Job<Result<Comm, MpiError>>;

pub(crate) struct Engine {
    world: Comm,
    ulfm: Option<&'static Ulfm>,
    operations: &'static Operations,
    groups: HashMap<u64, Group>,
    /// The groups that are made, one after the other.
    forming: VecDeque<(Forming, Reply<u64>)>,
    /// The world of the ranks that are left is made.
    surviving: Option<(Surviving, Reply<(usize, usize)>)>,
    /// The application asked what waits.
    asked: Vec<Reply<Vec<Waiting>>>,
    report_after: Duration,
    /// The time for which the first group that is made has waited.
    patience: Patience,
    groups_made: u64,
    inbox: Receiver<Command>,
    /// When anything changed last, and when it was stepped last.
    progress: Instant,
    now: Instant,
    /// When the application asked it to end.
    ends: Option<Instant>,
    /// Whether a rank has ended. `MPI_Finalize` may then wait forever.
    rank_ended: bool,
}

// SAFETY: what its parts share they share with each other alone, and the handles of MPI are used by the holder of the
// engine's lock, which is one thread at a time.
unsafe impl Send for Engine {}

impl Engine {
    /// Initializes MPI on this thread, and returns the engine, its rank and the number of ranks, and whether other threads
    /// may call MPI, too, one at a time.
    pub(crate) fn init(inbox: Receiver<Command>) -> Result<(Self, (usize, usize), bool), MpiError> {
        let mut provided = 0;
        let (no_count, no_arguments) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: MPI accepts null for the arguments. `World::init` calls this once.
        unsafe {
            call!(MPI_Init_thread(
                no_count,
                no_arguments,
                ffi::RSMPI_THREAD_SERIALIZED,
                &mut provided,
            ))
        }?;
        aware::ask();
        let world = Comm::world()?;
        let (rank, size) = (world.rank()?, world.size()?);
        let engine = Self {
            world,
            // Kept for good: MPI is initialized once.
            ulfm: Ulfm::load().map(|ulfm| &*Box::leak(Box::new(ulfm))),
            operations: Box::leak(Box::new(Operations::create()?)),
            groups: HashMap::new(),
            forming: VecDeque::new(),
            surviving: None,
            asked: Vec::new(),
            report_after: REPORT_AFTER,
            patience: Patience::default(),
            groups_made: 0,
            inbox,
            progress: Instant::now(),
            now: Instant::now(),
            ends: None,
            rank_ended: false,
        };
        // SAFETY: reads a constant of the library.
        let is_serialized = provided >= unsafe { ffi::RSMPI_THREAD_SERIALIZED };
        Ok((engine, (rank, size), is_serialized))
    }

    /// Takes the commands, and goes on with everything as far as possible. Returns `true` if anything changed.
    pub(crate) fn turn(&mut self) -> bool {
        let mut changed = self.take_commands();
        changed |= self.step_survivors();
        changed | self.step(changed)
    }

    /// As [`Engine::turn`], on a thread of the application. `None` if the rest is for the engine's own thread: MPI is
    /// finalized by the thread that has initialized it, and the call that makes a world of survivors blocks.
    pub(crate) fn help(&mut self) -> Option<bool> {
        let changed = self.take_commands();
        if self.surviving.is_some() || self.ends.is_some() {
            return None;
        }
        Some(self.step(changed))
    }

    fn take_commands(&mut self) -> bool {
        let mut any = false;
        while let Ok(command) = self.inbox.try_recv() {
            self.take(command);
            any = true;
        }
        any
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Form(ranks, devices, reply) => {
                let world = self.world.clone();
                let forming = Forming::new(world, ranks, devices, self.operations);
                self.forming.push_back((forming, reply));
            }
            Command::Announce(group, ticket, call) => {
                if let Some(group) = self.groups.get_mut(&group) {
                    group.announce(ticket, call);
                }
            }
            Command::Begin(group, ticket, part) => {
                if let Some(group) = self.groups.get_mut(&group) {
                    group.begin(ticket, part);
                }
            }
            Command::Close(group) => {
                if let Some(group) = self.groups.get_mut(&group) {
                    group.closed = true;
                }
            }
            Command::Survive(reply) => match self.ulfm {
                Some(ulfm) => {
                    let left = Job::new(survivors(self.world.clone(), ulfm));
                    self.surviving = Some((left, reply));
                }
                None => self.answer(&reply, Err(MpiError::NoSurvivors)),
            },
            Command::Waiting(reply) => {
                let now = Instant::now();
                self.groups.values_mut().for_each(|group| group.ask(now));
                self.asked.push(reply);
            }
            Command::ReportAfter(time) => self.report_after = time,
            Command::End => self.ends = Some(Instant::now()),
        }
    }

    /// Answers a caller, which may have gone.
    fn answer<T>(&mut self, reply: &Reply<T>, answer: Result<T, MpiError>) {
        self.rank_ended |= answer.as_ref().is_err_and(MpiError::is_rank_ended);
        let _ = reply.send(answer);
    }

    /// Goes on with everything as far as possible. `changed` is whether anything has changed in this turn before.
    fn step(&mut self, mut changed: bool) -> bool {
        let now = Instant::now();
        self.now = now;
        // Any call of MPI may go on with requests of other groups.
        let _current = self.groups.values().find_map(Group::enter);
        changed |= self.step_forming(now);
        for group in self.groups.values_mut() {
            let moved = group.step(self.ulfm);
            group.watch(now, moved, self.report_after);
            self.rank_ended |= group.has_ended_rank();
            changed |= moved;
        }
        if !self.asked.is_empty() && !self.groups.values().any(Group::is_asking) {
            self.say_what_waits();
        }
        // The communicators stay: to free them is a collective call, and a process has few.
        self.groups
            .retain(|_, group| !(group.closed && group.is_empty()));
        if changed {
            self.progress = now;
        }
        changed
    }

    fn say_what_waits(&mut self) {
        let making = self.forming.iter().map(|(forming, _)| forming.waiting());
        let calls = self.groups.values().flat_map(Group::waiting);
        let waiting: Vec<Waiting> = making.chain(calls).collect();
        for reply in std::mem::take(&mut self.asked) {
            self.answer(&reply, Ok(waiting.clone()));
        }
    }

    /// Goes on with the first group that is made.
    fn step_forming(&mut self, now: Instant) -> bool {
        let Some((forming, _)) = self.forming.front_mut() else {
            return false;
        };
        let outcome = forming.step();
        let waits = outcome.is_none();
        if let Some(waited) = self.patience.turn(waits, now, self.report_after) {
            tracing::warn!("after {waited:.1?}: {}", forming.waiting());
        }
        let Some(outcome) = outcome else {
            return false;
        };
        let outcome = outcome.map(|group| {
            self.groups_made += 1;
            self.groups.insert(self.groups_made, group);
            self.groups_made
        });
        if let Some((_, reply)) = self.forming.pop_front() {
            self.answer(&reply, outcome);
        }
        true
    }

    /// Returns the time from the last change to the last step.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.now.duration_since(self.progress)
    }

    /// Whether MPI must be polled.
    pub(crate) fn is_in_flight(&self) -> bool {
        !self.forming.is_empty()
            || self.surviving.is_some()
            || !self.asked.is_empty()
            || self.groups.values().any(Group::is_in_flight)
    }

    pub(crate) fn is_over(&self) -> bool {
        let Some(since) = self.ends else {
            return false;
        };
        let idle = self.forming.is_empty() && self.groups.values().all(Group::is_empty);
        idle || since.elapsed() > END_WITHIN
    }

    /// Makes the world one of the ranks that are left, once all of them have asked for it.
    fn step_survivors(&mut self) -> bool {
        let left = self.surviving.as_mut().and_then(|(left, _)| left.poll());
        let Some(left) = left else {
            return false;
        };
        let answer = left.and_then(|left| {
            let ranks = (left.rank()?, left.size()?);
            self.world = left;
            Ok(ranks)
        });
        if let Some((_, reply)) = self.surviving.take() {
            self.answer(&reply, answer);
        }
        true
    }

    pub(crate) fn finalize(self) {
        let waits = self.groups.values().any(|group| !group.is_empty());
        // A group that was revoked by another rank may not know why.
        let ended = |ulfm: &Ulfm| ulfm.ended_rank(self.world.handle).is_some();
        if self.rank_ended || waits || self.ulfm.is_some_and(ended) {
            tracing::warn!(
                "MPI is not finalized: a rank has ended, or has not joined a call of this one"
            );
            return;
        }
        // SAFETY: no request is in flight, and no thread calls MPI afterwards.
        if let Err(error) = unsafe { call!(MPI_Finalize()) } {
            tracing::warn!("{error}");
        }
    }
}

/// Makes a world of the ranks that are left. MPI's call for it blocks until all of them have called. An engine that waited
/// in it would make no progress with calls that another rank needs before it comes to the same point. So the ranks agree
/// first, without blocking.
async fn survivors(world: Comm, ulfm: &Ulfm) -> Result<Comm, MpiError> {
    let mut flag = Box::new(1);
    let agreed = world.start(|request| {
        // SAFETY: the world exists, and the flag stays until the request has ended.
        check("MPIX_Comm_iagree", unsafe {
            (ulfm.iagree)(world.handle, &mut *flag, request)
        })
    });
    match agreed.await {
        // An agreement with a rank that has ended reports that, and is complete.
        Ok(()) | Err(MpiError::RankEnded { .. }) => {}
        Err(error) => return Err(error),
    }
    // SAFETY: reads a constant of the library.
    let mut left = unsafe { ffi::RSMPI_COMM_NULL };
    // SAFETY: the world exists. All ranks that are left are here, so that the call ends soon.
    check("MPIX_Comm_shrink", unsafe {
        (ulfm.shrink)(world.handle, &mut left)
    })?;
    Comm::new(left, None)
}
