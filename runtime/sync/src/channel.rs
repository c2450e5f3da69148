//! The channel of the control plane and of the hand-over to the GC: crossbeam's in a build, our own
//! over the facade in a model, with the same names and errors. Many producers, many consumers;
//! never on the path of a task or a free.

#[cfg(not(any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle"))))]
pub use crossbeam_channel::{
    Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, bounded, unbounded,
};

#[cfg(any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle")))]
mod model;
#[cfg(any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle")))]
pub use model::{
    Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError, bounded, unbounded,
};
