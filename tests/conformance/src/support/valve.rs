//! A valve that holds kernels until the test opens it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::subject::Gate;

/// Holds code until it is opened, and counts the arrivals. A valve of [`Rig::valve`](super::Rig::valve) holds kernels
/// on any device; one of [`Valve::new`] holds code of the host.
#[derive(Clone, Default)]
pub struct Valve {
    host: Arc<(Mutex<(bool, u32)>, Condvar)>,
    gate: Option<Arc<dyn Gate>>,
}

impl Drop for Valve {
    /// Opens the valve of a test that fails: the close of its device waits for what the valve holds.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.host.0.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
            self.host.1.notify_all();
        }
    }
}

impl Valve {
    /// Creates a valve for code of the host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a valve for kernels that arrive at this gate.
    pub fn of(gate: Arc<dyn Gate>) -> Self {
        Self {
            host: Arc::default(),
            gate: Some(gate),
        }
    }

    /// Returns the part for code of the host. A closure that owns this part does not keep the gate alive, so a test
    /// that fails drops the gate, and the GPU goes on.
    pub(super) fn host_side(&self) -> Self {
        Self {
            host: self.host.clone(),
            gate: None,
        }
    }

    /// Returns the address of the gate, or 0 if there is none.
    pub(super) fn address(&self) -> u64 {
        self.gate.as_ref().map_or(0, |gate| gate.address())
    }

    /// Counts an arrival and waits until the valve is open.
    pub fn pass(&self) {
        let (state, changed) = &*self.host;
        let mut state = state.lock().unwrap();
        state.1 += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |(open, _)| !*open).unwrap());
    }

    /// Opens the valve; it stays open.
    pub fn open(&self) {
        self.host.0.lock().unwrap().0 = true;
        self.host.1.notify_all();
        if let Some(gate) = &self.gate {
            gate.open();
        }
    }

    /// Waits until there are `count` arrivals.
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

    /// Returns the number of arrivals.
    pub fn arrivals(&self) -> u32 {
        match &self.gate {
            Some(gate) => gate.arrivals(),
            None => self.host.0.lock().unwrap().1,
        }
    }
}
