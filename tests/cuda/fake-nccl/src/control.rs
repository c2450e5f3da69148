//! The controls for tests: the state in the loaded library.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::communicator::lock;

#[derive(Default)]
pub(crate) struct Control {
    reports: Vec<String>,
    calls: HashMap<&'static str, u64>,
    /// The function, the calls until the fault, and the code.
    faults: Vec<(String, u64, u32)>,
    /// Whether the next collective stands still.
    hangs: bool,
}

static CONTROL: Mutex<Option<Control>> = Mutex::new(None);

fn with<T>(body: impl FnOnce(&mut Control) -> T) -> T {
    body(lock(&CONTROL).get_or_insert_default())
}

/// Reports a mistake of the caller.
pub(crate) fn report(report: String) {
    with(|control| control.reports.push(report));
}

/// Counts a call. Returns the code of the fault that it meets.
pub(crate) fn count(name: &'static str) -> Result<(), u32> {
    with(|control| {
        *control.calls.entry(name).or_default() += 1;
        let mut met = None;
        control.faults.retain_mut(|(of, after, code)| {
            if of == name {
                *after -= 1;
            }
            if *after == 0 {
                met = Some(*code);
            }
            *after > 0
        });
        met.map_or(Ok(()), Err)
    })
}

/// Whether this collective stands still.
pub(crate) fn take_hang() -> bool {
    with(|control| std::mem::take(&mut control.hangs))
}

pub(crate) fn begin() {
    with(|control| *control = Control::default());
}

pub(crate) fn reports() -> Vec<String> {
    with(|control| control.reports.clone())
}

pub(crate) fn calls(name: &str) -> u64 {
    with(|control| control.calls.get(name).copied().unwrap_or(0))
}

pub(crate) fn fail(name: &str, nth: u64, code: u32) {
    with(|control| control.faults.push((name.to_owned(), nth.max(1), code)));
}

pub(crate) fn hang() {
    with(|control| control.hangs = true);
}
