//! Pending releases: user code and deferred drops that may drop the last handle of a slice.
//!
//! A reservation that finds no memory fails only once nothing that was admitted can free memory. A value that waits
//! to be dropped, and user code that runs, can: both may own the last handle of a slice. Each has a
//! [`Release`] from the moment at which only a thread of the runtime stands between it
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

use std::any::Any;
use std::sync::Arc;

use millstream_sync::facade::{Mutex, lock};

use crate::table::Table;

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

// Values that leave the server to be dropped on another thread, and user code that runs: either may own the last
// handle of a slice. While one is pending it is counted as a [release](crate::releases).
//
// A value is dropped first and its release ends after it, so memory that the value frees is in the list of drops when
// a server that waits for the release wakes.

/// A pending release: one of the [`Releases`], until it is dropped.
pub struct Release(Arc<Table>);

impl Release {
    /// Begins a release: until it is dropped, handles may be dropped without a further message.
    pub fn begin(table: &Arc<Table>) -> Self {
        table.sink().releases.begin();
        Self(table.clone())
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        // The ring wakes the device and may call foreign code, so it comes after the lock.
        if self.0.sink().releases.end() {
            self.0.sink().ring();
        }
    }
}

/// A value that leaves the server to be dropped on another thread.
pub struct DeferredDrop {
    // The order of the fields is the order of drops: the value is dropped before its release ends.
    #[allow(dead_code, reason = "it is held for its destructor")]
    value: Box<dyn Any + Send>,
    release: Option<Release>,
}

impl DeferredDrop {
    /// Wraps a value that may own handles, and begins its release.
    pub fn new(value: Box<dyn Any + Send>, table: &Arc<Table>) -> Self {
        Self {
            value,
            release: Some(Release::begin(table)),
        }
    }

    /// Wraps a value whose drop no reservation waits for.
    pub fn unawaited(value: Box<dyn Any + Send>) -> Self {
        Self {
            value,
            release: None,
        }
    }
}

impl std::fmt::Debug for DeferredDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Leaving");
        out.field("awaited", &self.release.is_some());
        out.finish_non_exhaustive()
    }
}
