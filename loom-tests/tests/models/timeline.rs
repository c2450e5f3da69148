//! Timeline: a waiter for a cursor is woken by its publication or by the end.

use super::{SPIN, gate, spinner};
use millstream_loom::{Bound, Payload, check};
use millstream_sync::facade::Arc;
use millstream_sync::timeline::{Ended, Timeline};
use std::task::Waker;

fn timeline() -> (Arc<Timeline>, Arc<Timeline>) {
    let timeline = Arc::new(Timeline::new());
    (timeline.clone(), timeline)
}

#[test]
fn a_wait_ends_when_the_cursor_is_published() {
    check(Bound::None, |sides| {
        let (one, two) = timeline();
        let (waited, ()) = sides.run(move || one.wait(1, &SPIN), move || two.publish(1));
        assert_eq!(waited, Ok(()));
    });
}

#[test]
fn writes_before_a_published_cursor_are_visible() {
    check(Bound::None, |sides| {
        let shared = Arc::new((Timeline::new(), Payload::new(0)));
        let publisher = shared.clone();
        let look = move || (shared.0.completed() == 1).then(|| shared.1.get());
        let publish = move || {
            publisher.1.set(7);
            publisher.0.publish(1);
        };
        let (seen, ()) = sides.run(look, publish);
        assert!(seen.is_none_or(|seen| seen == 7));
    });
}

#[test]
fn two_waits_for_two_cursors() {
    check(Bound::ThreeThreads, |sides| {
        let (one, two) = timeline();
        let three = one.clone();
        let publish = move || {
            three.publish(1);
            three.publish(2);
        };
        let (late, early, ()) = sides.run_three(
            move || one.wait(2, &SPIN),
            move || two.wait(1, &SPIN),
            publish,
        );
        assert_eq!((late, early), (Ok(()), Ok(())));
    });
}

#[test]
fn a_registered_waker_is_woken() {
    check(Bound::TwoThreads, |sides| {
        let (one, two) = timeline();
        let wait = move || {
            let gate = gate();
            let key = one.register(1, &Waker::from(gate.clone()));
            gate.wait_until(&mut spinner(), || (one.completed() == 1).then_some(()));
            (one, key)
        };
        let ((timeline, key), ()) = sides.run(wait, move || two.publish(1));
        // Woken wakers are removed.
        assert!(key.is_none_or(|key| !timeline.cancel(key)));
    });
}

#[test]
fn a_cancelled_registration_keeps_no_waker() {
    check(Bound::TwoThreads, |sides| {
        let ((one, two), gate) = (timeline(), gate());
        let waker = Waker::from(gate.clone());
        let wait = move || {
            if let Some(key) = one.register(1, &waker) {
                let cancelled = one.cancel(key);
                assert!(cancelled || one.completed() == 1);
            }
        };
        sides.run(wait, move || two.publish(1));
        assert_eq!(std::sync::Arc::strong_count(&gate), 1);
    });
}

#[test]
fn the_end_wakes_a_waiter() {
    check(Bound::None, |sides| {
        let (one, two) = timeline();
        let (waited, ()) = sides.run(move || one.wait(1, &SPIN), move || two.end());
        assert_eq!(waited, Err(Ended));
    });
}

#[test]
fn a_cursor_published_before_the_end_has_completed() {
    check(Bound::TwoThreads, |sides| {
        let (one, two) = timeline();
        let wait = move || (one.wait(1, &SPIN), one.wait(2, &SPIN));
        let publish = move || {
            two.publish(1);
            two.end();
        };
        let (waited, ()) = sides.run(wait, publish);
        assert_eq!(waited, (Ok(()), Err(Ended)));
    });
}
