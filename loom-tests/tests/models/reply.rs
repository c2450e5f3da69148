//! Reply: a send and a drop both end the wait, whichever side comes first.

use super::{SPIN, gate, spinner};
use millstream_loom::{Bound, check};
use millstream_sync::facade::Arc;
use millstream_sync::reply::{Closed, ReplyReceiver, reply};
use millstream_sync::timeline::{Ended, Timeline};
use std::task::{Context, Poll, Waker};

type Answer = Result<Box<u32>, Closed>;

fn seven() -> Answer {
    Ok(Box::new(7))
}

fn poll(rx: &mut ReplyReceiver<Box<u32>>, waker: &Waker) -> Poll<Answer> {
    rx.poll_take(&mut Context::from_waker(waker))
}

/// Polls with a gate as the waker, as an executor would.
fn block_on(rx: &mut ReplyReceiver<Box<u32>>) -> Answer {
    let gate = gate();
    let waker = Waker::from(gate.clone());
    gate.wait_until(&mut spinner(), || match poll(rx, &waker) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    })
}

#[test]
fn a_wait_returns_the_sent_value() {
    check(Bound::None, |sides| {
        let (tx, mut rx) = reply();
        let wait = move || (rx.wait(&SPIN), rx.try_take());
        let (got, ()) = sides.run(wait, move || tx.send(Box::new(7)));
        assert_eq!(got, (seven(), Some(Err(Closed))));
    });
}

#[test]
fn try_take_returns_nothing_or_the_value() {
    check(Bound::None, |sides| {
        let (tx, mut rx) = reply();
        let (got, ()) = sides.run(move || rx.try_take(), move || tx.send(Box::new(7)));
        assert!(got.is_none_or(|answer| answer == seven()));
    });
}

/// Waits for the answer, then for the cursor that it names, as callers do.
fn wait_for(mut rx: ReplyReceiver<u64>, timeline: &Timeline) -> Result<u64, Ended> {
    let cursor = rx.wait(&SPIN).unwrap();
    timeline.wait(cursor, &SPIN).map(|()| cursor)
}

#[test]
fn send_for_wakes_a_parked_thread_when_the_cursor_completes() {
    check(Bound::TwoThreads, |sides| {
        let ((tx, rx), timeline) = (reply(), Arc::new(Timeline::new()));
        let theirs = timeline.clone();
        let send = move || {
            tx.send_for(1, &theirs, 1);
            theirs.publish(1);
        };
        let (got, ()) = sides.run(move || wait_for(rx, &timeline), send);
        assert_eq!(got, Ok(1));
    });
}

#[test]
fn send_for_a_completed_cursor_wakes_the_thread() {
    check(Bound::ThreeThreads, |sides| {
        let ((tx, rx), timeline) = (reply(), Arc::new(Timeline::new()));
        let (sender, publisher) = (timeline.clone(), timeline.clone());
        let send = move || tx.send_for(1, &sender, 1);
        let (got, (), ()) = sides.run_three(
            move || wait_for(rx, &timeline),
            send,
            move || publisher.publish(1),
        );
        assert_eq!(got, Ok(1));
    });
}

#[test]
fn send_for_wakes_a_parked_thread_when_the_timeline_ends() {
    check(Bound::TwoThreads, |sides| {
        let ((tx, rx), timeline) = (reply(), Arc::new(Timeline::new()));
        let theirs = timeline.clone();
        let send = move || {
            tx.send_for(1, &theirs, 1);
            theirs.end();
        };
        let (got, ()) = sides.run(move || wait_for(rx, &timeline), send);
        assert_eq!(got, Err(Ended));
    });
}

#[test]
fn a_dropped_sender_closes_the_reply() {
    check(Bound::None, |sides| {
        let (tx, mut rx) = reply::<u32>();
        let (got, ()) = sides.run(move || rx.wait(&SPIN), move || drop(tx));
        assert_eq!(got, Err(Closed));
    });
}

#[test]
fn a_value_for_a_dropped_receiver_is_dropped() {
    check(Bound::None, |sides| {
        let (tx, rx) = reply();
        let value = Arc::new(1);
        let copy = value.clone();
        sides.run(move || drop(rx), move || tx.send(copy));
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn a_registered_receiver_may_be_dropped() {
    check(Bound::None, |sides| {
        let (tx, mut rx) = reply();
        let poll_and_drop = move || poll(&mut rx, &Waker::from(gate()));
        let (polled, ()) = sides.run(poll_and_drop, move || tx.send(Box::new(7)));
        assert!(matches!(polled, Poll::Pending | Poll::Ready(Ok(_))));
    });
}

#[test]
fn a_pending_poll_is_woken() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = reply();
        let (got, ()) = sides.run(move || block_on(&mut rx), move || tx.send(Box::new(7)));
        assert_eq!(got, seven());
    });
}

#[test]
fn a_changed_waker_is_woken() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = reply();
        let wait = move || match poll(&mut rx, &Waker::from(gate())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => block_on(&mut rx),
        };
        let (got, ()) = sides.run(wait, move || tx.send(Box::new(7)));
        assert_eq!(got, seven());
    });
}

#[test]
fn a_wait_after_a_poll_ends() {
    check(Bound::TwoThreads, |sides| {
        let (tx, mut rx) = reply();
        let wait = move || match poll(&mut rx, &Waker::from(gate())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => rx.wait(&SPIN),
        };
        let (got, ()) = sides.run(wait, move || drop(tx));
        assert_eq!(got, Err(Closed));
    });
}
