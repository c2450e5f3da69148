//! User code and values on their way to be dropped, with which the last handle of a slice may go.
//!
//! A reservation that finds no memory fails only when nothing that was admitted can free memory by itself. A value that was given to
//! be dropped, and user code that runs, can: both may own the last handle of a slice. Each of them has a [`Release`] from the moment
//! at which nothing but a thread of the runtime stands between it and its end, until it has been dropped.
//!
//! The server asks `Releases::are_open` before it gives a reservation up, and leaves word there if it is to wait: then the release that
//! ends next rings ([`Outlet::ring`](crate::handle::Outlet)). The lock orders the two: either the server sees no release, or the
//! release that ends next finds its word.

use std::any::Any;
use std::sync::Arc;

use millstream_sync::facade::{Mutex, lock};

use crate::handle::Table;

/// What may still let go of handles by itself.
#[derive(Default)]
pub struct Releases(Mutex<State>);

#[derive(Default)]
struct State {
    open: u64,
    /// The server waits for the next one to end.
    is_awaited: bool,
}

impl Releases {
    /// Whether there are any. Then the device is woken when the next one has ended.
    pub(crate) fn are_open(&self) -> bool {
        let mut state = lock(&self.0);
        state.is_awaited = state.open > 0;
        state.is_awaited
    }

    /// The server waits for none.
    pub(crate) fn forget_wait(&self) {
        lock(&self.0).is_awaited = false;
    }
}

/// One of the [`Releases`], until it is dropped.
pub struct Release(Arc<Table>);

impl Release {
    /// From now on something may let go of handles by itself.
    pub(crate) fn begin(table: &Arc<Table>) -> Self {
        lock(&table.sink().releases.0).open += 1;
        Self(table.clone())
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let mut state = lock(&self.0.sink().releases.0);
        state.open -= 1;
        let is_awaited = std::mem::take(&mut state.is_awaited);
        drop(state);
        // It wakes the device: after the lock.
        if is_awaited {
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
    pub(crate) fn new(value: Box<dyn Any + Send>, table: &Arc<Table>) -> Self {
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
