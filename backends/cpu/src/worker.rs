//! The thread of a queue: runs its entries, waits for other queues, and sleeps while there are none.
//!
//! It runs entries inside the [door](millstream_sync::handoff_lock) of its queue's executor, and leaves the door before it
//! sleeps, so that a caller can step in (see `executor`). It wakes up if an entry is pushed, if a caller leaves tasks
//! to it, or if the device closes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_protocol::{OpenError, QueueId};
use millstream_sync::facade::Spinner;

use crate::executor::{Executor, Lane};
use crate::shared::Shared;

/// Starts the worker of `queue`.
pub(crate) fn start(
    queue: QueueId,
    shared: Arc<Shared>,
    executor: Arc<Executor>,
    spawner: &Spawner,
) -> Result<Thread<()>, OpenError> {
    let name = format!("ms-cpu-queue-{}", queue.0);
    // Created here, so that its drop abandons the queue's tasks even if the thread never starts.
    let worker = Worker { shared, executor };
    spawner.spawn(ThreadRole::Queue, &name, move || worker.serve())
}

struct Worker {
    shared: Arc<Shared>,
    executor: Arc<Executor>,
}

impl Worker {
    fn serve(&self) {
        let _mark = mark_runtime_thread();
        let Self { shared, executor } = self;
        executor.gate.attach();
        let mut spin = Spinner::new(shared.spin);
        let mut lane = executor.door.enter();
        lane.runner.team.assign_thread();
        loop {
            while !shared.is_stopping() && lane.run_next(shared) {}
            lane.runner.spans.pause();
            let again = executor.door.leave(lane);
            if shared.is_stopping() {
                return;
            }
            if !again {
                executor.door.idle(&executor.gate, &mut spin, None, |lane| {
                    lane.inbox.has_next() || shared.is_stopping()
                });
            }
            lane = executor.door.enter();
        }
    }
}

impl Drop for Worker {
    /// As a drop guard, this also happens if the runner panics.
    fn drop(&mut self) {
        self.executor.door.enter().abandon();
    }
}

// Queues without threads: a driven device runs its entries on the thread that pumps it.
//
// The queues take turns, one task each. A wait whose point has not passed blocks only its own queue.

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
                moved |= lane.run_ready(&self.shared);
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
        self.lanes.iter_mut().for_each(Lane::abandon);
    }
}
