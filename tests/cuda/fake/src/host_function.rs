//! Functions of the host's in streams: a thread that runs one may do anything but call the driver.

use std::cell::Cell;

use crate::access::Step;

/// `CUhostFn`
pub(crate) type HostFunction = extern "C" fn(u64);

thread_local! {
    /// This thread is in a function of the host's that a stream was given.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Is this thread in one?
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}

/// A function of the host's that is to be called.
pub(crate) struct HostCall {
    pub(crate) function: HostFunction,
    pub(crate) data: u64,
    pub(crate) step: Step,
}

impl HostCall {
    /// Calls it on this thread, which must not have locked the state.
    pub(crate) fn run(&self) {
        RUNNING.set(true);
        (self.function)(self.data);
        RUNNING.set(false);
    }
}
