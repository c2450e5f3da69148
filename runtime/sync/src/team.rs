//! A fixed team of threads that share the pieces of jobs.
//!
//! A submitter may post jobs in one slot, one job at a time. Its thread posts a job, takes chunks of
//! it as the members do, and returns once no member is inside the slot. Members that find no open
//! slot sleep (I11). Nothing here starts a thread.
//!
//! ```text
//!   submitter                                  member
//!   write job, next = first piece              sleep at its gate
//!   state |= OPEN          (Release)
//!   wake members                               state & OPEN?            (Relaxed, a hint)
//!                                              state += 1               (Acquire): sees the job
//!   take chunks: next += chunk                 take chunks: next += chunk
//!   state &= !OPEN                             state &= !OPEN
//!                                              state -= 1               (Release)
//!   wait until state == 0  (Acquire)             was 1: wake the submitter
//! ```
//! Invariants
//! 1. `state` has OPEN while there may be chunks left; its other bits count the members inside.
//! 2. A member may read the job only between an entry that found OPEN and its exit. It may enter a
//!    closed slot by mistake, and then leaves at once.
//! 3. Only the slot's submitter opens it, and only after it has seen it closed and empty; so the
//!    job, which lies on the submitter's stack, outlives every access.
//! 4. A thread that finds the counter used up closes the slot before it leaves.
//!
//! The Release of an exit pairs with the submitter's Acquire: the submitter sees what the members
//! wrote.
//! Checked by the models in `loom-tests/tests/models/team.rs`.

use crate::facade::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::facade::cell::UnsafeCell;
use crate::facade::{Mutex, Padded, SpinPolicy, Spinner, lock};
use crate::gate::Gate;
use crate::payload;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// In a slot's `state`: there may be chunks left.
const OPEN: u32 = 1 << 31;

/// Chunks that each thread of the team takes of one job, on average: enough to balance pieces of
/// unequal cost, few enough that the shared counter costs little.
const CHUNKS_PER_THREAD: u64 = 8;

/// The greatest number of pieces of one job. The counter may exceed it by a chunk for each thread,
/// and must not wrap.
pub const PIECES_MAX: u64 = 1 << 62;

/// Runs a range of pieces of a job.
pub type Work<'a> = dyn Fn(Range<u64>) + Sync + 'a;

/// The payload of a panic of a piece.
pub type Panic = Box<dyn Any + Send>;

/// A job in a slot. It belongs to the slot's submitter while the slot is closed and empty.
struct Job {
    work: *const Work<'static>,
    pieces: u64,
    chunk: u64,
}

struct Slot {
    /// OPEN, and the number of members inside.
    state: Padded<AtomicU32>,
    /// The next piece of the job.
    next: Padded<AtomicU64>,
    job: UnsafeCell<Job>,
    /// The first panic of the job.
    panic: Mutex<Option<Panic>>,
    /// Where the submitter waits for the last member to leave.
    done: Gate,
}

// SAFETY: only the slot's submitter writes the job, while no member is inside (invariant 3), and
// its work is `Sync`.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

struct Board {
    slots: Box<[Slot]>,
    /// Where each member sleeps.
    members: Box<[Gate]>,
    /// The member that the next job wakes first, so that jobs spread. Nothing depends on it; it is
    /// std's under every model checker, so that it adds no state to a model.
    first: AtomicUsize,
    stop: AtomicBool,
    spin: SpinPolicy,
}

/// Stops a team.
pub struct Team {
    board: Arc<Board>,
}

/// One thread's part in a team.
pub struct Member {
    board: Arc<Board>,
    index: usize,
}

/// Posts jobs in one slot, one after the other.
pub struct Submitter {
    board: Arc<Board>,
    slot: usize,
    spin: Spinner,
}

/// Creates a team of `members` members and `submitters` submitters, which wait as `spin` says.
pub fn team(
    members: usize,
    submitters: usize,
    spin: SpinPolicy,
) -> (Team, Vec<Member>, Vec<Submitter>) {
    let board = Arc::new(Board {
        slots: (0..submitters).map(|_| Slot::new()).collect(),
        members: (0..members).map(|_| Gate::new()).collect(),
        first: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        spin,
    });
    let member = |index| Member {
        board: board.clone(),
        index,
    };
    let submitter = |slot| Submitter {
        board: board.clone(),
        slot,
        spin: Spinner::new(spin),
    };
    let members = (0..members).map(member).collect();
    let submitters = (0..submitters).map(submitter).collect();
    (Team { board }, members, submitters)
}

impl Team {
    /// Stops the members after the jobs that they are in. A job that is posted later is run by its
    /// submitter alone.
    pub fn stop(&self) {
        // Relaxed: the gates' fences order it before the members' last poll.
        self.board.stop.store(true, Ordering::Relaxed);
        self.board.members.iter().for_each(Gate::wake);
    }
}

impl Member {
    /// Runs chunks of job after job until the team is stopped. Blocks until then.
    pub fn serve(self) {
        let Self { board, index } = self;
        let mut spin = Spinner::new(board.spin);
        loop {
            let found = board.members[index].wait_until(&mut spin, || {
                // Relaxed: ordered by the gate's fence.
                if board.stop.load(Ordering::Relaxed) {
                    return Some(None);
                }
                board.enter_any(index).map(Some)
            });
            match found {
                None => return,
                Some(slot) => {
                    slot.take_chunks();
                    slot.close();
                    slot.exit();
                }
            }
        }
    }
}

impl Submitter {
    /// Returns the number of threads that may share a job, including the caller.
    #[inline]
    pub fn threads(&self) -> usize {
        self.board.members.len() + 1
    }

