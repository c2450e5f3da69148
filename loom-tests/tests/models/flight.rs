//! Flight: the work for a key runs once, and followers do not wait for a leader that has left.

use super::SPIN;
use millstream_loom::{Bound, check};
use millstream_sync::facade::{Arc, Mutex, lock};
use millstream_sync::flight::{Flights, Role};

/// Joins until the key is known, and does the work as a leader if `does`; returns how often it did.
fn join(flights: &Flights<u32>, done: &Mutex<bool>, does: bool) -> u32 {
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
fn the_work_for_a_key_runs_once() {
    check(Bound::TwoThreads, |sides| {
        let (flights, done) = (Flights::default(), Arc::new(Mutex::new(false)));
        let (other, seen) = (flights.clone(), done.clone());
        let one = move || join(&flights, &done, true);
        let (one, two) = sides.run(one, move || join(&other, &seen, true));
        assert_eq!(one + two, 1);
    });
}

#[test]
fn followers_are_woken_when_the_leader_leaves() {
    check(Bound::TwoThreads, |sides| {
        let (flights, done) = (Flights::default(), Arc::new(Mutex::new(false)));
        let (other, seen) = (flights.clone(), done.clone());
        let one = move || join(&flights, &done, true);
        let (one, two) = sides.run(one, move || join(&other, &seen, false));
        assert_eq!((one, two), (1, 0));
    });
}
