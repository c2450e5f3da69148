//! Queues without threads: a driven device runs its entries on the thread that pumps it.
//!
//! The queues take turns, one task each. A wait whose point has not passed blocks only its own queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::marks::mark_runtime_thread;

use crate::executor::Lane;
use crate::shared::Shared;

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
