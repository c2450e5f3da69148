//! Host functions in streams. They may do anything except call the driver.

use std::cell::Cell;

use crate::access::Step;

/// `CUhostFn`
pub(crate) type HostFunction = extern "C" fn(u64);

thread_local! {
    /// Whether this thread runs a host function of a stream.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if this thread runs a host function.
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}

/// A host function that is ready to be called.
pub(crate) struct HostCall {
    pub(crate) function: HostFunction,
    pub(crate) data: u64,
    pub(crate) step: Step,
}

impl HostCall {
    /// Calls the function on this thread, which must not hold the lock of the state.
    pub(crate) fn run(&self) {
        RUNNING.set(true);
        (self.function)(self.data);
        RUNNING.set(false);
    }
}
