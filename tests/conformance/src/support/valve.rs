//! A valve that holds kernels until the test lets them go.

use std::sync::{Arc, Condvar, Mutex};

use crate::subject::Gate;

/// Holds code until it is opened, and tells how much has come to it. One of a [`Rig`](super::Rig)'s holds kernels on
/// whatever device, one of its own code of the host's.
#[derive(Clone, Default)]
pub struct Valve {
    host: Arc<(Mutex<(bool, u32)>, Condvar)>,
    gate: Option<Arc<dyn Gate>>,
}

impl Valve {
    /// One for code of the host's.
    pub fn new() -> Self {
        Self::default()
    }

    /// One for kernels that come to this gate.
    pub fn of(gate: Arc<dyn Gate>) -> Self {
        Self {
            host: Arc::default(),
            gate: Some(gate),
        }
    }

    /// Its side for code of the host's alone: a closure that keeps it keeps no GPU from going on when a test fails.
    pub(super) fn of_host(&self) -> Self {
        Self {
            host: self.host.clone(),
            gate: None,
        }
    }

    /// Where a kernel on a GPU finds it.
    pub(super) fn address(&self) -> u64 {
        self.gate.as_ref().map_or(0, |gate| gate.address())
    }

    /// Comes to the valve and waits until it is open.
    pub fn pass(&self) {
        let (state, changed) = &*self.host;
        let mut state = state.lock().unwrap();
        state.1 += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |(open, _)| !*open).unwrap());
    }

    /// Opens it for good.
    pub fn open(&self) {
        self.host.0.lock().unwrap().0 = true;
        self.host.1.notify_all();
        if let Some(gate) = &self.gate {
            gate.open();
        }
    }

    /// Waits until `count` have come.
    pub fn wait_for_arrivals(&self, count: u32) {
        if let Some(gate) = &self.gate {
            while gate.arrivals() < count {
                std::thread::yield_now();
            }
            return;
        }
        let (state, changed) = &*self.host;
        drop(
            changed
                .wait_while(state.lock().unwrap(), |(_, arrived)| *arrived < count)
                .unwrap(),
        );
    }

    /// How many have come.
    pub fn arrivals(&self) -> u32 {
        match &self.gate {
            Some(gate) => gate.arrivals(),
            None => self.host.0.lock().unwrap().1,
        }
    }
}
