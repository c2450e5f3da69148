//! Mailbox: the receiver gets every accepted message, a sender that waits for room is woken, and a
//! close wakes all waiting senders.

use super::{gate, spinner};
use millstream_loom::{Bound, Receives, Sends, check};
use millstream_sync::facade::Arc;
use millstream_sync::mailbox::{Receiver, Refused, RoomPlace, Sender, mailbox};
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::task::{Poll, Waker};

/// Creates a mailbox with room for two messages.
fn small<T: Send>() -> (Sender<T>, Receiver<T>) {
    mailbox(2, gate())
}

/// Shares a sender between two threads.
fn shared<T>(tx: Sender<T>) -> (Arc<Sender<T>>, Arc<Sender<T>>) {
    let tx = Arc::new(tx);
    (tx.clone(), tx)
}

/// Creates a full mailbox with the messages 0 and 1.
fn full() -> (Sender<u32>, Receiver<u32>) {
    let (tx, rx) = small();
    tx.try_send(0).unwrap();
    tx.try_send(1).unwrap();
    (tx, rx)
}

/// Receives until the mailbox is closed and empty.
fn drain<T: Send>(mut rx: Receiver<T>) -> Vec<T> {
    let mut spin = spinner();
    let got = std::iter::from_fn(|| rx.recv(&mut spin)).collect();
    assert!(rx.is_finished());
    got
}

fn sorted(mut got: Vec<u32>) -> Vec<u32> {
    got.sort_unstable();
    got
}

#[test]
fn messages_of_one_sender_arrive_in_order() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = small();
        let send = move || [1, 2].map(|i| tx.send(Box::new(i)).unwrap());
        let (got, positions) = sides.run(move || drain(rx), send);
        assert_eq!((got, positions), (vec![Box::new(1), Box::new(2)], [0, 1]));
    });
}

/// The order of the commits does not matter.
#[test]
fn messages_arrive_in_the_order_of_their_reservations() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = small();
        let send = move || {
            let slots = [(); 2].map(|()| tx.try_reserve().unwrap());
            for (message, slot) in slots.into_iter().enumerate().rev() {
                // SAFETY: the slot belongs to this thread until it is committed, and it was
                // reserved in this mailbox.
                unsafe {
                    slot.as_ptr()
                        .write(MaybeUninit::new(Box::new(message as u32)));
                    tx.commit(slot, || false);
                }
            }
        };
        let (got, ()) = sides.run(move || drain(rx), send);
        assert_eq!(got, [Box::new(0), Box::new(1)]);
    });
}

#[test]
fn a_freed_slot_is_reused() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = full();
        let take = move || {
            let mut got = 0;
            while rx.try_recv_with(|_| ()).is_some() {
                got += 1;
            }
            (got, rx)
        };
        let ((got, rx), accepted) = sides.run(take, move || tx.try_send(2).is_ok());
        assert_eq!(got + drain(rx).len(), 2 + usize::from(accepted));
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = small();
        let send = move || (0..3).for_each(|i| _ = tx.send(i).unwrap());
        let (got, ()) = sides.run(move || drain(rx), send);
        assert_eq!(got, [0, 1, 2]);
    });
}

#[test]
fn two_senders_lose_no_message() {
    check(Bound::ThreeThreads, |sides| {
        let (tx, rx) = small();
        let (tx, other) = shared(tx);
        let (got, one, two) = sides.run_three(
            move || drain(rx),
            move || tx.send(1).unwrap(),
            move || other.send(2).unwrap(),
        );
        assert_eq!(sorted(got), [1, 2]);
        assert_ne!(one, two);
    });
}

fn two_senders_wait_for_room_within(bound: Bound) {
    check(bound, |sides| {
        let (tx, rx) = full();
        let (tx, other) = shared(tx);
        let (got, one, two) = sides.run_three(
            move || drain(rx),
            move || tx.send(2).is_ok(),
            move || other.send(3).is_ok(),
        );
        assert_eq!((sorted(got), one, two), (vec![0, 1, 2, 3], true, true));
    });
}

#[test]
fn two_senders_wait_for_room() {
    two_senders_wait_for_room_within(Bound::One);
}

#[test]
#[ignore = "deep"]
fn deep_two_senders_wait_for_room() {
    two_senders_wait_for_room_within(Bound::ThreeThreads);
}

