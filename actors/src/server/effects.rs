//! Effects: work that leaves the server, for the actors to do on their threads.
//!
//! The channel to the GC actor is bounded, and the device thread does not wait for it: an effect that finds no room is
//! put back to the front, and the GC actor wakes the device thread once it has received. `Server::effects` is a deque and not
//! an intrusive list, because values and host functions come in boxes that were allocated when they were made, and the
//! deque keeps its capacity: the steady state allocates nothing (I9, `tests/alone/no_heap.rs`).
//!
//! Host functions and the values of `Stream::drop_after` count towards `max_jobs` (I12). Dropped kernels and recordings
//! have no limit: a destructor that blocks the GC actor for ever lets them pile up.

use std::any::Any;

use millstream_protocol::{DeferredDrop, HostWork};

use millstream_state::points::Points;

/// Work for the actors.
pub enum Effect {
    /// Run a host function, where its [`HostPlace`](millstream_protocol::HostPlace) says.
    /// [`Server::host_finished`](super::Server::host_finished) must be called when its
    /// [`HostDone`](millstream_protocol::HostDone) was dropped.
    Host {
        /// The code.
        work: HostWork,
        /// The resources of its bindings, if it requested them.
        resources: Option<Box<dyn Any + Send>>,
        /// The token for `host_finished`.
        token: HostToken,
    },
    /// Hand this over to the GC actor.
    HandOver(Handover),
}

/// A value that the GC actor drops, and the points that must have passed before.
pub struct Handover {
    /// The points.
    pub after: Points,
    /// The value.
    pub value: DeferredDrop,
    /// When the server gave it up, in nanoseconds; 0 if that is not measured.
    pub since_ns: u64,
}

/// Names a host function that was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostToken {
    pub(super) stream: u32,
    pub(super) sequence: u64,
}