    /// Runs the pieces `from..pieces` on the calling thread and the members, each piece exactly
    /// once, and returns the number of pieces that the caller ran. Wakes up to `helpers` members; a
    /// member that is awake may help too. `pieces` is at most [`PIECES_MAX`]. After a panic the
    /// remaining pieces are skipped. Blocks until no member is inside.
    ///
    /// # Errors
    /// The payload of the first panic; dropping it runs user code. Payloads of later panics of the
    /// same job are dropped here.
    pub fn share(
        &mut self,
        from: u64,
        pieces: u64,
        helpers: usize,
        work: &Work<'_>,
    ) -> Result<u64, Panic> {
        debug_assert!(pieces <= PIECES_MAX, "the counter must not wrap");
        let slot = &self.board.slots[self.slot];
        let share = pieces.saturating_sub(from) / (self.threads() as u64 * CHUNKS_PER_THREAD);
        // SAFETY: the lifetime is erased only in the slot, and no thread reads it there once this
        // function has returned (invariant 3); nothing below unwinds before that.
        let work = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        slot.open(
            Job {
                work,
                pieces,
                chunk: share.max(1),
            },
            from,
        );
        self.board.wake_members(helpers);

        let own = slot.take_chunks();
        slot.close();
        slot.done
            .wait_until(&mut self.spin, || slot.is_empty().then_some(()));
        match lock(&slot.panic).take() {
            None => Ok(own),
            Some(panic) => Err(panic),
        }
    }
}

impl Board {
    /// Wakes up to `helpers` members that sleep.
    fn wake_members(&self, helpers: usize) {
        let members = self.members.len();
        let helpers = helpers.min(members);
        if helpers == 0 {
            return;
        }
        // Relaxed: it spreads the work; nothing depends on it.
        let first = self.first.fetch_add(helpers, Ordering::Relaxed);
        for offset in 0..helpers {
            self.members[first.wrapping_add(offset) % members].wake();
        }
    }

    /// Enters an open slot, if there is one. Members start their search at different slots.
    fn enter_any(&self, member: usize) -> Option<&Slot> {
        let slots = self.slots.len();
        (0..slots)
            .map(|offset| &self.slots[(member + offset) % slots])
            .find(|slot| slot.enter())
    }
}

impl Slot {
    fn new() -> Self {
        fn nothing(_: Range<u64>) {}
        Self {
            state: Padded(AtomicU32::new(0)),
            next: Padded(AtomicU64::new(0)),
            job: UnsafeCell::new(Job {
                work: &nothing,
                pieces: 0,
                chunk: 1,
            }),
            panic: Mutex::new(None),
            done: Gate::new(),
        }
    }

    /// Posts a job. For the slot's submitter, which has seen the slot closed and empty.
    fn open(&self, job: Job, from: u64) {
        self.job.with_mut(|place| {
            // SAFETY: the slot is closed and empty, so the job is the submitter's (invariant 3).
            unsafe { *place = job }
        });
        // Relaxed: published by the store of OPEN.
        self.next.store(from, Ordering::Relaxed);
        // Release: pairs with the Acquire in `enter`; a member that finds OPEN sees the job.
        self.state.fetch_or(OPEN, Ordering::Release);
    }

    /// Enters if the slot is open. A load first, so that idle members do not write to the cache line.
    fn enter(&self) -> bool {
        // Relaxed: a hint; the addition below decides.
        if self.state.load(Ordering::Relaxed) & OPEN == 0 {
            return false;
        }
        // Acquire: pairs with the Release in `open`.
        let before = self.state.fetch_add(1, Ordering::Acquire);
        if before & OPEN != 0 {
            return true;
        }
        self.exit();
        false
    }

    /// Leaves. The last member that leaves a closed slot wakes its submitter.
    fn exit(&self) {
        // Release: pairs with the submitter's Acquire in `is_empty`; it sees what was written inside.
        let before = self.state.fetch_sub(1, Ordering::Release);
        if before == 1 {
            self.done.wake();
        }
    }

    /// Marks the counter as used up.
    fn close(&self) {
        // Relaxed: closing publishes nothing.
        self.state.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Returns `true` if the slot is closed and no member is inside.
    fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release in `exit`; the members' writes are visible.
        self.state.load(Ordering::Acquire) == 0
    }

    /// Takes chunks until none is left; returns the number of pieces run here. Call it inside only.
    fn take_chunks(&self) -> u64 {
        // SAFETY: inside an open slot, or the slot's own submitter (invariants 2 and 3).
        let (work, pieces, chunk) = self
            .job
            .with(|job| unsafe { (&*(*job).work, (*job).pieces, (*job).chunk) });
        let mut own = 0;
        loop {
            // Relaxed: the counter only assigns pieces.
            let start = self.next.fetch_add(chunk, Ordering::Relaxed);
            if start >= pieces {
                return own;
            }
            let end = pieces.min(start + chunk);
            match catch_unwind(AssertUnwindSafe(|| work(start..end))) {
                Ok(()) => own += end - start,
                Err(panic) => {
                    self.keep_first(panic);
                    // Relaxed: as above. Other threads finish the chunks that they have taken.
                    self.next.fetch_max(pieces, Ordering::Relaxed);
                }
            }
        }
    }

    #[cold]
    fn keep_first(&self, panic: Panic) {
        let mut first = lock(&self.panic);
        if first.is_none() {
            *first = Some(panic);
        } else {
            drop(first);
            payload::end(panic);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "team_tests.rs"]
mod tests;
