//! Overflow: a sender that never waits; entries arrive in order, each once.

use super::spinner;
use millstream_loom::{Bound, check};
use millstream_sync::overflow::{Feed, Inbox, queue};

/// Receives `count` entries, sleeping while there are none.
fn receive(mut inbox: Inbox<Box<u32>>, count: usize) -> Vec<u32> {
    inbox.attach();
    let mut got = Vec::with_capacity(count);
    while got.len() < count {
        match inbox.next_with(|entry| **entry) {
            Some(entry) => got.push(entry),
            None => inbox.wait(&mut spinner(), || false),
        }
    }
    assert!(!inbox.has_next());
    got
}

/// Creates a queue with a full ring and `overflown` entries in the overflow.
fn full(overflown: u32) -> (Feed<Box<u32>>, Inbox<Box<u32>>) {
    let (mut feed, inbox) = queue(2);
    (0..2 + overflown).for_each(|entry| feed.push(Box::new(entry)));
    (feed, inbox)
}

/// Pushes one more entry while all are received.
fn one_more(overflown: u32) {
    check(Bound::TwoThreads, move |sides| {
        let (mut feed, inbox) = full(overflown);
        let last = 2 + overflown;
        let (got, _feed) = sides.run(
            move || receive(inbox, last as usize + 1),
            move || {
                feed.push(Box::new(last));
                feed
            },
        );
        assert!(got.into_iter().eq(0..=last));
    });
}

#[test]
fn overflow_entries_come_after_ring_entries() {
    one_more(0);
}

#[test]
fn later_ring_entries_come_after_the_overflow() {
    one_more(1);
}

#[test]
fn a_burst_wakes_a_sleeper_and_keeps_its_order() {
    check(Bound::TwoThreads, |sides| {
        let (mut feed, mut inbox) = full(0);
        // The ring is empty again, and has room for two.
        let first = [0, 1].map(|_| inbox.next_with(|entry| **entry));
        assert_eq!(first, [Some(0), Some(1)]);
        let (got, _feed) = sides.run(
            move || receive(inbox, 3),
            move || {
                (2..5).for_each(|entry| feed.push(Box::new(entry)));
                feed
            },
        );
        assert_eq!(got, [2, 3, 4]);
    });
}
