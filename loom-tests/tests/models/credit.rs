//! Credit: every wait ends, by room or by the end of the budget.

use super::{SPIN, gate, spinner};
use millstream_loom::{Bound, Payload, check};
use millstream_sync::credit::{AcquireError, Credit, QueuedRequest};
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// Returns a budget that is used up.
fn used_up(limit: u64) -> Arc<Credit> {
    let credit = Arc::new(Credit::new(limit));
    credit.try_acquire(limit).unwrap();
    credit
}

fn acquire_one(credit: &Arc<Credit>) -> impl FnOnce() -> Result<(), AcquireError> + Send + 'static {
    let credit = credit.clone();
    move || credit.acquire(1, &SPIN)
}

#[test]
fn a_release_wakes_the_waiter() {
    check(Bound::None, |sides| {
        let credit = used_up(1);
        let holder = credit.clone();
        let (got, ()) = sides.run(acquire_one(&credit), move || holder.release(1));
        assert_eq!((got, credit.in_use()), (Ok(()), 1));
    });
}

#[test]
fn one_release_grants_two_waiters() {
    check(Bound::ThreeThreads, |sides| {
        let credit = used_up(2);
        let holder = credit.clone();
        let (one, two) = (acquire_one(&credit), acquire_one(&credit));
        let (one, two, ()) = sides.run_three(one, two, move || holder.release(2));
        assert_eq!((one, two, credit.in_use()), (Ok(()), Ok(()), 2));
    });
}

#[test]
fn exceeding_the_limit_keeps_the_waiters_queued() {
    check(Bound::None, |sides| {
        let credit = used_up(1);
        let holder = credit.clone();
        let beyond = move || {
            holder.try_acquire_beyond(1, 1).unwrap();
            holder.release(1);
            holder.release(1);
        };
        let (got, ()) = sides.run(acquire_one(&credit), beyond);
        assert_eq!((got, credit.in_use()), (Ok(()), 1));
    });
}

#[test]
fn credit_orders_its_holders() {
    check(Bound::TwoThreads, |sides| {
        let shared = Arc::new((Credit::new(1), Payload::new(0)));
        let hold = |shared: Arc<(Credit, Payload)>| {
            move || {
                shared.0.acquire(1, &SPIN).unwrap();
                shared.1.set(shared.1.get() + 1);
                shared.0.release(1);
            }
        };
        sides.run(hold(shared.clone()), hold(shared.clone()));
        assert_eq!((shared.1.get(), shared.0.in_use()), (2, 0));
        assert_eq!(
            shared.0.try_acquire(1),
            Ok(()),
            "no request is left in the queue"
        );
    });
}

#[test]
fn the_end_fails_a_wait() {
    check(Bound::None, |sides| {
        let credit = used_up(1);
        let closer = credit.clone();
        let (got, ()) = sides.run(acquire_one(&credit), move || closer.end());
        assert_eq!(got, Err(AcquireError::Ended));
    });
}

#[test]
fn a_release_against_the_end_loses_no_credit() {
    check(Bound::ThreeThreads, |sides| {
        let credit = used_up(1);
        let (closer, holder) = (credit.clone(), credit.clone());
        let (got, ..) = sides.run_three(
            acquire_one(&credit),
            move || closer.end(),
            move || holder.release(1),
        );
        assert_eq!(credit.in_use(), u64::from(got.is_ok()));
        assert_eq!(
            credit.try_acquire(1).is_ok(),
            got.is_err(),
            "no request is left in the queue"
        );
    });
}

#[test]
fn a_place_is_woken_by_its_grant() {
    check(Bound::None, |sides| {
        let credit = used_up(1);
        let (waiter, holder) = (credit.clone(), credit.clone());
        let poll_until_ready = move || {
            let gate = gate();
            let (waker, mut place) = (Waker::from(gate.clone()), waiter.place(1));
            gate.wait_until(&mut spinner(), || match place.poll(&waker) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            })
        };
        let (got, ()) = sides.run(poll_until_ready, move || holder.release(1));
        assert_eq!((got, credit.in_use()), (Ok(()), 1));
    });
}

#[test]
fn a_dropped_place_keeps_no_credit() {
    check(Bound::None, |sides| {
        let credit = used_up(1);
        let (waiter, holder) = (credit.clone(), credit.clone());
        let poll_and_drop = move || {
            if waiter.place(1).poll(Waker::noop()).is_ready() {
                waiter.release(1);
            }
        };
        sides.run(poll_and_drop, move || holder.release(1));
        assert_eq!(
            credit.try_acquire(1),
            Ok(()),
            "no request is left in the queue"
        );
    });
}

/// Two callers hold one each, and one of them gives nothing back before it has a further one. Behind the request for all,
/// which waits for its part, it would wait forever.
#[test]
fn a_holder_that_waits_ahead_gets_more() {
    check(Bound::ThreeThreads, |sides| {
        let shared = Arc::new((used_up(2), Payload::new(0)));
        let (all, ahead, other) = (shared.clone(), shared.clone(), shared.clone());
        sides.run_three(
            move || {
                all.0.acquire(2, &SPIN).unwrap();
                assert_eq!(all.1.get(), 1, "the holder has ended");
            },
            move || {
                let got = ahead.0.acquire_in_order((1, true), &SPIN, None);
                assert_eq!(got, Some(Ok(())));
                ahead.1.set(1);
                ahead.0.release(2);
            },
            move || other.0.release(1),
        );
        assert_eq!(shared.0.in_use(), 2);
        shared.0.release(2);
        assert_eq!(shared.0.try_acquire(1), Ok(()), "no request is left");
    });
}

#[test]
fn a_release_grants_the_request_ahead_first() {
    check(Bound::None, |sides| {
        let credit = used_up(1);
        let mut behind = QueuedRequest::new(credit.clone(), 1);
        assert!(behind.poll(Waker::noop()).is_pending());
        let waits_ahead = Arc::new(AtomicBool::new(false));
        let (waits, holder) = (waits_ahead.clone(), credit.clone());
        let mut ahead = QueuedRequest::new(credit.clone(), 1).ahead_if(true);
        let enter = move || {
            let is_granted = ahead.poll(Waker::noop()).is_ready();
            // Release: the holder that reads it releases after the request has entered.
            waits.store(true, Ordering::Release);
            (ahead, is_granted)
        };
        let release = move || {
            let is_first = waits_ahead.load(Ordering::Acquire);
            holder.release(1);
            is_first
        };
        let ((mut ahead, mut is_granted), is_first) = sides.run(enter, release);
        is_granted |= ahead.poll(Waker::noop()).is_ready();
        let is_behind_granted = behind.poll(Waker::noop()).is_ready();
        assert!(is_granted != is_behind_granted, "one of them is granted");
        assert!(is_granted || !is_first, "overtaken");
        assert_eq!(credit.in_use(), 1);
    });
}

#[test]
fn a_dropped_request_ahead_lets_others_go_on() {
    check(Bound::TwoThreads, |sides| {
        let credit = used_up(1);
        let (one, other) = (acquire_one(&credit), credit.clone());
        let give_up = move || {
            let mut ahead = QueuedRequest::new(other.clone(), 1).ahead_if(true);
            let is_pending = ahead.poll(Waker::noop()).is_pending();
            assert!(is_pending, "there is no room yet");
            other.release(1);
            drop(ahead);
        };
        let (got, ()) = sides.run(one, give_up);
        assert_eq!((got, credit.in_use()), (Ok(()), 1));
    });
}
