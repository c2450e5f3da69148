//! The mailbox with real threads; the models check the orderings.

use super::*;
use crate::facade::{SpinPolicy, Spinner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use whole::{Receives, Sends};

/// Whole messages, as in the models.
#[path = "../../../../loom-tests/src/mailbox.rs"]
#[allow(unreachable_pub, reason = "the models export them")]
mod whole;

fn small<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    mailbox(capacity, Arc::new(Gate::new()))
}

/// Counts its drops.
struct Counting(Arc<AtomicUsize>);

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn capacity_is_rounded_up_and_a_full_mailbox_returns_the_message() {
    let (tx, mut rx) = small(3);
    assert!((0..4).all(|i| tx.try_send(i) == Ok(i)));
    assert_eq!((tx.try_send(9), tx.depth()), (Err(Refused::Full), 4));
    assert_eq!((rx.try_recv(), tx.depth()), (Some(0), 3));
    assert_eq!(tx.try_send(9), Ok(4));
    assert_eq!(tx.probe().tail(), 5);
}

#[test]
fn messages_are_built_and_consumed_in_place() {
    let (tx, mut rx) = small::<[u64; 56]>(2);
    assert_eq!(tx.try_send([7; 56]), Ok(0));
    assert_eq!(
        rx.try_recv_with(|message| std::mem::take(&mut message[3])),
        Some(7)
    );
    rx.close();
    assert!(matches!(tx.try_reserve(), Err(Refused::Closed)));
}

#[test]
fn a_consumer_that_panics_drops_its_message_once_and_frees_the_slot() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (tx, mut rx) = small(2);
    for _ in 0..2 {
        tx.try_send(Counting(drops.clone())).unwrap();
    }
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        rx.try_recv_with(|_| panic!("a consumer that panics"))
    }));
    assert!(unwound.is_err());
    assert_eq!((drops.load(SeqCst), tx.depth()), (1, 1));
    assert!(tx.try_send(Counting(drops.clone())).is_ok());
    drop(rx);
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn messages_of_each_sender_arrive_once_and_in_order() {
    const SENDERS: usize = 4;
    const MESSAGES: usize = if cfg!(miri) { 30 } else { 5_000 };
    for capacity in [2, 64] {
        let (tx, mut rx) = small(capacity);
        let tx = Arc::new(tx);
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let tx = tx.clone();
                std::thread::spawn(move || {
                    (0..MESSAGES).for_each(|i| _ = tx.send((sender, i)).unwrap());
                })
            })
            .collect();
        drop(tx);
        rx.attach();
        let mut next = [0; SENDERS];
        let mut spin = Spinner::new(SpinPolicy::default());
        while let Some((sender, i)) = rx.recv(&mut spin) {
            assert_eq!(next[sender], i);
            next[sender] += 1;
            while let Some((sender, i)) = rx.try_recv_with(|message| *message) {
                assert_eq!(next[sender], i);
                next[sender] += 1;
            }
            rx.wake_senders();
        }
        assert_eq!(next, [MESSAGES; SENDERS]);
        senders.into_iter().for_each(|s| s.join().unwrap());
    }
}
