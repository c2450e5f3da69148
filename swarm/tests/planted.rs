//! Each planted bug is found, within the programs that CI runs. One test, since a bug is on for the whole
//! process.

use millstream_swarm::{Bug, Case, Verdict, choose};

/// Programs within which each must be found.
const PROGRAMS: u64 = 2_000;

#[test]
fn every_planted_bug_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        choose(Some(*bug));
        let wrong = (1..=PROGRAMS).find_map(|seed| match Case::new(seed).run() {
            Verdict::Right(_) => None,
            Verdict::Wrong(what) => Some((seed, what)),
        });
        match wrong {
            Some((programs, what)) => println!("{}: program {programs}: {what}", bug.name()),
            None => missed.push(bug.name()),
        }
    }
    choose(None);
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
