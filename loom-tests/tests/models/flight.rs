//! Flight: what several threads want for a key is done once, and nobody waits for who has left.

use super::SPIN;
use millstream_loom::{Bound, check};
use millstream_sync::facade::{Arc, Mutex, lock};
use millstream_sync::flight::{Flights, Role};

/// Asks until the key is known, doing it where nobody else is at it; how often it was done.
fn ask(flights: &Flights<u32>, done: &Mutex<bool>, does: bool) -> u32 {
    let mut times = 0;
    loop {
        match flights.join(&7, || lock(done).then_some(())) {
            Ok(()) => return times,
            Err(Role::Follower(follow)) => follow.wait(&SPIN),
            Err(Role::Leader(_)) if !does => return times,
            Err(Role::Leader(lead)) => {
                times += 1;
                *lock(done) = true;
                drop(lead);
            }
        }
    }
}

#[test]
fn a_key_is_done_once() {
    check("flight: two ask for a key", Bound::TwoThreads, |sides| {
        let (flights, done) = (Flights::default(), Arc::new(Mutex::new(false)));
        let (other, seen) = (flights.clone(), done.clone());
        let one = move || ask(&flights, &done, true);
        let (one, two) = sides.run(one, move || ask(&other, &seen, true));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn nobody_waits_for_who_has_left() {
    check(
        "flight: one leaves without having done it",
        Bound::TwoThreads,
        |sides| {
            let (flights, done) = (Flights::default(), Arc::new(Mutex::new(false)));
            let (other, seen) = (flights.clone(), done.clone());
            let one = move || ask(&flights, &done, true);
            let (one, two) = sides.run(one, move || ask(&other, &seen, false));
            assert_eq!((one, two), (1, 0));
        },
    );
}
