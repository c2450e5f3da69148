//! Gate: no wake is lost.

use super::{gate, spinner};
use millstream_loom::{Bound, check};
use millstream_sync::bell::Bell;
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicU32, Ordering};
use millstream_sync::gate::Gate;
use std::task::Waker;

fn sleep_until(gate: &Gate, posted: &AtomicU32, round: u32) {
    gate.wait_until(&mut spinner(), || {
        (posted.load(Ordering::Acquire) >= round).then_some(())
    });
}

#[test]
fn no_wake_is_lost() {
    check(Bound::None, |sides| {
        let posted = Arc::new((gate(), AtomicU32::new(0)));
        let sleeper = posted.clone();
        sides.run(
            move || sleep_until(&sleeper.0, &sleeper.1, 1),
            move || {
                posted.1.store(1, Ordering::Release);
                posted.0.wake();
            },
        );
    });
}

#[test]
fn two_wakers() {
    check(Bound::ThreeThreads, |sides| {
        let shared = Arc::new((gate(), [AtomicU32::new(0), AtomicU32::new(0)]));
        let post = |i: usize| {
            let shared = shared.clone();
            move || {
                shared.1[i].store(1, Ordering::Release);
                shared.0.wake();
            }
        };
        let sleeper = shared.clone();
        let sleep = move || {
            sleep_until(&sleeper.0, &sleeper.1[0], 1);
            sleep_until(&sleeper.0, &sleeper.1[1], 1);
        };
        sides.run_three(sleep, post(0), post(1));
    });
}

#[test]
fn two_sleeps_in_a_row_through_a_waker() {
    check(Bound::TwoThreads, |sides| {
        let (gate, posted) = (gate(), Arc::new(AtomicU32::new(0)));
        let (waker, post) = (Waker::from(gate.clone()), posted.clone());
        sides.run(
            move || (1..=2).for_each(|round| sleep_until(&gate, &posted, round)),
            move || {
                for round in 1..=2 {
                    post.store(round, Ordering::Release);
                    waker.wake_by_ref();
                }
            },
        );
    });
}

#[test]
fn an_armed_gate_wakes_its_waker() {
    check(Bound::TwoThreads, |sides| {
        let (gate, posted) = (gate(), Arc::new(AtomicU32::new(0)));
        let (waking, post) = (gate.clone(), posted.clone());
        let sleep = move || {
            let bell = std::sync::Arc::new(Bell::new());
            loop {
                let heard = bell.heard();
                gate.arm(&Waker::from(bell.clone()));
                if posted.load(Ordering::Acquire) == 1 {
                    return;
                }
                bell.sleep(heard, None);
            }
        };
        sides.run(sleep, move || {
            post.store(1, Ordering::Release);
            waking.wake();
        });
    });
}
