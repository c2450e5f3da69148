//! Values that leave the server to be dropped on another thread, and user code that runs: either may own the last
//! handle of a slice. While one is pending it is counted as a [release](crate::releases).
//!
//! A value is dropped first and its release ends after it, so memory that the value frees is in the list of drops when
//! a server that waits for the release wakes.

use std::any::Any;
use std::sync::Arc;

use crate::table::Table;

/// A pending release: one of the [`Releases`](crate::releases::Releases), until it is dropped.
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
