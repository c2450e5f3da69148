//! Cancellation: a task that is cancelled as it begins either runs or is withdrawn, and its token counts it once.

use std::sync::Arc;

use millstream_loom::{Bound, Payload, check};
use millstream_protocol::cancel::{CancelToken, Terms, Withdrawal, Withdrawals};
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

    /// Begins and completes the task. Returns `true` if it runs.
    fn run(&mut self, cursor: u64) -> bool {
        let reason = self.withdrawals.reason(cursor, &self.timeline);
        self.timeline.publish(cursor);
        reason.is_none()
    }
}

/// Checks that the token has counted each task once, and that no event was left behind.
fn check_counts(token: &CancelToken, queues: &[Queue], ran: u64, withdrawn: u64) {
    for Queue { timeline, .. } in queues {
        // The ledger has one until it looks again; each event left behind would have one more.
        assert!(Arc::strong_count(timeline) <= 2, "an event is left behind");
    }
    let tally = token.tally();
    let counts = (tally.finished, tally.withdrawn, tally.running);
    assert_eq!(counts, (ran, withdrawn, 0), "{tally:?}");
}

#[test]
fn a_task_that_is_cancelled_as_it_begins_runs_or_is_withdrawn() {
    check("cancel: against a task's begin", Bound::None, |sides| {
        let token = CancelToken::new();
        let (canceller, mut queue) = (token.clone(), Queue::new(&token));
        let reason = Arc::new(Payload::default());
        let why = reason.clone();
        let task = move || {
            queue.issue(1);
            let ran = queue.run(1);
            assert!(
                ran || why.get() == 1,
                "withdrawn after what came before the cancel"
            );
            (queue, ran)
        };
        let cancel = move || {
            reason.set(1);
            canceller.cancel()
        };
        let ((queue, ran), tally) = sides.run(task, cancel);
        assert!(tally.finished + tally.running <= 1, "{tally:?}");
        check_counts(&token, &[queue], u64::from(ran), u64::from(!ran));
    });
}

#[test]
fn a_task_that_begins_after_a_cancel_is_withdrawn() {
    check("cancel: before a task's begin", Bound::None, |sides| {
        let token = CancelToken::new();
        let (canceller, mut queue) = (token.clone(), Queue::new(&token));
        queue.issue(1);
        token.cancel();
        let task = move || {
            let ran = queue.run(1);
            (queue, ran)
        };
        let ((queue, ran), _) = sides.run(task, move || canceller.cancel());
        assert!(!ran);
        check_counts(&token, &[queue], 0, 1);
    });
}

#[test]
fn tasks_of_two_devices_are_counted_beside_a_cancel() {
    check("cancel: two devices", Bound::ThreeThreads, |sides| {
        let token = CancelToken::new();
        let (one, two) = (Queue::new(&token), Queue::new(&token));
        let task = |mut queue: Queue| {
            move || {
                queue.issue(1);
                let ran = queue.run(1);
                (queue, u64::from(ran))
            }
        };
        let canceller = token.clone();
        let ((one, ran_one), (two, ran_two), _) =
            sides.run_three(task(one), task(two), move || canceller.cancel());
        let ran = ran_one + ran_two;
        check_counts(&token, &[one, two], ran, 2 - ran);
    });
}
