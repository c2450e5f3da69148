//! The facade's channel, used as for the hand-over to the GC actor.

use millstream_loom::{Bound, Payload, check};
use millstream_sync::channel::{Receiver, bounded, unbounded};
use millstream_sync::facade::Arc;

fn drain<T>(rx: Receiver<T>) -> Vec<T> {
    std::iter::from_fn(|| rx.recv().ok()).collect()
}

#[test]
fn receiving_ends_when_the_last_sender_is_dropped() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = bounded(1);
        let hand_over = move || {
            for value in 0..2 {
                let slice = Payload::new(0);
                slice.set(value);
                tx.send(slice).unwrap();
            }
        };
        let (got, ()) = sides.run(move || drain(rx), hand_over);
        assert_eq!(got.iter().map(Payload::get).collect::<Vec<_>>(), [0, 1]);
    });
}

#[test]
fn a_full_channel_returns_the_message() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = bounded(1);
        let hand_over = move || {
            tx.send(1).unwrap();
            // A message that does not fit stays with the device actor and is sent later.
            if let Err(full) = tx.try_send(2) {
                tx.send(full.into_inner()).unwrap();
            }
        };
        let (got, ()) = sides.run(move || drain(rx), hand_over);
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn a_message_to_a_dropped_receiver_is_dropped() {
    check(Bound::TwoThreads, |sides| {
        let (tx, rx) = unbounded();
        let message = Arc::new(1);
        let copy = message.clone();
        sides.run(move || drop(rx), move || drop(tx.send(copy)));
        assert_eq!(Arc::strong_count(&message), 1);
    });
}
