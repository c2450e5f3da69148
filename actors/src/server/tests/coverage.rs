//! The cases that random programs have met, counted, so that no case silently disappears from them.

use std::collections::BTreeMap;

/// The number of times that each case was met.
#[derive(Default)]
pub(super) struct Coverage(BTreeMap<&'static str, u64>);

/// The cases that every run of many programs must meet.
const ALL: [&str; 20] = [
    "launch",
    "dynamic launch",
    "fill",
    "custom task",
    "recorded dynamic launch",
    "recorded fill",
    "recorded copy",
    "refused launch",
    "refused fill",
    "refused copy",
    "refused copy in",
    "refused copy out",
    "refused custom task",
    "guard",
    "guard that outlived five tasks",
    "guard over failed data",
    "abandoned",
    "abandoned with tasks held",
    "abandoned with requests open",
    "abandoned with guards out",
];

impl Coverage {
    pub(super) fn note(&mut self, what: &'static str) {
        debug_assert!(ALL.contains(&what), "{what} is missing in the list");
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn note_if(&mut self, what: &'static str, happened: bool) {
        if happened {
            self.note(what);
        }
    }

    pub(super) fn add(&mut self, other: &Coverage) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// Checks that each case was met at least once in a hundred programs.
    pub(super) fn check(&self, programs: u64) {
        for what in ALL {
            let count = self.0.get(what).copied().unwrap_or(0);
            assert!(
                count >= programs / 100,
                "{what}: met {count} times in {programs} programs"
            );
        }
    }
}
