//! The budget with real threads.

use super::*;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

const NEVER: SpinPolicy = SpinPolicy::never();

/// Returns once a caller waits.
fn until_a_caller_waits(credit: &Credit) {
    while credit.state.load(Ordering::SeqCst) & WAITED_FOR == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn the_budget_is_kept() {
    let credit = Credit::new(10);
    assert_eq!(credit.try_acquire(7), Ok(()));
    assert_eq!(
        credit.try_acquire(4),
        Err(Exceeded {
            in_use: 7,
            limit: 10
        })
    );
    assert_eq!(credit.acquire(3, &NEVER), Ok(()));
    credit.release(10);
    assert_eq!((credit.in_use(), credit.limit()), (0, 10));
}

/// I12: the headroom is bounded as well, and waiting requests wait until they fit the limit.
#[test]
fn a_caller_that_cannot_wait_exceeds_the_budget_up_to_the_headroom() {
    let credit = Credit::new(2);
    assert_eq!(credit.try_acquire_beyond(1, 2), Ok(()));
    assert_eq!(credit.try_acquire_beyond(3, 2), Ok(()));
    let (in_use, limit) = (4, 2);
    let exceeded = Err(Exceeded { in_use, limit });
    assert_eq!(credit.try_acquire_beyond(1, 2), exceeded);
    assert_eq!(credit.try_acquire(1), exceeded);
    let mut place = credit.place(1);
    assert_eq!(place.poll(Waker::noop()), Poll::Pending);
    credit.release(2);
    assert_eq!(place.poll(Waker::noop()), Poll::Pending);
    assert_eq!(credit.try_acquire_beyond(1, 2), Ok(()));
    credit.release(2);
    assert_eq!(place.poll(Waker::noop()), Poll::Ready(Ok(())));
    credit.release(2);
    assert!(credit.try_acquire_beyond(u64::MAX, u64::MAX).is_err());
    assert_eq!(credit.in_use(), 0);
}

#[test]
fn acquiring_more_than_the_budget_fails_at_once() {
    let credit = Credit::new(10);
    let too_large = AcquireError::TooLarge {
        requested: 11,
        limit: 10,
    };
    assert_eq!(credit.acquire(11, &NEVER), Err(too_large));
    assert_eq!(
        credit.acquire(u64::MAX, &NEVER).is_err(),
        credit.try_acquire(u64::MAX).is_err()
    );
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let credit = Arc::new(Credit::new(4));
    credit.try_acquire(1).unwrap();
    let large = {
        let credit = credit.clone();
        std::thread::spawn(move || credit.acquire(4, &NEVER))
    };
    until_a_caller_waits(&credit);
    assert!(
        credit.try_acquire(1).is_err(),
        "it fits, but a large request waits first"
    );
    credit.release(1);
    assert_eq!(large.join().unwrap(), Ok(()));
    assert_eq!(credit.in_use(), 4);
}

#[test]
fn the_end_fails_all_waits() {
    let credit = Arc::new(Credit::new(1));
    credit.try_acquire(1).unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let credit = credit.clone();
            std::thread::spawn(move || credit.acquire(1, &NEVER))
        })
        .collect();
    until_a_caller_waits(&credit);
    credit.end();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Err(AcquireError::Ended));
    }
    assert_eq!(credit.acquire(1, &NEVER), Err(AcquireError::Ended));
    credit.release(1);
    assert_eq!(
        credit.try_acquire(1),
        Ok(()),
        "a budget that has ended still counts"
    );
}

#[test]
fn a_request_that_gives_up_lets_those_behind_proceed() {
    let credit = Arc::new(Credit::new(2));
    credit.try_acquire(1).unwrap();
    let small = {
        let credit = credit.clone();
        std::thread::spawn(move || {
            until_a_caller_waits(&credit);
            credit.acquire(1, &NEVER)
        })
    };
    // Repeat if the small request came too late to find this one waiting.
    while !small.is_finished() {
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(
            credit.acquire_in_order((2, false), &NEVER, Some(soon)),
            None
        );
    }
    assert_eq!(small.join().unwrap(), Ok(()));
    assert_eq!(credit.in_use(), 2);
}

#[test]
fn a_place_is_kept_between_polls_and_released_by_its_drop() {
    let credit = Credit::new(2);
    credit.try_acquire(2).unwrap();
    let (mut first, mut second) = (credit.place(2), credit.place(1));
    assert_eq!(first.poll(Waker::noop()), Poll::Pending);
    assert_eq!(second.poll(Waker::noop()), Poll::Pending);
    credit.release(1);
    assert_eq!(second.poll(Waker::noop()), Poll::Pending, "not its turn");
    drop(first);
    assert_eq!(second.poll(Waker::noop()), Poll::Ready(Ok(())));
    assert_eq!((credit.in_use(), credit.place(3).poll(Waker::noop())), {
        let (requested, limit) = (3, 2);
        (
            2,
            Poll::Ready(Err(AcquireError::TooLarge { requested, limit })),
        )
    });
    credit.end();
    let ended = Poll::Ready(Err(AcquireError::Ended));
    assert_eq!(credit.place(1).poll(Waker::noop()), ended);
}

/// I5: cloning, waking and dropping a waker run foreign code, which may call the budget.
#[test]
fn no_code_of_a_waker_runs_under_the_lock() {
    let credit = Arc::new(Credit::new(1));
    credit.try_acquire(1).unwrap();
    let waker = {
        let credit = credit.clone();
        crate::wait::tests::acting(move || assert!(credit.queue.try_lock().is_ok()))
    };
    let (mut first, mut second) = (credit.place(1), credit.place(1));
    for _ in 0..2 {
        assert_eq!(first.poll(&waker), Poll::Pending);
        assert_eq!(second.poll(&waker), Poll::Pending);
    }
    credit.release(1);
    assert_eq!(first.poll(&waker), Poll::Ready(Ok(())));
    credit.end();
    // A request that the end has woken, and that is granted before it is polled, has its credit.
    credit.release(1);
    assert_eq!(second.poll(&waker), Poll::Ready(Ok(())));
}
