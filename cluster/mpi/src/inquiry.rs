//! How a rank finds out which other ranks have not joined a collective.
//!
//! MPI does not say for whom a collective waits. So a rank that waits for long asks the others how many collectives of the
//! group they have joined. A rank whose engine runs, since it waits as well, answers within [`LOOKS_EVERY`]. The engine of a
//! rank that has not joined the call usually sleeps, so no answer counts as that. It is wrong of a rank that has ended its
//! part already, such as the root of a broadcast, while the bytes of this one travel for longer than a report takes.
//!
//! The messages travel beside the transfers, with tags of their own. No call waits for them.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mpi::ffi;

use crate::comm::{Comm, byte};
use crate::job::Job;
use crate::raw::call;

/// How long a rank waits for answers.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// How often a rank looks for messages.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Transfers use tags below 32,000, and MPI allows 32,767 at least.
const QUESTION: c_int = 32_001;
const ANSWER: c_int = 32_002;

/// The number of the question, and in an answer the number of collectives that the rank has joined.
type Message = [u64; 2];

/// The questions and answers of a group.
pub(crate) struct Inquiry {
    comm: Comm,
    rank: usize,
    size: usize,
    /// The number of the last question, and when it was asked, unless it is over.
    question: u64,
    asked: Option<Instant>,
    /// The number of the collective that was the first one when the question was asked. The answers say nothing of a later
    /// one, which other ranks may have joined since.
    about: u64,
    /// By rank: the number of collectives that it has joined.
    joined: Vec<Option<u64>>,
    /// Messages in flight.
    sends: Vec<Job<()>>,
    looked: Option<Instant>,
}

impl Inquiry {
    pub(crate) fn new(comm: Comm, rank: usize, size: usize) -> Self {
        Self {
            comm,
            rank,
            size,
            question: 0,
            asked: None,
            about: 0,
            joined: Vec::new(),
            sends: Vec::new(),
            looked: None,
        }
    }

    /// Asks all other ranks whether they have joined the collective with this number, unless that question is open. A
    /// question about another collective is over then.
    pub(crate) fn ask(&mut self, now: Instant, about: u64) {
        if self.asked.is_some() && self.about == about {
            return;
        }
        self.question += 1;
        self.asked = Some(now);
        self.about = about;
        self.joined = vec![None; self.size];
        for rank in 0..self.size {
            if rank != self.rank {
                self.send(rank, QUESTION, [self.question, 0]);
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether answers are expected.
    pub(crate) fn is_open(&self) -> bool {
        self.asked.is_some()
    }

    /// Looks for messages now and then. `joined` returns the number of collectives that this rank has joined; it counts the
    /// calls, so it is called only then.
    pub(crate) fn look(&mut self, now: Instant, joined: impl FnOnce() -> u64) {
        let is_early = |looked: Instant| now.duration_since(looked) < LOOKS_EVERY;
        if self.looked.is_some_and(is_early) {
            return;
        }
        self.looked = Some(now);
        let joined = joined();
        self.sends.retain_mut(|send| !send.has_ended());
        while let Some((rank, [question, _])) = self.receive(QUESTION) {
            self.send(rank, ANSWER, [question, joined]);
        }
        while let Some((rank, [question, theirs])) = self.receive(ANSWER) {
            if let Some(place) = self.joined.get_mut(rank)
                && question == self.question
            {
                *place = Some(theirs);
            }
        }
        self.joined
            .get_mut(self.rank)
            .into_iter()
            .for_each(|own| *own = Some(joined));
        let all = self.joined.iter().all(Option::is_some);
        let is_late = |asked: Instant| now.duration_since(asked) > ANSWERED_WITHIN;
        if all || self.asked.is_some_and(is_late) {
            self.asked = None;
        }
    }

    /// Returns the other ranks that have not joined a collective, by the answers to the last question; none if that was about
    /// another one.
    pub(crate) fn missing(&self, number: u64) -> Vec<usize> {
        if self.about != number {
            return Vec::new();
        }
        let joined = self.joined.iter().enumerate();
        joined
            .filter(|(rank, joined)| {
                *rank != self.rank && joined.is_none_or(|joined| joined <= number)
            })
            .map(|(rank, _)| rank)
            .collect()
    }

    /// Sends a message.
    fn send(&mut self, rank: usize, tag: c_int, message: Message) {
        let comm = self.comm.clone();
        let mut send = Job::new(async move {
            // An error says that a rank has ended.
            let _ = comm.send((rank, tag), bytemuck::bytes_of(&message)).await;
        });
        if !send.has_ended() {
            self.sends.push(send);
        }
    }

    /// Returns a message that has arrived, and its rank.
    fn receive(&self, tag: c_int) -> Option<(usize, Message)> {
        let mut message: Message = [0; 2];
        let comm = self.comm.handle;
        // SAFETY: the communicator exists, and the message has the length of all messages with this tag. It has arrived, so the
        // call that receives it does not wait.
        let received = unsafe {
            let (mut status, mut is_there) = (std::mem::zeroed::<ffi::MPI_Status>(), 0);
            let any = ffi::RSMPI_ANY_SOURCE;
            let probed = call!(MPI_Iprobe(any, tag, comm, &mut is_there, &mut status));
            let (start, bytes) = (message.as_mut_ptr().cast(), size_of::<Message>() as c_int);
            let (source, ignored) = (status.MPI_SOURCE, ffi::RSMPI_STATUS_IGNORE);
            probed.and_then(|()| match is_there {
                0 => Ok(None),
                _ => call!(MPI_Recv(start, bytes, byte(), source, tag, comm, ignored))
                    .map(|()| Some(source as usize)),
            })
        };
        // An error says that a rank has ended, which calls report better.
        let source = received.unwrap_or(None)?;
        Some((source, message))
    }
}
