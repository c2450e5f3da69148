//! Counts steps of tests: entries that were visited, so that a test asserts costs without a clock.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts an entry that was visited.
pub(crate) fn count() {
    STEPS.set(STEPS.get() + 1);
}

/// Returns the number of entries that this thread has visited since the last call.
pub(crate) fn take() -> u64 {
    STEPS.take()
}
