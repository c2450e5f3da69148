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

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use mpi::ffi;

use crate::comm::Comm;
use crate::element::Operations;
use crate::group::Group;
use crate::job::{Job, all};
use crate::raw::{MpiError, call};
use crate::text::hash;
use crate::waiting::Waiting;

/// The tag of the messages by which ranks meet.
const TAG: c_int = 1;

/// A group that is being made.
pub(crate) struct Forming {
    /// What is made.
    what: String,
    /// The listed ranks that have not come, as far as this rank knows.
    missing: Rc<RefCell<Vec<usize>>>,
    job: Job<Result<Group, MpiError>>,
}

impl Forming {
    /// Makes a group of these ranks, in this order, or of all, with this number of devices each.
    pub(crate) fn new(
        world: Comm,
        ranks: Option<Vec<usize>>,
        devices: usize,
        operations: &'static Operations,
    ) -> Self {
        let missing = Rc::<RefCell<_>>::default();
        Self {
            what: match &ranks {
                None => "the making of a group of all ranks".to_owned(),
                Some(ranks) => format!("the making of a group of the ranks {ranks:?}"),
            },
            missing: missing.clone(),
            job: Job::new(async move {
                let base = match ranks {
                    None => world,
                    Some(ranks) => {
                        meet(&world, &ranks, devices, &missing).await?;
                        world.of_ranks(&ranks)?
                    }
                };
                Group::new(duplicates(&base).await?, operations)
            }),
        }
    }

    /// Goes on as far as possible. Returns the group once all its communicators exist.
    pub(crate) fn step(&mut self) -> Option<Result<Group, MpiError>> {
        self.job.poll()
    }

    /// Says what waits.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting {
            call: self.what.clone(),
            is_ready: true,
            missing: self.missing.borrow().clone(),
        }
    }
}

/// Makes the communicators of a group. They are made one after the other: with several duplicates of one communicator at
/// once, beside ranks that make other groups, Open MPI 5.0.11 now and then agrees on a wrong number and allocates 16 GiB.
async fn duplicates(base: &Comm) -> Result<[ffi::MPI_Comm; 3], MpiError> {
    // SAFETY: reads a constant of the library.
    let null = unsafe { ffi::RSMPI_COMM_NULL };
    let mut made = Box::new([null; 3]);
    for place in &mut *made {
        let made = base.start(|request| {
            // SAFETY: the base exists, and the place stays until the request has ended.
            unsafe { call!(MPI_Comm_idup(base.handle, place, request)) }
        });
        made.await?;
    }
    Ok(*made)
}

/// What the lowest rank answers: what it found out, and of which rank.
type Answer = [u64; 2];

const ALL_LIST_THE_SAME: u64 = 0;
const LISTS_DIFFER: u64 = 1;
const RANK_ENDED: u64 = 2;

/// Waits until all ranks of a list have come, and have the same list.
async fn meet(
    world: &Comm,
    ranks: &[usize],
    devices: usize,
    missing: &RefCell<Vec<usize>>,
) -> Result<(), MpiError> {
    let own = world.rank()?;
    let lowest = ranks.iter().copied().min().unwrap_or(own);
    let list = hash(format_args!("{ranks:?} with {devices}"));
    let answer = match own == lowest {
        true => {
            let others = ranks.iter().copied().filter(|rank| *rank != own);
            gather(world, &others.collect::<Vec<_>>(), list, missing).await?
        }
        false => ask(world, lowest, list).await?,
    };
    match answer {
        [ALL_LIST_THE_SAME, _] => Ok(()),
        [RANK_ENDED, _] => Err(MpiError::RankEnded {
            function: "MPI_Irecv",
        }),
        // To the rank whose list differs, it is the lowest one's that does.
        [_, rank] if rank == own as u64 => Err(MpiError::Lists { rank: lowest }),
        [_, rank] => Err(MpiError::Lists {
            rank: rank as usize,
        }),
    }
}

/// The lowest rank compares its list with those of the others, and answers them.
async fn gather(
    world: &Comm,
    others: &[usize],
    own: u64,
    missing: &RefCell<Vec<usize>>,
) -> Result<Answer, MpiError> {
    *missing.borrow_mut() = others.to_vec();
    let lists = others.iter().map(async |&rank| {
        let mut list = [0];
        let bytes = bytemuck::bytes_of_mut(&mut list);
        let received = unless_ended(world.receive((rank, TAG), bytes).await);
        missing.borrow_mut().retain(|missing| *missing != rank);
        received.map(|received| received.then_some(list[0]))
    });
    let lists: Vec<Option<u64>> = all(lists).await.into_iter().collect::<Result<_, _>>()?;
    let rank_of = |found: &dyn Fn(&Option<u64>) -> bool| {
        let place = lists.iter().position(found)?;
        Some(others[place] as u64)
    };
    let ended = rank_of(&|list| list.is_none());
    let answer = match (ended, rank_of(&|list| *list != Some(own))) {
        (Some(rank), _) => [RANK_ENDED, rank],
        (None, Some(rank)) => [LISTS_DIFFER, rank],
        (None, None) => [ALL_LIST_THE_SAME, 0],
    };
    let bytes = bytemuck::bytes_of(&answer);
    let sent = others
        .iter()
        .map(async |&rank| unless_ended(world.send((rank, TAG), bytes).await));
    for sent in all(sent).await {
        sent?;
    }
    Ok(answer)
}

/// Another rank tells the lowest one its list.
async fn ask(world: &Comm, lowest: usize, list: u64) -> Result<Answer, MpiError> {
    let mut answer = [0; 2];
    let requests = [
        world.receive((lowest, TAG), bytemuck::bytes_of_mut(&mut answer)),
        world.send((lowest, TAG), bytemuck::bytes_of(&list)),
    ];
    for outcome in all(requests).await {
        if !unless_ended(outcome)? {
            return Ok([RANK_ENDED, 0]);
        }
    }
    Ok(answer)
}

/// Returns whether a message was sent or received, or its rank has ended.
fn unless_ended(outcome: Result<(), MpiError>) -> Result<bool, MpiError> {
    match outcome {
        Err(error) if error.is_rank_ended() => Ok(false),
        outcome => outcome.map(|()| true),
    }
}
