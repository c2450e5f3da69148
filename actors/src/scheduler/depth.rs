//! Depth: how many tasks a queue has in flight, by the times that its tasks take.
//!
//! A task that was issued to a GPU cannot be taken back: a cancel does not withdraw it, and an urgent task waits for
//! it. So a queue gets only as many tasks as take `max_in_flight_time` together, and at most `max_in_flight`: hundreds
//! that take microseconds, a few that take milliseconds.
//!
//! A time is measured when the queue is or seems full, so once in as many tasks as it has in flight:
//!
//! ```text
//!  becomes full at t0 with c0 completed ──► the device thread sleeps until half of the tasks have completed
//!  progress at t1 with c1 completed     ──► (t1 - t0) / (c1 - c0) per task
//! ```
//! If the queue has run empty by t1, it was idle for a part of that time. The measured time is then an upper bound,
//! which may deepen the queue and not make it shallower. A queue whose tasks keep up with their callers is never full: it
//! seems full, and has room after a refresh. Between two such looks, only the tasks that were issued after the first one
//! have run for certain within that time. A new queue starts with [`FIRST`] tasks, so it is full once, for the time of two
//! tasks and a wake-up, or seems full twice, before it is deep.
//!
//! The default of 5 ms is several hundred times a wake of the device thread, so a queue of short tasks does not run
//! empty, and people do not notice the time in which a cancel has no effect. A smaller `max_in_flight` would leave a
//! GPU idle between two wakes; a callback of the driver before each task, or an event with its time, costs every task.
//! The time in which a queue waits for another queue counts as that of its tasks, until the next measurement.
//!
//! Tasks that become long are noticed when the queue is full the next time: until then as many are in flight as the
//! short ones before them allowed.

use std::time::Duration;

use millstream_protocol::Cursor;

/// The depth before any time was measured: one task runs, and the next ones are there when the device thread wakes.
const FIRST: u64 = 4;

/// The least depth: one task runs, and the next one can follow without a pause.
const LEAST: u64 = 2;

/// The depth of one queue.
#[derive(Debug)]
pub(super) struct Depth {
    /// The depth now; at most `most`.
    now: u64,
    /// The depth that the measured times allow.
    by_time: u64,
    /// The greatest depth, whatever tasks take.
    most: u64,
    /// The time that the tasks in flight may take together, in nanoseconds.
    time_ns: u64,
    /// The time at which the queue became full, and the cursor that had completed then; or at which it had room although it
    /// seemed full, and the cursor that was issued then.
    since: Option<(u64, Cursor)>,
}

impl Depth {
    /// Creates a depth that no measured time changes.
    pub(super) fn fixed(most: u64) -> Self {
        Self {
            now: most,
            by_time: u64::MAX,
            most,
            time_ns: u64::MAX,
            since: None,
        }
    }

    /// Makes the depth follow measured times: the tasks in flight may take `time` together.
    pub(super) fn follow(&mut self, time: Duration) {
        self.time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.by_time = FIRST;
        self.now = FIRST.min(self.most);
    }

    /// Returns the number of tasks that the queue may have in flight.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Changes the greatest depth.
    pub(super) fn limit(&mut self, most: u64) {
        self.most = most;
        self.now = self.by_time.min(most);
    }

    /// Records that the queue, which had room, is full at `now_ns`.
    pub(super) fn became_full(&mut self, now_ns: u64, completed: Cursor) {
        self.since = Some((now_ns, completed));
    }

    /// Records that the queue, which only seemed full, has room at `now_ns`.
    pub(super) fn has_room(&mut self, now_ns: u64, completed: Cursor, issued: Cursor) {
        self.progressed(now_ns, completed, true);
        self.since = Some((now_ns, issued));
    }

    /// Records that a queue which was full has completed tasks, and sets the depth by the time that they took.
    /// `is_empty` says whether none is in flight.
    pub(super) fn progressed(&mut self, now_ns: u64, completed: Cursor, is_empty: bool) {
        let Some((since_ns, before)) = self.since.take() else {
            return;
        };
        let tasks = completed.saturating_sub(before);
        if tasks == 0 {
            return;
        }
        let task_ns = (now_ns.saturating_sub(since_ns) / tasks).max(1);
        let fits = (self.time_ns / task_ns).max(LEAST);
        if fits > self.by_time || !is_empty {
            self.by_time = fits;
            self.now = fits.min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn depth() -> Depth {
        let mut depth = Depth::fixed(512);
        depth.follow(Duration::from_millis(5));
        depth
    }

    /// Returns the depth after four of these tasks were in flight and two of them have completed.
    fn after(task_ns: u64) -> u64 {
        let mut depth = depth();
        assert_eq!(depth.now(), FIRST);
        depth.became_full(7, 10);
        depth.progressed(7 + 2 * task_ns, 12, false);
        depth.now()
    }

    #[test]
    fn short_tasks_make_a_queue_deep_and_long_ones_shallow_i12() {
        let tasks = [1, 1_000, 100_000, MS, 10 * MS, 300 * MS];
        assert_eq!(tasks.map(after), [512, 512, 50, 5, 2, 2]);
    }

    /// The time of an idle queue is not the time of its tasks.
    #[test]
    fn a_queue_that_ran_empty_is_not_made_shallower() {
        let mut depth = depth();
        depth.became_full(0, 0);
        depth.progressed(4_000, 4, true);
        assert_eq!(depth.now(), 512);
        depth.became_full(0, 4);
        depth.progressed(1_000 * MS, 516, true);
        assert_eq!(depth.now(), 512);
        depth.became_full(0, 516);
        depth.progressed(300 * MS, 517, false);
        assert_eq!(depth.now(), LEAST);
    }

    /// A queue whose tasks keep up is never full.
    #[test]
    fn a_queue_that_only_seems_full_becomes_deep() {
        let mut depth = depth();
        depth.has_room(0, 4, 4);
        assert_eq!(depth.now(), FIRST, "one look measures nothing");
        depth.has_room(4_000, 8, 8);
        assert_eq!(depth.now(), 512);
        depth.has_room(300 * MS, 9, 9);
        assert_eq!(depth.now(), 512, "its callers were slow");
    }

    /// A task that ends between two looks may have begun long before the first.
    #[test]
    fn the_end_of_a_long_task_between_two_looks_measures_nothing() {
        let mut depth = depth();
        depth.has_room(20 * MS - 10_000, 1, 4);
        depth.has_room(20 * MS + 10_000, 2, 5);
        assert_eq!(depth.now(), FIRST);
        depth.has_room(60 * MS, 6, 9);
        assert_eq!(
            depth.now(),
            FIRST,
            "a task that was issued after the look took 40 ms at most"
        );
    }

    #[test]
    fn a_profile_limits_the_depth_until_it_ends() {
        let mut depth = depth();
        depth.limit(3);
        assert_eq!(depth.now(), 3);
        depth.became_full(0, 0);
        depth.progressed(2_000, 2, false);
        assert_eq!(depth.now(), 3);
        depth.limit(512);
        assert_eq!(depth.now(), 512);
    }
}
