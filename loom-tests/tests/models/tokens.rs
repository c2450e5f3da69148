//! Tokens: taking a token comes after all that its last holder did.

use millstream_loom::{Bound, Payload, check};
use millstream_sync::facade::Arc;
use millstream_sync::timeline::Timeline;
use millstream_sync::tokens::Tokens;
use std::task::{Wake, Waker};

/// A token set of one, and the memory that its token protects.
struct Entry {
    tokens: Tokens,
    cell: Payload,
}

impl Entry {
    fn new() -> Self {
        Self {
            tokens: Tokens::new(1),
            cell: Payload::new(0),
        }
    }

    /// Takes the token, if it is free, and writes.
    fn take(&self, value: u32) -> bool {
        let token = self.tokens.take();
        if token.is_some() {
            self.cell.set(value);
        }
        token.is_some()
    }

    /// Reads as the holder, and gives the token back.
    fn end(&self) -> u32 {
        let read = self.cell.get();
        self.tokens.give_back(0);
        read
    }
}

/// A waker at a cursor that holds the token, as in the samples of a device's metrics.
struct Probe(Entry);

impl Wake for Probe {
    fn wake(self: std::sync::Arc<Self>) {
        assert_eq!(self.0.end(), 4);
    }
}

#[test]
fn taking_a_token_comes_after_its_last_holder() {
    check(Bound::None, |sides| {
        let entry = Arc::new(Entry::new());
        assert!(entry.take(4));
        let other = entry.clone();
        let (again, read) = sides.run(move || entry.take(5), move || other.end());
        assert_eq!(
            read, 4,
            "the holder reads its own write; taken again: {again}"
        );
    });
}

#[test]
fn a_token_given_back_by_a_waker_is_taken_again() {
    check(Bound::TwoThreads, |sides| {
        let timeline = Arc::new(Timeline::new());
        let probe = std::sync::Arc::new(Probe(Entry::new()));
        let (publisher, kept) = (timeline.clone(), probe.clone());
        let follow_twice = move || {
            assert!(probe.0.take(4));
            if timeline.register(1, &Waker::from(probe.clone())).is_none() {
                probe.0.end();
            }
            probe.0.take(5)
        };
        let (again, ()) = sides.run(follow_twice, move || publisher.publish(1));
        assert_eq!(
            kept.0.tokens.take().is_none(),
            again,
            "it was given back once"
        );
    });
}
