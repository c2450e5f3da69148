//! How the communicators of a group are made.
//!
//! ```text
//!  all ranks:   duplicate the world's, without blocking ──────────────────────────────────────────────┐
//!  some ranks:  the others send a hash of the list to the lowest rank, which answers ──► create one ──┴─► duplicate
//! ```
//! MPI's call that makes a communicator of some ranks blocks until all of them have called. An engine that waited in it
//! would make no progress with calls that another rank needs before it comes to the same point. So the ranks meet first,
//! without blocking; those that listed other ranks learn of it.
//!
//! An engine makes one group at a time. If the ranks make their groups in an order that they agree on, of any engines
//! that block in the call for different groups one blocks for the first of these in that order; all other ranks of this
//! group have met it, so they are blocked for no later one, and come.

use std::ffi::c_int;

use mpi::ffi;

use crate::check::hash;
use crate::end::End;
use crate::group::Group;
use crate::raw::{Comm, MpiError, Request, call, leak};
use crate::waiting::Waiting;

/// The tag of the messages by which ranks meet.
const TAG: c_int = 1;

/// A group that is being made.
pub(crate) struct Forming {
    /// The ranks in the order of the group; `None` for all.
    ranks: Option<Vec<usize>>,
    /// The number of devices of each rank.
    devices: usize,
    stage: Stage,
}

enum Stage {
    /// Earlier groups are made first.
    Asked,
    Meeting(Meeting),
    Duplicating(Duplicates),
}

impl Forming {
    pub(crate) fn new(ranks: Option<Vec<usize>>, devices: usize) -> Self {
        Self {
            ranks,
            devices,
            stage: Stage::Asked,
        }
    }

    /// Goes on as far as possible. Returns the group once all its communicators exist.
    pub(crate) fn step(&mut self, world: Comm) -> Result<Option<Group>, MpiError> {
        loop {
            self.stage = match &mut self.stage {
                Stage::Asked => match &self.ranks {
                    None => Stage::Duplicating(Duplicates::start(world)?),
                    Some(ranks) => Stage::Meeting(Meeting::begin(world, ranks, self.devices)?),
                },
                Stage::Meeting(meeting) => {
                    if !meeting.step(world)? {
                        return Ok(None);
                    }
                    let base = world.of_ranks(&meeting.ranks)?;
                    Stage::Duplicating(Duplicates::start(base)?)
                }
                Stage::Duplicating(duplicates) => return duplicates.step(),
            };
        }
    }

    /// Says what waits.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting {
            call: match &self.ranks {
                None => "the making of a group of all ranks".to_owned(),
                Some(ranks) => format!("the making of a group of the ranks {ranks:?}"),
            },
            is_ready: true,
            missing: match &self.stage {
                Stage::Meeting(meeting) => meeting.missing(),
                _ => Vec::new(),
            },
        }
    }
}

/// The communicators of a group, duplicates of another one. They are made one after the other: with several duplicates
/// of one communicator at once, beside ranks that make other groups, Open MPI 5.0.11 now and then agrees on a wrong number
/// and allocates 16 GiB.
struct Duplicates {
    /// MPI stores the communicators here.
    comms: Box<[ffi::MPI_Comm; 3]>,
    requests: Vec<Request>,
    base: Comm,
}

// SAFETY: handles of the library; only the holder of the engine's lock uses them.
unsafe impl Send for Duplicates {}

impl Duplicates {
    fn start(base: Comm) -> Result<Self, MpiError> {
        // SAFETY: reads a constant of the library.
        let null = unsafe { ffi::RSMPI_COMM_NULL };
        let mut duplicates = Self {
            comms: Box::new([null; 3]),
            requests: Vec::new(),
            base,
        };
        duplicates.start_next()?;
        Ok(duplicates)
    }

    /// Starts the next one.
    fn start_next(&mut self) -> Result<(), MpiError> {
        let (base, comm) = (self.base, &raw mut self.comms[self.requests.len()]);
        self.requests.push(Request::start(|request| {
            // SAFETY: the base exists, and the place of the communicator stays until the request has completed.
            unsafe { call!(MPI_Comm_idup(base.0, comm, request)) }
        })?);
        Ok(())
    }

    /// Returns the group once all its communicators exist.
    fn step(&mut self) -> Result<Option<Group>, MpiError> {
        while let Some(last) = self.requests.last_mut() {
            if !last.has_completed()? {
                return Ok(None);
            }
            if self.requests.len() == self.comms.len() {
                break;
            }
            self.start_next()?;
        }
        let comms = self.comms.map(Comm);
        for comm in comms {
            comm.return_errors()?;
        }
        Group::new(comms).map(Some)
    }
}

impl Drop for Duplicates {
    fn drop(&mut self) {
        if self.requests.iter().any(Request::is_in_flight) {
            // SAFETY: reads a constant of the library.
            let null = unsafe { ffi::RSMPI_COMM_NULL };
            leak(std::mem::replace(&mut self.comms, Box::new([null; 3])));
        }
    }
}

/// What the lowest rank answers: what it found out, and of which rank.
type Answer = [u64; 2];

const ALL_LIST_THE_SAME: u64 = 0;
const LISTS_DIFFER: u64 = 1;
const RANK_ENDED: u64 = 2;

