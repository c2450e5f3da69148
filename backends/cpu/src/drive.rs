//! Queues without threads: a driven device runs its entries on the thread that pumps it.
//!
//! The queues take turns, one task each. A wait whose point has not passed blocks only its own queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::id::Point;
use millstream_protocol::marks::mark_runtime_thread;

use crate::entry::Op;
use crate::queue::Inbox;
use crate::runner::Runner;
use crate::shared::Shared;

/// One queue of a driven device.
pub(crate) struct Lane {
    pub(crate) inbox: Inbox,
    pub(crate) runner: Runner,
    /// The point that the next entry waits for.
    pub(crate) blocked: Option<Point>,
}

/// All queues of a driven device.
pub(crate) struct Lanes {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lanes: Vec<Lane>,
}

impl Lanes {
    /// Runs tasks for about `budget`, at least one if one can run. Returns whether any ran.
    pub(crate) fn pump(&mut self, budget: Duration) -> bool {
        let _mark = mark_runtime_thread();
        let start = Instant::now();
        let mut ran = false;
        loop {
            let mut moved = false;
            for lane in &mut self.lanes {
                if ran && start.elapsed() >= budget {
                    return true;
                }
                moved |= lane.step(&self.shared);
                ran |= moved;
            }
            if !moved {
                return ran;
            }
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for Lane { inbox, runner, .. } in &mut self.lanes {
            while inbox.next_with(|entry| runner.abandon(entry)).is_some() {}
            runner.end();
        }
    }
}

impl Lane {
    /// Runs the next task if it can run, and returns whether it did.
    fn step(&mut self, shared: &Shared) -> bool {
        loop {
            if self.blocked.is_some_and(|point| !shared.has_passed(point)) {
                return false;
            }
            self.blocked = None;
            let (runner, blocked) = (&mut self.runner, &mut self.blocked);
            let ran = self.inbox.next_with(|entry| match entry.op {
                Op::Wait(point) => {
                    *blocked = Some(point);
                    false
                }
                _ => {
                    runner.run(entry);
                    runner.pause();
                    true
                }
            });
            match ran {
                Some(true) => return true,
                Some(false) => {}
                None => return false,
            }
        }
    }
}
