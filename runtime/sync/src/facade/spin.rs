//! How long a waiting thread spins before it parks.
//!
//! Spinning saves a wake (about 14 us) when the answer is near, and ruins everybody when cores are
//! scarce. So it is bounded four ways: by time; by seats (at most one thread fewer than there are cores
//! spins in the whole process); by recent success (spinning in vain halves the next attempt, down to
//! none; a spin that pays, or a nap so short that a spin would have paid, restores it); and by a share
//! of wall time. In a model nobody spins.

use super::IN_MODEL;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Two wakes cost about this much.
const DEFAULT_SPIN_US: u32 = 20;
/// Pauses between two polls of a sleeper with much traffic: often enough for the latency, rarely enough to
/// leave the line to its writers, who come one after the other.
const PAUSES_PER_POLL: u32 = 8;
/// Pauses between two polls of who waits for one answer: its line is written once, so looking costs little.
const PAUSES_PER_LOOK: u32 = 2;
/// Polls before a seat is taken and the clock is read, about a microsecond: a quick answer should pay for
/// neither, and two threads that answer each other on two cores hand one seat to and fro.
const POLLS_BEFORE_SEAT: u32 = 8;
/// Polls between two readings of the clock.
const POLLS_PER_CLOCK: u32 = 8;
/// After so many vain spins in a row there is none.
const VAIN_SPINS_MAX: u8 = 4;
/// Vain spinning may take `1 / VAIN_SHARE` of each window of wall time.
const VAIN_SHARE: u32 = 4;
const WINDOW: Duration = Duration::from_millis(10);

/// Of the whole process, in one word so that taking a seat is one step: in the low half the threads that
/// spin at this moment, in the high half how many seats have been taken so far.
static SEATS: AtomicU64 = AtomicU64::new(0);
/// One seat taken, in `SEATS`.
const TAKEN: u64 = 1 << 32;
/// The limit set by [`set_spinner_limit`]; `u32::MAX` means: as many as there are cores, less one.
static SPINNERS_MAX: AtomicU32 = AtomicU32::new(u32::MAX);

/// Overrides how many threads may spin at once in this process; `None` goes back to one fewer than
/// there are cores.
pub fn set_spinner_limit(limit: Option<u32>) {
    // Relaxed: a setting, seen when it is seen.
    SPINNERS_MAX.store(limit.unwrap_or(u32::MAX), Relaxed);
}

