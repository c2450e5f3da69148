//! Team: each piece runs once, the job outlives every access, and the stop ends all members.

use super::SPIN;
use millstream_loom::{Bound, Payload, check};
use millstream_sync::team::{Member, Submitter, Team, team};

/// Creates a team of one member and one submitter.
fn pair() -> (Team, Member, Submitter) {
    let (team, mut members, mut submitters) = team(1, 1, SPIN);
    (team, members.pop().unwrap(), submitters.pop().unwrap())
}

/// Posts a job with a piece for each cell, and asserts that each ran once. Only the team
/// synchronizes the pieces' writes, and the cells are dropped before the next job.
fn share<const PIECES: usize>(submitter: &mut Submitter) {
    let cells = [(); PIECES].map(|()| Payload::new(0));
    let work = |range: std::ops::Range<u64>| {
        for piece in range {
            let cell = &cells[piece as usize];
            cell.set(cell.get() + 1);
        }
    };
    let own = submitter.share(0, PIECES as u64, 1, &work);
    assert!(own.is_ok_and(|own| own <= PIECES as u64));
    cells.iter().for_each(|cell| assert_eq!(cell.get(), 1));
}

#[test]
fn the_stop_ends_a_member() {
    check(Bound::None, |sides| {
        let (team, member, _seat) = pair();
        sides.run(move || team.stop(), move || member.serve());
    });
}

#[test]
fn each_piece_runs_once_and_its_writes_are_visible() {
    check(Bound::TwoThreads, |sides| {
        let (team, member, mut submitter) = pair();
        let post = move || {
            share::<2>(&mut submitter);
            team.stop();
        };
        sides.run(post, move || member.serve());
    });
}

#[test]
fn a_late_member_leaves_the_next_job_alone() {
    check(Bound::TwoThreads, |sides| {
        let (team, member, mut submitter) = pair();
        let post = move || {
            share::<1>(&mut submitter);
            share::<1>(&mut submitter);
            team.stop();
        };
        sides.run(post, move || member.serve());
    });
}

#[test]
fn a_panic_is_returned_after_all_members_have_left() {
    check(Bound::TwoThreads, |sides| {
        let (team, member, mut submitter) = pair();
        let post = move || {
            let cell = Payload::new(0);
            let shared = submitter.share(0, 1, 1, &|_| {
                cell.set(1);
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(shared.is_err_and(|panic| panic.is::<()>()));
            assert_eq!(cell.get(), 1);
            team.stop();
        };
        sides.run(post, move || member.serve());
    });
}

#[test]
fn two_seats_share_one_member() {
    check(Bound::ThreeThreads, |sides| {
        let (team, mut members, mut submitters) = team(1, 2, SPIN);
        let member = members.pop().unwrap();
        let mut second = submitters.pop().unwrap();
        let mut first = submitters.pop().unwrap();
        // The submitters may finish in either order; the later one stops the team.
        let team = std::sync::Arc::new((team, std::sync::atomic::AtomicU32::new(0)));
        let other = team.clone();
        let stop_last = |team: &(Team, std::sync::atomic::AtomicU32)| {
            if team.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
                team.0.stop();
            }
        };
        sides.run_three(
            move || {
                share::<1>(&mut first);
                stop_last(&team);
            },
            move || {
                share::<1>(&mut second);
                stop_last(&other);
            },
            move || member.serve(),
        );
    });
}
