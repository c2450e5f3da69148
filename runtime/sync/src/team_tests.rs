//! The team with real threads: what the models are too small for.

use super::*;
use std::sync::atomic::Ordering::Relaxed;

/// Ends the members also where a test fails: they are waited for.
struct Ended(Team);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs `f` with the seats of a team whose members serve meanwhile.
fn with_team(members: usize, seats: usize, f: impl FnOnce(Vec<Seat>)) {
    let (team, members, seats) = team(members, seats, SpinPolicy::default());
    std::thread::scope(|scope| {
        let _ended = Ended(team);
        members
            .into_iter()
            .for_each(|member| _ = scope.spawn(|| member.serve()));
        f(seats);
    });
}

#[test]
fn what_is_posted_after_the_stop_is_run_by_its_seat() {
    let (team, members, mut seats) = team(1, 1, SpinPolicy::never());
    team.stop();
    members.into_iter().for_each(Member::serve);
    assert_eq!(seats[0].share(2, 10, 1, &|_| ()).unwrap(), 8);
}

#[test]
fn only_the_first_panic_of_a_job_is_handed_over_and_all_others_end() {
    struct Rude;
    impl Drop for Rude {
        fn drop(&mut self) {
            panic!("a payload that panics when it is dropped");
        }
    }
    with_team(3, 1, |mut seats| {
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let told = seats[0].share(0, 64, 3, &|_| std::panic::panic_any(Rude));
            std::mem::forget(told.unwrap_err());
        }
        // By whom is open: a member that does not sleep yet comes unasked.
        let ran = AtomicU64::new(0);
        let count = |range: Range<u64>| _ = ran.fetch_add(range.end - range.start, Relaxed);
        assert!(seats[0].share(0, 9, 0, &count).unwrap() <= 9);
        assert_eq!(ran.into_inner(), 9);
    });
}

/// Nothing of a panic is kept: a kernel that panics again and again on several threads costs no memory.
#[test]
fn what_panics_carry_is_dropped() {
    let alive = std::sync::Arc::new(());
    with_team(3, 1, |mut seats| {
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let carried = || alive.clone();
            let told = seats[0].share(0, 64, 3, &|_| std::panic::panic_any(carried()));
            drop(told.unwrap_err());
        }
    });
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}