/// How often threads of this process have begun to spin for longer than a look or two. Where every policy
/// is [`SpinPolicy::never`] it stays as it is. It wraps.
pub fn spins_begun() -> u32 {
    // Relaxed: it orders nothing.
    (SEATS.load(Relaxed) / TAKEN) as u32
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

/// The right to spin, one of a few.
struct Seat;

impl Seat {
    fn take() -> Option<Self> {
        // Relaxed: the count orders nothing, it only bounds.
        let before = SEATS.fetch_add(TAKEN + 1, Relaxed);
        if before as u32 >= spinners_max() {
            SEATS.fetch_sub(TAKEN + 1, Relaxed);
            return None;
        }
        Some(Self)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Relaxed: see `take`.
        SEATS.fetch_sub(1, Relaxed);
    }
}

/// How long to spin, at most, before parking.
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

/// What spinning has brought lately.
#[derive(Clone, Copy, Debug)]
struct History {
    /// Vain spins in a row.
    vain: u8,
    /// When the present window began.
    window: Option<Instant>,
    /// Time spun in vain in this window.
    vain_time: Duration,
}

impl History {
    const NEW: Self = Self {
        vain: 0,
        window: None,
        vain_time: Duration::ZERO,
    };
}

thread_local! {
    /// The history of the waits that have no spinner of their own (replies, timelines, room, credit).
    static HISTORY: Cell<History> = const { Cell::new(History::NEW) };
}

/// A sleeper's adaptive state: a policy, and how it has fared. There is no default one: who sleeps says
/// whose policy it follows.
#[derive(Debug)]
pub struct Spinner {
    policy: SpinPolicy,
    pauses: u32,
    history: History,
}

impl Spinner {
    /// A fresh one.
    pub const fn new(policy: SpinPolicy) -> Self {
        Self {
            policy,
            pauses: PAUSES_PER_POLL,
            history: History::NEW,
        }
    }

    /// Runs `f` with a spinner that keeps the calling thread's history.
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

    /// Polls for as long as the bounds allow; at least once, except in a model. It pauses before the first
    /// poll: the caller has just looked, and a consumer that looks again at once runs in lockstep with its
    /// producer, at a cache miss per message on both sides (twice the time).
    #[inline]
    pub(crate) fn spin<R>(&mut self, poll: &mut impl FnMut() -> Option<R>) -> Option<R> {
        if IN_MODEL {
            return None; // the look after registering is the one that counts
        }
        if self.policy.is_never() || self.history.vain >= VAIN_SPINS_MAX || spinners_max() == 0 {
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
        let found = polls(POLLS_BEFORE_SEAT).or_else(|| self.spin_seated(polls));
        if found.is_some() {
            self.history.vain = 0;
        }
        found
    }

    fn spin_seated<R>(&mut self, mut polls: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let _seat = Seat::take()?;
        let start = Instant::now();
        if !self.history.may_spin_at(start) {
            return None;
        }
        let budget = self.policy.budget() / (1 << self.history.vain);
        let mut spent = Duration::ZERO;
        while spent < budget {
            // The kernel likes to put a thread that is woken on its waker's own processor: what we wait for may
            // be waiting for ours. Costs half a microsecond when nobody does.
            std::thread::yield_now();
            let found = polls(POLLS_PER_CLOCK);
            if found.is_some() {
                return found;
            }
            spent = start.elapsed();
        }
        self.history.vain += 1;
        // What is beyond the budget was spent off the processor.
        self.history.vain_time += spent.min(budget);
        None
    }

    /// Call before parking.
    pub(crate) fn park_begins(&self) -> Option<Instant> {
        (!self.policy.is_never()).then(Instant::now)
    }

    /// Call after parking: a nap so short that a spin would have paid speaks for spinning.
    pub(crate) fn park_ended(&mut self, began: Option<Instant>) {
        // Twice the budget: the nap includes a wake, which takes about one.
        if began.is_some_and(|at| at.elapsed() < self.policy.budget() * 2) {
            self.history.vain = self.history.vain.saturating_sub(1);
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
            self.vain_time = Duration::ZERO;
        }
        self.vain_time < WINDOW / VAIN_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_polls_once_and_takes_no_seat() {
        let mut spinner = Spinner::new(SpinPolicy::never());
        let mut polls = 0;
        let found: Option<()> = spinner.spin(&mut || {
            polls += 1;
            None
        });
        assert_eq!((found, polls, spinner.history.vain), (None, 1, 0));
    }

    #[test]
    fn vain_spins_fade_to_none_and_success_restores() {
        set_spinner_limit(Some(u32::MAX - 1));
        let mut spinner = Spinner::new(SpinPolicy::for_us(1));
        let vain = &mut || None::<()>;
        for _ in 0..VAIN_SPINS_MAX {
            assert!(spinner.spin(vain).is_none());
        }
        assert_eq!(spinner.history.vain, VAIN_SPINS_MAX);
        let mut polls = 0;
        let mut counted = || {
            polls += 1;
            None::<()>
        };
        assert!(spinner.spin(&mut counted).is_none());
        assert_eq!(polls, 1, "a spinner out of favour polls once");

        spinner.park_ended(Some(Instant::now() + Duration::from_secs(1))); // the shortest nap there is
        assert_eq!(spinner.history.vain, VAIN_SPINS_MAX - 1);
        let mut left = 3;
        let found = spinner.spin(&mut || {
            left -= 1;
            (left == 0).then_some(7)
        });
        assert_eq!((found, spinner.history.vain), (Some(7), 0));
        set_spinner_limit(None);
    }

    #[test]
    fn vain_spinning_is_a_bounded_share_of_a_window() {
        let now = Instant::now();
        let mut history = History::NEW;
        assert!(history.may_spin_at(now));
        history.vain_time = WINDOW / VAIN_SHARE;
        assert!(!history.may_spin_at(now + WINDOW / 2));
        assert!(history.may_spin_at(now + WINDOW));
    }
}
