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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_channel_delivers_and_reports_that_the_other_side_is_gone() {
        let (tx, rx) = bounded(1);
        tx.send(1).unwrap();
        assert!(matches!(tx.try_send(2), Err(TrySendError::Full(2))));
        assert_eq!((rx.len(), rx.recv()), (1, Ok(1)));
        drop(tx);
        assert_eq!(rx.recv(), Err(RecvError));
        let (tx, rx) = unbounded();
        drop(rx);
        assert_eq!(tx.send(3), Err(SendError(3)));
    }
}
