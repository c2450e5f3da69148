//! The threads that share the cubes of launches.
//!
//! The board has one slot per queue, since a queue runs one launch at a time. Its worker posts a job in
//! its slot, takes chunks of it like everybody else, and goes on once nobody is inside the slot. Members
//! that find no open slot sleep (I11).
//!
//! Invariants
//! 1. `state` is OPEN while there may be chunks left; its other bits count the members inside.
//! 2. A member may look at the job only between an entry that found OPEN and its exit. It may enter a
//!    closed slot by mistake, and then leaves at once.
//! 3. Only the slot's worker opens it, and only after it has seen it closed with nobody inside; so the
//!    job, which lies on the worker's stack, outlives every look.
//! 4. Whoever finds the counter used up closes the slot before he leaves it.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use millstream_core::channel::mark_runtime_thread;
use millstream_core::error::OpenError;
use millstream_sync::facade::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use millstream_sync::facade::cell::UnsafeCell;
use millstream_sync::facade::thread::{self, JoinHandle};
use millstream_sync::facade::{Mutex, Padded, Spinner, lock};
use millstream_sync::gate::Gate;

/// In a slot's `state`: there may be chunks left.
const OPEN: u32 = 1 << 31;

/// Chunks that each thread of the team takes of one job, on average: enough to even out cubes of
/// unequal cost, few enough that the shared counter costs nothing.
const CHUNKS_PER_THREAD: u64 = 8;

/// Most pieces of one job. The counter may run over by a chunk for each thread, and must not wrap.
pub(crate) const PIECES_MAX: u64 = 1 << 62;

/// Runs a range of pieces of a job.
pub(crate) type Work<'a> = dyn Fn(Range<u64>) + Sync + 'a;

/// A job in a slot. It belongs to the slot's worker while the slot is closed and empty.
struct Job {
    work: *const Work<'static>,
    pieces: u64,
    chunk: u64,
}

struct Slot {
    /// OPEN, and how many members are inside.
    state: Padded<AtomicU32>,
    /// The next piece of the job.
    next: Padded<AtomicU64>,
    job: UnsafeCell<Job>,
    /// The message of the first panic of the job.
    panic: Mutex<Option<String>>,
    /// Where the slot's worker waits for the last member to leave.
    done: Gate,
}

// SAFETY: the job is written by the slot's worker alone, while nobody is inside (invariant 3), and its
// work is `Sync`.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

struct Board {
    slots: Box<[Slot]>,
    /// Where each member sleeps.
    members: Box<[Gate]>,
    /// The member that is woken first by the next job, so that jobs spread.
    first: AtomicUsize,
    stop: AtomicBool,
}

thread_local! {
    /// The board of the device that the calling thread works for; only compared, never followed.
    static BOARD: Cell<*const Board> = const { Cell::new(ptr::null()) };
}

