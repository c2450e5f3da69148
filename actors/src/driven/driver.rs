//! The owner's handle of a driven device: a driver, which runs the device of the current epoch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::health::Health;
use millstream_protocol::health_state::HealthState;
use millstream_protocol::report::Report;
use millstream_sync::facade::{Mutex, THREADS, lock};

use super::Drive;

/// The current epoch of a driven device, shared by its `Driver` and its `Device`.
pub(crate) struct DriverShared {
    state: Mutex<DriverState>,
    health_state: Arc<HealthState>,
}

struct DriverState {
    current: Arc<dyn Drive>,
    closed: bool,
}

impl DriverShared {
    pub(crate) fn new(device: Arc<dyn Drive>, health_state: Arc<HealthState>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(DriverState {
                current: device,
                closed: false,
            }),
            health_state,
        })
    }

    pub(crate) fn current(&self) -> Arc<dyn Drive> {
        lock(&self.state).current.clone()
    }

    /// Installs the device of the next epoch. If the device was closed meanwhile, closes `device` and returns `false`.
    pub(crate) fn replace(&self, device: Arc<dyn Drive>) -> bool {
        let mut state = lock(&self.state);
        if !state.closed {
            state.current = device;
            return true;
        }
        drop(state);
        device.shut_down(Some(Instant::now()));
        false
    }

    /// Closes the device for good.
    pub(crate) fn close(&self, deadline: Option<Instant>) -> Report {
        let current = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.current.clone()
        };
        let report = current.shut_down(deadline);
        self.health_state.change(Health::Closed);
        report
    }
}

/// Runs a driven device, in every epoch. Dropping the driver closes the device and answers everything.
pub struct Driver {
    shared: Arc<DriverShared>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<DriverShared>) -> Self {
        Self { shared }
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
            let device = self.shared.current();
            if !device.is_of_this_process() {
                return false;
            }
            if !device.pump(remaining) {
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
        self.shared.close(None)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !THREADS && std::thread::panicking() {
            // A failed model: a thread inside the device will never leave it.
            return;
        }
        if !self.shared.current().is_of_this_process() {
            // Leaked: freeing it would call the driver of the device, in whose place the parent is.
            std::mem::forget(self.shared.clone());
            return;
        }
        self.shared.close(None);
    }
}
