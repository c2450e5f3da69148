//! How long a waiting thread spins before it parks.
//!
//! Spinning saves a wake (about 14 us) if the answer is near, and slows all threads down if cores
//! are scarce. So it is bounded in four ways: by time; by permits (at most one thread fewer than
//! there are cores spins in the whole process); by recent success (each spin that finds nothing
//! halves the next one, down to none; a successful spin, or a park so short that a spin would have
//! succeeded, restores it); and by a share of wall time. In a model no thread spins.

use super::IN_MODEL;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The cost of two wakes, roughly.
const DEFAULT_SPIN_US: u32 = 20;
/// Pauses between two polls of a sleeper with much traffic: often enough for the latency, rarely
/// enough to leave the cache line to its writers, which come one after the other.
const PAUSES_PER_POLL: u32 = 8;
/// Pauses between two polls for a single answer: its cache line is written once, so polling costs little.
const PAUSES_PER_LOOK: u32 = 2;
/// Polls before a permit is taken and the clock is read, about a microsecond: a quick answer should
/// pay for neither, and two threads that answer each other on two cores pass one permit back and
/// forth.
const POLLS_BEFORE_PERMIT: u32 = 8;
/// Polls between two readings of the clock.
const POLLS_PER_CLOCK: u32 = 8;
/// After this number of failed spins in a row there is none.
const FAILED_SPINS_MAX: u8 = 4;
/// Failed spins may take `1 / FAILED_SHARE` of each window of wall time.
const FAILED_SHARE: u32 = 4;
const WINDOW: Duration = Duration::from_millis(10);

/// The permits of the whole process, in one word so that taking one is a single step: the low half
/// counts the threads that spin at this moment, the high half the permits taken so far.
static PERMITS: AtomicU64 = AtomicU64::new(0);
/// One permit taken, in `PERMITS`.
const TAKEN: u64 = 1 << 32;
/// The limit set by [`set_spinner_limit`]; `u32::MAX` means one fewer than there are cores.
static SPINNERS_MAX: AtomicU32 = AtomicU32::new(u32::MAX);

/// Sets the number of threads that may spin at once in this process; `None` restores the default,
/// one fewer than there are cores.
pub fn set_spinner_limit(limit: Option<u32>) {
    // Relaxed: a setting; it may be read late.
    SPINNERS_MAX.store(limit.unwrap_or(u32::MAX), Relaxed);
}

/// Returns how often threads of this process have begun to spin for longer than a few polls.
/// Constant if every policy is [`SpinPolicy::never`]. It wraps.
pub fn spins_begun() -> u32 {
    // Relaxed: it orders nothing.
    (PERMITS.load(Relaxed) / TAKEN) as u32
}

fn spinners_max() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    // Relaxed: see `set_spinner_limit`.
    match SPINNERS_MAX.load(Relaxed) {
        u32::MAX => *CORES.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            u32::try_from(cores - 1).unwrap_or(u32::MAX - 1)
        }),
        limit => limit,
    }
}

/// A permit to spin.
struct Permit;

impl Permit {
    fn take() -> Option<Self> {
        // Relaxed: the count orders nothing, it only bounds.
        let before = PERMITS.fetch_add(TAKEN + 1, Relaxed);
        if before as u32 >= spinners_max() {
            PERMITS.fetch_sub(TAKEN + 1, Relaxed);
            return None;
        }
        Some(Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Relaxed: see `take`.
        PERMITS.fetch_sub(1, Relaxed);
    }
}

/// The longest time to spin before parking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinPolicy {
    budget_us: u32,
}

impl SpinPolicy {
    /// Parks at once.
    pub const fn never() -> Self {
        Self { budget_us: 0 }
    }

    /// Spins for up to this many microseconds.
    pub const fn for_us(budget_us: u32) -> Self {
        Self { budget_us }
    }

    fn budget(self) -> Duration {
        Duration::from_micros(u64::from(self.budget_us))
    }

    const fn is_never(self) -> bool {
        self.budget_us == 0 || IN_MODEL
    }
}

impl Default for SpinPolicy {
    fn default() -> Self {
        Self::for_us(DEFAULT_SPIN_US)
    }
}

/// The success of recent spins.
#[derive(Clone, Copy, Debug)]
struct History {
    /// Failed spins in a row.
    failed: u8,
    /// The start of the present window.
    window: Option<Instant>,
    /// The time of failed spins in this window.
    failed_time: Duration,
}

impl History {
    const NEW: Self = Self {
        failed: 0,
        window: None,
        failed_time: Duration::ZERO,
    };
}

thread_local! {
    /// The history of waits without a spinner of their own (replies, timelines, room, credit).
    static HISTORY: Cell<History> = const { Cell::new(History::NEW) };
}

/// A sleeper's adaptive state: a policy and the history of its spins. There is no `Default`: each
/// sleeper names the policy that it follows.
#[derive(Debug)]
pub struct Spinner {
    policy: SpinPolicy,
    pauses: u32,
    history: History,
}

impl Spinner {
    /// Creates a spinner without history.
    pub const fn new(policy: SpinPolicy) -> Self {
        Self {
            policy,
            pauses: PAUSES_PER_POLL,
            history: History::NEW,
        }
    }