/// A fixed team of threads. The worker that posts a job counts as one of them.
pub(crate) struct Team {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

/// One queue's way to the team.
pub(crate) struct TeamSeat {
    board: Arc<Board>,
    slot: usize,
    spin: Spinner,
}

impl Team {
    /// Starts a team of `threads`, of which the workers of `queues` queues make one.
    pub(crate) fn start(threads: usize, queues: usize) -> Result<Self, OpenError> {
        let board = Arc::new(Board {
            slots: (0..queues).map(|_| Slot::new()).collect(),
            members: (1..threads).map(|_| Gate::new()).collect(),
            first: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let mut team = Self {
            board,
            threads: Vec::with_capacity(threads - 1),
        };
        for member in 0..team.board.members.len() {
            let board = team.board.clone();
            let started = thread::spawn_named(&format!("ms-cpu-cube-{member}"), move || {
                BOARD.set(Arc::as_ptr(&board));
                board.serve(member);
            });
            match started {
                Ok(thread) => team.threads.push(thread),
                Err(error) => return Err(OpenError::Thread(error.to_string())),
            }
        }
        Ok(team)
    }

    /// The seat of a queue. There must be one seat per queue at most.
    pub(crate) fn seat(&self, queue: usize) -> TeamSeat {
        TeamSeat {
            board: self.board.clone(),
            slot: queue,
            spin: Spinner::default(),
        }
    }
}

impl Team {
    /// Does the calling thread work for this team's device, as a member or as a queue's worker?
    pub(crate) fn has_current_thread(&self) -> bool {
        BOARD.get() == Arc::as_ptr(&self.board)
    }

    /// Lets the members end by themselves, after what they are in.
    pub(crate) fn detach(&mut self) {
        self.threads.clear();
    }
}

impl Drop for Team {
    /// Stops the members and joins them. No job may be posted any more.
    fn drop(&mut self) {
        // Relaxed: the gates' fences order it before the members' last look.
        self.board.stop.store(true, Ordering::Relaxed);
        self.board.members.iter().for_each(Gate::wake);
        for thread in self.threads.drain(..) {
            // A panic of user code has been caught and told.
            let _ = thread.join();
        }
    }
}

impl TeamSeat {
    /// The calling thread, which never does anything else, works for this team's device.
    pub(crate) fn take_thread(&self) {
        BOARD.set(Arc::as_ptr(&self.board));
    }

    /// Threads that may share a job, the caller among them.
    #[inline]
    pub(crate) fn threads(&self) -> usize {
        self.board.members.len() + 1
    }

    /// Runs the pieces `from..pieces` on the calling thread and up to `helpers` others, each piece exactly
    /// once, and answers how many pieces the caller ran itself. After a panic the remaining pieces are
    /// skipped. Blocks until nobody works on them any more.
    ///
    /// # Errors
    /// The message of the first panic.
    pub(crate) fn share(
        &mut self,
        from: u64,
        pieces: u64,
        helpers: usize,
        work: &Work<'_>,
    ) -> Result<u64, String> {
        debug_assert!(pieces <= PIECES_MAX, "checked when the launch was queued");
        let slot = &self.board.slots[self.slot];
        let chunk =
            (pieces.saturating_sub(from) / (self.threads() as u64 * CHUNKS_PER_THREAD)).max(1);
        // SAFETY: the lifetime is erased only in the slot, and nobody looks there any more when this
        // function returns (invariant 3); nothing below unwinds before that.
        let erased = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        slot.job.with_mut(|job| {
            // SAFETY: the slot is closed and empty, so the job is this worker's.
            unsafe {
                *job = Job {
                    work: erased,
                    pieces,
                    chunk,
                }
            }
        });
        // Relaxed: handed over by the opening.
        slot.next.store(from, Ordering::Relaxed);
        // Release: pairs with the Acquire of an entry; whoever finds OPEN finds the job.
        slot.state.fetch_or(OPEN, Ordering::Release);
        self.board.call(helpers);

        let own = slot.take_chunks();
        slot.close();
        slot.done.wait_until(&mut self.spin, || {
            // Acquire: pairs with the Release of an exit; what members wrote is seen.
            (slot.state.load(Ordering::Acquire) == 0).then_some(())
        });
        match lock(&slot.panic).take() {
            None => Ok(own),
            Some(message) => Err(message),
        }
    }
}

impl Board {
    /// Wakes up to `helpers` members that sleep.
    fn call(&self, helpers: usize) {
        let members = self.members.len();
        let helpers = helpers.min(members);
        if helpers == 0 {
            return;
        }
        // Relaxed: it spreads the work and decides nothing.
        let first = self.first.fetch_add(helpers, Ordering::Relaxed);
        for offset in 0..helpers {
            self.members[first.wrapping_add(offset) % members].wake();
        }
    }

    /// The life of a member.
    fn serve(&self, member: usize) {
        let _mark = mark_runtime_thread();
        let mut spin = Spinner::default();
        loop {
            let found = self.members[member].wait_until(&mut spin, || {
                // Relaxed: the gate's fence orders it.
                if self.stop.load(Ordering::Relaxed) {
                    return Some(None);
                }
                self.enter_any(member).map(Some)
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

    /// Enters if the slot is open. A look first, so that idle members leave the line alone.
    fn enter(&self) -> bool {
        // Relaxed: only a hint, the entry below decides.
        if self.state.load(Ordering::Relaxed) & OPEN == 0 {
            return false;
        }
        // Acquire: pairs with the opening's Release.
        if self.state.fetch_add(1, Ordering::Acquire) & OPEN != 0 {
            return true;
        }
        self.exit();
        false
    }

    /// Leaves. The last one to leave a closed slot wakes its worker.
    fn exit(&self) {
        // Release: pairs with the worker's Acquire; it sees what was written inside.
        if self.state.fetch_sub(1, Ordering::Release) == 1 {
            self.done.wake();
        }
    }

    /// Says that the counter is used up.
    fn close(&self) {
        // Relaxed: nothing is handed over by closing.
        self.state.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Takes chunks until none is left; answers how many pieces were run here. To be called inside.
    fn take_chunks(&self) -> u64 {
        // SAFETY: inside an open slot, or the slot's own worker (invariants 2 and 3).
        let (work, pieces, chunk) = self
            .job
            .with(|job| unsafe { (&*(*job).work, (*job).pieces, (*job).chunk) });
        let mut own = 0;
        loop {
            // Relaxed: the counter only tells pieces apart.
            let start = self.next.fetch_add(chunk, Ordering::Relaxed);
            if start >= pieces {
                return own;
            }
            let end = pieces.min(start + chunk);
            match catch_unwind(AssertUnwindSafe(|| work(start..end))) {
                Ok(()) => own += end - start,
                Err(payload) => {
                    lock(&self.panic).get_or_insert(message_of(payload));
                    // Relaxed: as above. What others have taken they finish.
                    self.next.fetch_max(pieces, Ordering::Relaxed);
                }
            }
        }
    }
}

/// What a panic said.
pub(crate) fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => Some((*text).to_owned()),
        None => payload.downcast_ref::<String>().cloned(),
    };
    // The payload is user data, whose drop may panic as well.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    message.unwrap_or_else(|| "a value that is not text".to_owned())
}

#[cfg(test)]
#[path = "team_tests.rs"]
mod tests;
