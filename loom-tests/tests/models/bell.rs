//! Bell: no ring is lost, with one sleeper or two.

use millstream_loom::{Bound, check};
use millstream_sync::bell::Bell;
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicU32, Ordering};

/// Sleeps until `round` is posted.
fn sleep_until(bell: &Bell, posted: &AtomicU32, round: u32) {
    loop {
        let heard = bell.heard();
        // Relaxed: ordered by the bell.
        if posted.load(Ordering::Relaxed) == round {
            return;
        }
        bell.sleep(heard, None);
    }
}

#[test]
fn no_ring_is_lost() {
    check(Bound::None, |sides| {
        let shared = Arc::new((Bell::new(), AtomicU32::new(0)));
        let sleeper = shared.clone();
        sides.run(
            move || sleep_until(&sleeper.0, &sleeper.1, 1),
            move || {
                shared.1.store(1, Ordering::Relaxed);
                shared.0.ring();
            },
        );
    });
}

#[test]
fn a_late_ring_does_not_hide_the_next() {
    check(Bound::TwoThreads, |sides| {
        let shared = Arc::new((Bell::new(), AtomicU32::new(0)));
        let sleeper = shared.clone();
        sides.run(
            move || sleep_until(&sleeper.0, &sleeper.1, 2),
            move || {
                for round in 1..=2 {
                    shared.1.store(round, Ordering::Relaxed);
                    shared.0.ring();
                }
            },
        );
    });
}

#[test]
fn a_ring_wakes_every_sleeper() {
    check(Bound::ThreeThreads, |sides| {
        let shared = Arc::new((Bell::new(), AtomicU32::new(0)));
        let (one, two) = (shared.clone(), shared.clone());
        sides.run_three(
            move || sleep_until(&one.0, &one.1, 1),
            move || sleep_until(&two.0, &two.1, 1),
            move || {
                shared.1.store(1, Ordering::Relaxed);
                shared.0.ring();
            },
        );
    });
}
