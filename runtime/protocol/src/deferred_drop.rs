//! Values that leave the server, and user code that runs: what may let go of handles by itself, see [`Releases`](crate::releases).

use std::any::Any;
use std::sync::Arc;

use crate::table::Table;

/// One of the [`Releases`](crate::releases::Releases), until it is dropped.
pub struct Release(Arc<Table>);

impl Release {
    /// From now on something may let go of handles by itself.
    pub fn begin(table: &Arc<Table>) -> Self {
        table.sink().releases.begin();
        Self(table.clone())
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        // It wakes the device: after the lock.
        if self.0.sink().releases.end() {
            self.0.sink().ring();
        }
    }
}

/// A value that leaves the server to be dropped elsewhere.
pub struct Leaving {
    // Dropped in this order: when the release has ended, so has the value.
    #[allow(dead_code, reason = "it is kept to be dropped")]
    value: Box<dyn Any + Send>,
    release: Option<Release>,
}

impl Leaving {
    /// A value that may own handles.
    pub fn new(value: Box<dyn Any + Send>, table: &Arc<Table>) -> Self {
        Self {
            value,
            release: Some(Release::begin(table)),
        }
    }

    /// A value that no reservation waits for.
    pub fn unawaited(value: Box<dyn Any + Send>) -> Self {
        Self {
            value,
            release: None,
        }
    }
}

impl std::fmt::Debug for Leaving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Leaving");
        out.field("awaited", &self.release.is_some());
        out.finish_non_exhaustive()
    }
}