    /// Runs `f` with a spinner that continues the calling thread's history.
    pub(crate) fn of_thread<R>(policy: SpinPolicy, f: impl FnOnce(&mut Self) -> R) -> R {
        if policy.is_never() {
            return f(&mut Self::new(policy));
        }
        // A thread that is being torn down has no history any more.
        let history = HISTORY.try_with(Cell::get).unwrap_or(History::NEW);
        let mut spinner = Self {
            policy,
            pauses: PAUSES_PER_LOOK,
            history,
        };
        let out = f(&mut spinner);
        let _ = HISTORY.try_with(|kept| kept.set(spinner.history));
        out
    }

    /// Polls while the bounds allow; at least once, except in a model. It pauses before the first
    /// poll: the caller has just polled, and a consumer that polls again at once runs in lockstep
    /// with its producer, at a cache miss per message on both sides (twice the time).
    #[inline]
    pub(crate) fn spin<R>(&mut self, poll: &mut impl FnMut() -> Option<R>) -> Option<R> {
        if IN_MODEL {
            return None; // the poll after registering is the one that counts
        }
        if self.policy.is_never() || self.history.failed >= FAILED_SPINS_MAX || spinners_max() == 0
        {
            return poll();
        }
        self.spin_on(poll)
    }

    fn spin_on<R>(&mut self, poll: &mut impl FnMut() -> Option<R>) -> Option<R> {
        let pauses = self.pauses;
        let looks = PAUSES_PER_POLL / pauses;
        let mut polls = |n: u32| {
            (0..n * looks).find_map(|_| {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                poll()
            })
        };
        let found = polls(POLLS_BEFORE_PERMIT).or_else(|| self.spin_with_permit(polls));
        if found.is_some() {
            self.history.failed = 0;
        }
        found
    }

    fn spin_with_permit<R>(&mut self, mut polls: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let _permit = Permit::take()?;
        let start = Instant::now();
        if !self.history.may_spin_at(start) {
            return None;
        }
        let budget = self.policy.budget() / (1 << self.history.failed);
        let mut spent = Duration::ZERO;
        while spent < budget {
            // The kernel often puts a woken thread on its waker's own processor: the thread that we
            // wait for may be waiting for ours. Costs half a microsecond if none does.
            std::thread::yield_now();
            let found = polls(POLLS_PER_CLOCK);
            if found.is_some() {
                return found;
            }
            spent = start.elapsed();
        }
        self.history.failed += 1;
        // Time beyond the budget was spent off the processor.
        self.history.failed_time += spent.min(budget);
        None
    }

    /// Call before parking.
    pub(crate) fn park_begins(&self) -> Option<Instant> {
        (!self.policy.is_never()).then(Instant::now)
    }

    /// Call after parking: a park so short that a spin would have succeeded restores spinning.
    pub(crate) fn park_ended(&mut self, began: Option<Instant>) {
        // Twice the budget: the park includes a wake, which takes about one.
        if began.is_some_and(|at| at.elapsed() < self.policy.budget() * 2) {
            self.history.failed = self.history.failed.saturating_sub(1);
        }
    }
}

impl From<SpinPolicy> for Spinner {
    fn from(policy: SpinPolicy) -> Self {
        Self::new(policy)
    }
}

impl History {
    fn may_spin_at(&mut self, now: Instant) -> bool {
        let fresh = self
            .window
            .is_none_or(|began| now.duration_since(began) >= WINDOW);
        if fresh {
            self.window = Some(now);
            self.failed_time = Duration::ZERO;
        }
        self.failed_time < WINDOW / FAILED_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_polls_once_and_takes_no_permit() {
        let mut spinner = Spinner::new(SpinPolicy::never());
        let mut polls = 0;
        let found: Option<()> = spinner.spin(&mut || {
            polls += 1;
            None
        });
        assert_eq!((found, polls, spinner.history.failed), (None, 1, 0));
    }

    #[test]
    fn failed_spins_reduce_spinning_to_none_and_success_restores_it() {
        set_spinner_limit(Some(u32::MAX - 1));
        let mut spinner = Spinner::new(SpinPolicy::for_us(1));
        let fails = &mut || None::<()>;
        for _ in 0..FAILED_SPINS_MAX {
            assert!(spinner.spin(fails).is_none());
        }
        assert_eq!(spinner.history.failed, FAILED_SPINS_MAX);
        let mut polls = 0;
        let mut counted = || {
            polls += 1;
            None::<()>
        };
        assert!(spinner.spin(&mut counted).is_none());
        assert_eq!(polls, 1, "after too many failed spins it polls once");

        spinner.park_ended(Some(Instant::now() + Duration::from_secs(1))); // the shortest park possible
        assert_eq!(spinner.history.failed, FAILED_SPINS_MAX - 1);
        let mut left = 3;
        let found = spinner.spin(&mut || {
            left -= 1;
            (left == 0).then_some(7)
        });
        assert_eq!((found, spinner.history.failed), (Some(7), 0));
        set_spinner_limit(None);
    }

    #[test]
    fn failed_spins_take_a_bounded_share_of_a_window() {
        let now = Instant::now();
        let mut history = History::NEW;
        assert!(history.may_spin_at(now));
        history.failed_time = WINDOW / FAILED_SHARE;
        assert!(!history.may_spin_at(now + WINDOW / 2));
        assert!(history.may_spin_at(now + WINDOW));
    }
}
