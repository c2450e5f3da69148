//! Predicts whether a caller waits after its message, from how callers of the device waited before.
//!
//! A wait is expected if the last wait came after few messages, and no more than as many have been sent since. It is
//! expected *at once* if the last wait came right after its message, and everything that callers issued before it went
//! to one queue: then no other work would have run beside the caller.
//!
//! These are guesses from what any thread did last, and decide only which thread does the work, so every ordering is
//! Relaxed.

use std::time::Duration;

use millstream_sync::facade::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The most messages before an expected wait. A caller that sends more gains from a thread beside it.
const MESSAGES_MAX: u64 = 8;

/// The most time between a caller's last message and its wait, for a wait *at once*.
const AT_ONCE: Duration = Duration::from_micros(10);

/// Predicts the waits of a device's callers.
pub(crate) struct WaitPredictor {
    /// The mailbox's tail when a caller last waited.
    waited_at: AtomicU64,
    /// Messages between the last two waits.
    period: AtomicU64,
    /// When a caller that stepped in left the device, in nanoseconds; 0 if a caller has waited since.
    left_at: AtomicU64,
    /// The queues that callers issued to since the last wait, as a bit set.
    queues: AtomicU64,
    /// Whether the last wait came at once.
    at_once: AtomicBool,
}

impl Default for WaitPredictor {
    /// Expects no wait.
    fn default() -> Self {
        Self {
            waited_at: AtomicU64::new(0),
            period: AtomicU64::new(u64::MAX),
            left_at: AtomicU64::new(0),
            queues: AtomicU64::new(0),
            at_once: AtomicBool::new(false),
        }
    }
}

impl WaitPredictor {
    /// Records a wait, at this tail of the mailbox. Reads the clock only if a caller has stepped in since the last
    /// wait.
    pub(crate) fn waits(&self, tail: u64, now: impl FnOnce() -> Duration) {
        let before = self.waited_at.swap(tail, Relaxed);
        self.period.store(tail.wrapping_sub(before), Relaxed);
        if let Some(since) = self.since_it_left(now) {
            self.left_at.store(0, Relaxed);
            let queues = self.queues.swap(0, Relaxed);
            let at_once = since <= AT_ONCE && queues.count_ones() <= 1;
            self.at_once.store(at_once, Relaxed);
        }
    }

    /// Records that a caller that stepped in issued to these queues.
    pub(crate) fn issues(&self, queues: u64) {
        self.queues.fetch_or(queues, Relaxed);
    }

    /// Records that a caller that stepped in leaves the device.
    pub(crate) fn leaves(&self, now: Duration) {
        self.left_at.store(nanoseconds(now).max(1), Relaxed);
    }

    /// Returns `true` if a wait is expected, at this tail of the mailbox.
    pub(crate) fn expects_a_wait(&self, tail: u64) -> bool {
        let period = self.period.load(Relaxed);
        let since = tail.wrapping_sub(self.waited_at.load(Relaxed));
        period <= MESSAGES_MAX && since <= period
    }

    /// Returns `true` if a wait is expected now or after the next message, which asks for the answer. A caller that
    /// sends more messages before it waits gains from a batch of all of them.
    pub(crate) fn expects_a_wait_next(&self, tail: u64) -> bool {
        let since = tail.wrapping_sub(self.waited_at.load(Relaxed));
        self.expects_a_wait(tail) && since + 1 >= self.period.load(Relaxed)
    }

    /// Returns `true` if the expected wait comes right after this message.
    pub(crate) fn expects_it_at_once(&self, now: impl FnOnce() -> Duration) -> bool {
        if !self.at_once.load(Relaxed) {
            return false;
        }
        // A caller that has not waited for so long will not have waited at once.
        let at_once = self.since_it_left(now).is_none_or(|since| since <= AT_ONCE);
        if !at_once {
            self.at_once.store(false, Relaxed);
        }
        at_once
    }

    /// Returns how long ago a caller left, if none has waited since.
    fn since_it_left(&self, now: impl FnOnce() -> Duration) -> Option<Duration> {
        let left_at = self.left_at.load(Relaxed);
        let since = || Duration::from_nanos(nanoseconds(now()).saturating_sub(left_at));
        (left_at != 0).then(since)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(1);
    const LATE: Duration = Duration::from_micros(11);

    /// A caller that sends one message after the other, and may step in for each.
    #[derive(Default)]
    struct Caller {
        predictor: WaitPredictor,
        tail: u64,
        now: Duration,
    }

    impl Caller {
        /// Sends a message that issues to these queues. Returns whether a wait is expected, and whether at once.
        fn sends(&mut self, queues: u64) -> (bool, bool) {
            self.tail += 1;
            let waits = self.predictor.expects_a_wait(self.tail);
            let at_once = waits && self.predictor.expects_it_at_once(|| self.now);
            if waits {
                self.predictor.issues(queues);
                self.predictor.leaves(self.now);
            }
            (waits, at_once)
        }

        fn waits_after(&mut self, time: Duration) {
            self.now += time;
            self.predictor.waits(self.tail, || self.now);
        }
    }

    #[test]
    fn a_wait_is_expected_after_as_many_messages_as_last_time() {
        let mut caller = Caller::default();
        assert_eq!(caller.sends(1), (false, false));
        caller.waits_after(SOON);
        for _ in 0..3 {
            caller.sends(1);
        }
        caller.waits_after(SOON);
        let expected = [0; 5].map(|_| caller.sends(1).0);
        assert_eq!(expected, [true, true, true, false, false]);
        for _ in 0..=MESSAGES_MAX {
            caller.sends(1);
        }
        caller.waits_after(SOON);
        assert!(!caller.sends(1).0, "too many messages for a prediction");
    }

    #[test]
    fn only_the_last_two_messages_before_a_wait_are_next_to_it() {
        let mut caller = Caller::default();
        for _ in 0..2 {
            for _ in 0..4 {
                caller.sends(1);
            }
            caller.waits_after(SOON);
        }
        let expected = [0; 5].map(|_| {
            caller.sends(1);
            caller.predictor.expects_a_wait_next(caller.tail)
        });
        assert_eq!(expected, [false, false, true, true, false]);
    }

    #[test]
    fn a_wait_is_expected_at_once_if_the_last_one_came_at_once() {
        let mut caller = Caller::default();
        let mut at_once = |first: u64, second: u64, after: Duration| {
            let before = [first, second].map(|queues| caller.sends(queues).1);
            caller.waits_after(after);
            before
        };
        at_once(1, 0, SOON);
        assert_eq!(at_once(1, 0, SOON), [false; 2], "no caller has stepped in");
        assert_eq!(at_once(1, 0, SOON), [true; 2]);
        assert_eq!(at_once(1, 1, LATE), [true; 2]);
        assert_eq!(at_once(1, 1, SOON), [false; 2], "the last wait came late");
        assert_eq!(at_once(1, 2, SOON), [true; 2]);
        assert_eq!(at_once(1, 0, SOON), [false; 2], "two queues");
        assert_eq!(at_once(2, 0, SOON), [true; 2]);
    }

    #[test]
    fn a_caller_that_does_not_wait_ends_the_expectation_of_a_wait_at_once() {
        let mut caller = Caller::default();
        for _ in 0..3 {
            caller.sends(1);
            caller.sends(1);
            caller.sends(1);
            caller.waits_after(SOON);
        }
        assert_eq!(caller.sends(1), (true, true));
        caller.now += LATE;
        assert_eq!(caller.sends(1), (true, false));
        assert_eq!(caller.sends(1), (true, false));
    }
}
