//! Pending releases: user code and deferred drops that may drop the last handle of a slice.
//!
//! A reservation that finds no memory fails only once nothing that was admitted can free memory. A value that waits
//! to be dropped, and user code that runs, can: both may own the last handle of a slice. Each has a
//! [`Release`](crate::deferred_drop::Release) from the moment at which only a thread of the runtime stands between it
//! and its end, until it has been dropped.
//!
//! ```text
//! device thread                                   thread of the release
//! a reservation finds no memory
//! are_open: open is 1, sets is_awaited            runs user code, drops the value: its last handle frees a slice
//! the stream stays parked                         end: open is 0, takes is_awaited
//!                                                 DropSink::ring wakes the device
//! honours the drop, retries the reservation
//! ```
//! One lock orders the two sides: either `are_open` observes no open release, and its handles are dropped already, or
//! the next release to end observes `is_awaited` and wakes the device. So no wake is lost. A reservation that fails
//! too early, or waits for ever, is found by the module `memory` of the conformance suite.

use millstream_sync::facade::{Mutex, lock};

/// The number of pending releases, and whether the server waits for one to end.
#[derive(Default)]
pub struct Releases(Mutex<State>);

#[derive(Default)]
struct State {
    open: u64,
    /// The server waits for the next release to end.
    is_awaited: bool,
}

impl Releases {
    /// Begins a release.
    pub(crate) fn begin(&self) {
        lock(&self.0).open += 1;
    }

    /// Ends a release. Returns `true` if the server waits for that.
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        let mut state = lock(&self.0);
        state.open -= 1;
        std::mem::take(&mut state.is_awaited)
    }

    /// Returns `true` if a release is pending. If so, the end of the next release wakes the device.
    pub fn are_open(&self) -> bool {
        let mut state = lock(&self.0);
        state.is_awaited = state.open > 0;
        state.is_awaited
    }

    /// Cancels the wait: the server waits for no release.
    pub fn forget_wait(&self) {
        lock(&self.0).is_awaited = false;
    }
}