/// Some ranks meet to make a group.
struct Meeting {
    ranks: Vec<usize>,
    /// The rank of this process.
    own: usize,
    /// The ranks of the messages after the own one: all others for the lowest rank, otherwise the lowest.
    peers: Vec<usize>,
    /// The own message, and one of each peer. MPI accesses them until the requests have completed.
    messages: Box<[Answer]>,
    /// With their peers.
    requests: Vec<(usize, Request)>,
    /// The first peer that has ended.
    ended: Option<usize>,
    /// Whether the lowest rank has sent its answers.
    answers: bool,
}

impl Meeting {
    fn begin(world: Comm, ranks: &[usize], devices: usize) -> Result<Self, MpiError> {
        let own = world.rank()?;
        let lowest = ranks.iter().copied().min().unwrap_or(own);
        let peers: Vec<usize> = match own == lowest {
            true => ranks.iter().copied().filter(|rank| *rank != own).collect(),
            false => vec![lowest],
        };
        let mut meeting = Self {
            ranks: ranks.to_vec(),
            own,
            messages: vec![[0; 2]; peers.len() + 1].into_boxed_slice(),
            peers,
            requests: Vec::new(),
            ended: None,
            answers: false,
        };
        meeting.messages[0] = [hash(format_args!("{ranks:?} with {devices}")), 0];
        for peer in 0..meeting.peers.len() {
            meeting.receive(world, peer)?;
        }
        if own != lowest {
            meeting.send(world, 0)?;
        }
        Ok(meeting)
    }

    /// Returns the ranks that have not come, as far as the lowest rank knows.
    fn missing(&self) -> Vec<usize> {
        let awaited = self
            .requests
            .iter()
            .filter(|(_, request)| self.is_lowest() && !self.answers && request.is_in_flight());
        awaited.map(|(peer, _)| self.peers[*peer]).collect()
    }

    fn is_lowest(&self) -> bool {
        self.peers.iter().all(|peer| *peer > self.own)
    }

    /// Returns `true` once all ranks have come.
    fn step(&mut self, world: Comm) -> Result<bool, MpiError> {
        if !self.have_ended()? {
            return Ok(false);
        }
        if self.is_lowest() && !self.answers {
            self.answers = true;
            self.messages[0] = self.answer();
            self.requests.clear();
            for peer in 0..self.peers.len() {
                self.send(world, peer)?;
            }
            if !self.have_ended()? {
                return Ok(false);
            }
        }
        let [found, rank] = match self.is_lowest() {
            true => self.messages[0],
            false if self.ended.is_some() => [RANK_ENDED, 0],
            false => self.messages[1],
        };
        match found {
            ALL_LIST_THE_SAME => Ok(true),
            RANK_ENDED => Err(MpiError::RankEnded {
                function: "MPI_Irecv",
            }),
            _ => {
                // To the rank whose list differs, it is the lowest one's that does.
                let rank = rank as usize;
                let rank = if rank == self.own {
                    self.peers[0]
                } else {
                    rank
                };
                Err(MpiError::Lists { rank })
            }
        }
    }

    /// Compares the lists of all.
    fn answer(&self) -> Answer {
        let [own, _] = self.messages[0];
        let mut lists = self.peers.iter().zip(&self.messages[1..]);
        match (self.ended, lists.find(|(_, [list, _])| *list != own)) {
            (Some(peer), _) => [RANK_ENDED, self.peers[peer] as u64],
            (None, Some((rank, _))) => [LISTS_DIFFER, *rank as u64],
            (None, None) => [ALL_LIST_THE_SAME, 0],
        }
    }

    /// Whether each message was sent or received, or its peer has ended.
    fn have_ended(&mut self) -> Result<bool, MpiError> {
        // All are tested, since `missing` lists those that have not ended.
        let mut ended = true;
        for (peer, request) in &mut self.requests {
            match request.has_completed() {
                Ok(has_ended) => ended &= has_ended,
                Err(error) if error.is_rank_ended() => {
                    self.ended.get_or_insert(*peer);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }

    /// Sends the own message to a peer.
    fn send(&mut self, world: Comm, peer: usize) -> Result<(), MpiError> {
        let message = self.messages[0].as_ptr().cast();
        // SAFETY: `self` keeps the messages until the request has completed.
        let started = unsafe { self.end(world, peer).send(message, size_of::<Answer>()) };
        self.keep(peer, started)
    }

    /// Receives the message of a peer.
    fn receive(&mut self, world: Comm, peer: usize) -> Result<(), MpiError> {
        let message = self.messages[peer + 1].as_mut_ptr().cast();
        // SAFETY: as above.
        let started = unsafe { self.end(world, peer).receive(message, size_of::<Answer>()) };
        self.keep(peer, started)
    }

    fn end(&self, world: Comm, peer: usize) -> End {
        End {
            comm: world,
            peer: self.peers[peer],
            tag: TAG,
        }
    }

    /// Keeps a message, unless its peer is known to have ended.
    fn keep(&mut self, peer: usize, started: Result<Request, MpiError>) -> Result<(), MpiError> {
        match started {
            Ok(request) => self.requests.push((peer, request)),
            Err(error) if error.is_rank_ended() => {
                self.ended.get_or_insert(peer);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if self
            .requests
            .iter()
            .any(|(_, request)| request.is_in_flight())
        {
            leak(std::mem::take(&mut self.messages));
        }
    }
}
