//! The owner's handle of a driven device: a driver, which runs the device of the current epoch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::{Health, HealthState, Report};
use millstream_sync::facade::{Mutex, THREADS, lock};

use crate::epoch::Running;
use crate::executor::driven::Drive;

/// Runs a driven device, in every epoch. Dropping the driver closes the device and answers everything.
pub struct Driver {
    running: Arc<Mutex<Running>>,
    health_state: Arc<HealthState>,
}

impl Driver {
    pub(crate) fn new(running: Arc<Mutex<Running>>, health_state: Arc<HealthState>) -> Self {
        Self {
            running,
            health_state,
        }
    }

    /// Returns the device of the current epoch; none in a forked child, where a thread of the parent may hold the lock.
    fn current(&self) -> Option<Arc<dyn Drive>> {
        let is_here = self.health_state.is_of_this_process();
        is_here.then(|| lock(&self.running).driven.clone())?
    }

    /// Runs the device on the calling thread until there is nothing to do or `budget` is used up. Returns `true` if
    /// there may be more to do. A kernel that has started is not interrupted. A GPU works without being pumped and is
    /// not waited for: then there is more to do later.
    ///
    /// In a child that was forked since the device was opened nothing is done.
    ///
    /// Kernels come first. Host functions, callbacks and destructors of values run in the rest of the budget: at least one,
    /// if any is due, so that a busy device does not starve them. If the budget is shorter than 200 microseconds, all
    /// that start within 200 microseconds of the call run. On the simulator a thousand, so that equal seeds give equal
    /// runs. Nothing starts once the budget is used up, except for that one.
    pub fn pump(&mut self, budget: Duration) -> bool {
        let end = Instant::now().checked_add(budget);
        let mut remaining = budget;
        loop {
            let Some(device) = self.current() else {
                return false;
            };
            if !device.step(remaining) {
                return device.has_running_tasks();
            }
            remaining = end.map_or(Duration::MAX, |end| {
                end.saturating_duration_since(Instant::now())
            });
            if remaining.is_zero() {
                return true;
            }
        }
    }

    /// Finishes what can finish, closes the device and reports what is left. If the device was
    /// closed by [`Device::close`](crate::Device::close) before, the report is empty. Blocks meanwhile.
    pub fn close(self) -> Report {
        self.shut_down()
    }

    fn shut_down(&self) -> Report {
        if !self.health_state.is_of_this_process() {
            return Report::default();
        }
        let device = {
            let mut running = lock(&self.running);
            running.closed = true;
            running.driven.clone()
        };
        let report = device.map(|device| device.shut_down(None));
        self.health_state.change(Health::Closed);
        report.unwrap_or_default()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !THREADS && std::thread::panicking() {
            // A failed model: a thread inside the device will never leave it.
            return;
        }
        if !self.health_state.is_of_this_process() {
            // Leaked: freeing it would call the driver of the device, in whose place the parent is.
            std::mem::forget(self.running.clone());
            return;
        }
        self.shut_down();
    }
}
