//! User code and values on their way to be dropped, with which the last handle of a slice may go.
//!
//! A reservation that finds no memory fails only when nothing that was admitted can free memory by itself. A value that was given to
//! be dropped, and user code that runs, can: both may own the last handle of a slice. Each of them has a [`Release`](crate::deferred_drop::Release) from the moment
//! at which nothing but a thread of the runtime stands between it and its end, until it has been dropped.
//!
//! The server asks `Releases::are_open` before it gives a reservation up, and leaves word there if it is to wait: then the release that
//! ends next rings ([`Outlet::ring`](crate::table::Outlet)). The lock orders the two: either the server sees no release, or the
//! release that ends next finds its word.

use millstream_sync::facade::{Mutex, lock};

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
    /// From now on there is one more.
    pub(crate) fn begin(&self) {
        lock(&self.0).open += 1;
    }

    /// One has ended. Whether the server waits for that.
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        let mut state = lock(&self.0);
        state.open -= 1;
        std::mem::take(&mut state.is_awaited)
    }

    /// Whether there are any. Then the device is woken when the next one has ended.
    pub fn are_open(&self) -> bool {
        let mut state = lock(&self.0);
        state.is_awaited = state.open > 0;
        state.is_awaited
    }

    /// The server waits for none.
    pub fn forget_wait(&self) {
        lock(&self.0).is_awaited = false;
    }
}