/// Sends from an async task, which the mailbox wakes when there may be room. The task does not sleep
/// at a gate, because the fences of a gate would hide that the mailbox lacks one.
fn send_as_a_task(tx: &Sender<u32>, message: u32) -> bool {
    let mut place = RoomPlace::new();
    let send = poll_fn(|context| match tx.try_send(message) {
        Ok(_) => Poll::Ready(true),
        Err(Refused::Closed) => Poll::Ready(false),
        Err(Refused::Full) => match tx.poll_room(&mut place, context.waker()) {
            // This is the only sender, so no other sender takes the room first.
            Poll::Ready(Ok(())) => Poll::Ready(tx.try_send(message).is_ok()),
            Poll::Ready(Err(_)) => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        },
    });
    let sent = loom::future::block_on(send);
    tx.leave_room(place);
    sent
}

#[test]
fn a_task_that_waits_for_room_is_woken() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = full();
        let (got, sent) = sides.run(move || drain(rx), move || send_as_a_task(&tx, 2));
        assert_eq!((got, sent), (vec![0, 1, 2], true));
    });
}

#[test]
fn closing_releases_a_waiting_task() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = full();
        let close = move || {
            rx.close();
            rx // not drained: the accepted messages leave no room
        };
        let (rx, sent) = sides.run(close, move || send_as_a_task(&tx, 2));
        assert!(!sent);
        assert_eq!(drain(rx), [0, 1]);
    });
}

/// Two tasks wait for room before a thread does. The receiver takes two messages and wakes both tasks,
/// which never poll again. The thread must be woken nevertheless.
#[test]
fn dropped_tasks_do_not_absorb_the_wake_of_a_thread() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = full();
        let mut places = [const { RoomPlace::new() }; 2];
        for place in &mut places {
            assert!(tx.poll_room(place, Waker::noop()).is_pending());
        }
        let (got, sent) = sides.run(move || drain(rx), move || tx.send(2).is_ok());
        assert_eq!((got, sent), (vec![0, 1, 2], true));
    });
}

#[test]
fn dropping_the_sender_closes_the_mailbox() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = small::<u32>();
        let (got, ()) = sides.run(move || drain(rx), move || drop(tx));
        assert!(got.is_empty());
    });
}

/// A sender that reads the tail after its send sees at least its own message.
#[test]
fn the_tail_covers_earlier_sends() {
    check(Bound::TwoThreads, |sides| {
        let (tx, _rx) = small();
        let probe = tx.probe();
        let (tx, other) = shared(tx);
        let ((position, tail), _) = sides.run(
            move || (tx.send(1).unwrap(), probe.tail()),
            move || other.send(2).unwrap(),
        );
        assert!(tail > position);
    });
}

#[test]
fn messages_accepted_before_a_close_are_received() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = small();
        let receive = move || {
            rx.close();
            drain(rx)
        };
        let (got, sent) = sides.run(receive, move || tx.try_send(Box::new(1)).is_ok());
        assert_eq!(got.len(), usize::from(sent));
    });
}

#[test]
fn closing_releases_a_blocked_sender() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = full();
        let close = move || {
            rx.close();
            rx // not drained: the accepted messages leave no room
        };
        let (rx, sent) = sides.run(close, move || tx.send(2).is_ok());
        assert!(!sent);
        assert_eq!(drain(rx), [0, 1]);
    });
}

#[test]
fn dropping_the_receiver_drops_accepted_messages() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = small();
        let message = Arc::new(1);
        let copy = message.clone();
        let send = move || match tx.try_send(copy) {
            Ok(_) | Err(Refused::Closed) => {}
            Err(Refused::Full) => panic!("the mailbox has room for two messages"),
        };
        sides.run(move || drop(rx), send);
        assert_eq!(Arc::strong_count(&message), 1);
    });
}

#[test]
fn dropping_the_receiver_releases_a_blocked_sender() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = full();
        let ((), sent) = sides.run(move || drop(rx), move || tx.send(3).is_ok());
        assert!(!sent);
    });
}

#[test]
#[ignore = "deep"]
fn deep_two_senders_two_messages() {
    check(Bound::ThreeThreads, |sides| {
        let (tx, rx) = small();
        let send =
            |tx: Arc<Sender<u32>>, from: u32| move || [from, from + 1].map(|i| tx.send(i).unwrap());
        let (tx, other) = shared(tx);
        let (got, ..) = sides.run_three(move || drain(rx), send(tx, 1), send(other, 3));
        assert_eq!(sorted(got), [1, 2, 3, 4]);
    });
}
