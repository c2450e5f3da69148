//! The team with real threads and sizes for which the models are too small.

use super::*;
use std::sync::atomic::Ordering::Relaxed;

/// Stops the members even if a test fails, since the scope joins them.
struct StopOnDrop(Team);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs `f` with the submitters of a team whose members serve meanwhile.
fn with_team(members: usize, submitters: usize, f: impl FnOnce(Vec<Submitter>)) {
    let (team, members, submitters) = team(members, submitters, SpinPolicy::default());
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(team);
        members
            .into_iter()
            .for_each(|member| _ = scope.spawn(|| member.serve()));
        f(submitters);
    });
}

#[test]
fn a_job_posted_after_the_stop_is_run_by_its_seat() {
    let (team, members, mut submitters) = team(1, 1, SpinPolicy::never());
    team.stop();
    members.into_iter().for_each(Member::serve);
    assert_eq!(submitters[0].share(2, 10, 1, &|_| ()).unwrap(), 8);
}

#[test]
fn share_returns_the_first_panic_and_drops_the_others() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a payload that panics when it is dropped");
        }
    }
    with_team(3, 1, |mut submitters| {
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let shared = submitters[0].share(0, 64, 3, &|_| std::panic::panic_any(PanicsOnDrop));
            std::mem::forget(shared.unwrap_err());
        }
        // Which thread runs it is open: a member that is still awake may help.
        let ran = AtomicU64::new(0);
        let count = |range: Range<u64>| _ = ran.fetch_add(range.end - range.start, Relaxed);
        assert!(submitters[0].share(0, 9, 0, &count).unwrap() <= 9);
        assert_eq!(ran.into_inner(), 9);
    });
}

/// Payloads are not kept: a kernel that panics again and again on several threads leaks no memory.
#[test]
fn panic_payloads_are_dropped() {
    let alive = std::sync::Arc::new(());
    with_team(3, 1, |mut submitters| {
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let carried = || alive.clone();
            let shared = submitters[0].share(0, 64, 3, &|_| std::panic::panic_any(carried()));
            drop(shared.unwrap_err());
        }
    });
    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}
