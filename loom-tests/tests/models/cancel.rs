//! Cancellation: a task that is cancelled as it begins either runs or is withdrawn, and its token counts it once.
//!
//! A `try_lock` of the ledger fails here only if the holder reads what another thread writes meanwhile, for loom switches
//! threads at such accesses: the cursor of a task that was issued before.

use std::sync::Arc;

use millstream_loom::{Bound, Payload, check};
use millstream_protocol::{CancelToken, Terms, Withdrawal, Withdrawals};
use millstream_sync::timeline::Timeline;

/// A queue with tasks of a token.
struct Queue {
    terms: Arc<Terms>,
    timeline: Arc<Timeline>,
    withdrawals: Withdrawals,
}

impl Queue {
    fn new(token: &CancelToken) -> Self {
        Self {
            terms: Arc::new(Terms::of(token)),
            timeline: Arc::default(),
            withdrawals: Withdrawals::default(),
        }
    }

    /// Issues a task.
    fn issue(&mut self, cursor: u64) {
        self.terms.issued(&self.timeline, cursor);
        self.withdrawals.set(Withdrawal {
            terms: self.terms.clone(),
            first: cursor,
            last: cursor,
            has_clock: false,
        });
    }

    /// Begins and completes the issued task. Returns 1 if it runs, 0 if it is withdrawn.
    fn run(&mut self, cursor: u64) -> u64 {
        let reason = self.withdrawals.reason(cursor, &self.timeline);
        self.timeline.publish(cursor);
        u64::from(reason.is_none())
    }

    /// Runs the task that was issued, and a second one. Returns how many have run.
    fn run_two(&mut self) -> u64 {
        let ran = self.run(1);
        self.issue(2);
        ran + self.run(2)
    }
}

/// Checks that the token has counted each task once.
fn check_counts(token: &CancelToken, ran: u64, withdrawn: u64) {
    let tally = token.tally();
    let counts = (tally.finished, tally.withdrawn, tally.running);
    assert_eq!(counts, (ran, withdrawn, 0), "{tally:?}");
}

#[test]
fn tasks_that_are_cancelled_as_they_begin_run_or_are_withdrawn() {
    check(Bound::None, |sides| {
        let token = CancelToken::new();
        let (canceller, mut queue) = (token.clone(), Queue::new(&token));
        queue.issue(1);
        let reason = Arc::new(Payload::default());
        let why = reason.clone();
        let tasks = move || {
            let ran = queue.run_two();
            assert!(
                ran == 2 || why.get() == 1,
                "a withdrawal comes after the cancel"
            );
            ran
        };
        let cancel = move || {
            reason.set(1);
            canceller.cancel()
        };
        let (ran, tally) = sides.run(tasks, cancel);
        assert!(tally.finished + tally.running <= 2, "{tally:?}");
        check_counts(&token, ran, 2 - ran);
    });
}

#[test]
fn a_task_that_begins_after_a_cancel_is_withdrawn() {
    check(Bound::None, |sides| {
        let token = CancelToken::new();
        let (canceller, mut queue) = (token.clone(), Queue::new(&token));
        queue.issue(1);
        token.cancel();
        let task = move || queue.run(1);
        let (ran, _) = sides.run(task, move || canceller.cancel());
        assert_eq!(ran, 0);
        check_counts(&token, 0, 1);
    });
}

#[test]
fn tasks_of_two_devices_are_counted_beside_a_cancel() {
    check(Bound::ThreeThreads, |sides| {
        let token = CancelToken::new();
        let device = || {
            let mut queue = Queue::new(&token);
            queue.issue(1);
            move || queue.run_two()
        };
        let canceller = token.clone();
        let cancel = move || canceller.cancel();
        let (one, two, _) = sides.run_three(device(), device(), cancel);
        check_counts(&token, one + two, 4 - one - two);
    });
}
