//! The controls for tests: the state in the loaded library.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
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

fn text(name: *const c_char) -> String {
    // SAFETY: the test passes a string that ends with a zero byte.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_string_lossy().into_owned()
}

pub(crate) extern "C" fn begin() {
    with(|control| *control = Control::default());
}

pub(crate) extern "C" fn reports(buffer: *mut u8, room: usize) -> usize {
    let reports = with(|control| control.reports.join("\n"));
    if !buffer.is_null() {
        let bytes = reports.len().min(room);
        // SAFETY: the test passes a buffer of this length.
        unsafe { std::ptr::copy_nonoverlapping(reports.as_ptr(), buffer, bytes) };
    }
    reports.len()
}

pub(crate) extern "C" fn calls(name: *const c_char) -> u64 {
    let name = text(name);
    with(|control| control.calls.get(name.as_str()).copied().unwrap_or(0))
}

pub(crate) extern "C" fn fail(name: *const c_char, nth: u64, code: u32) {
    let name = text(name);
    with(|control| control.faults.push((name, nth.max(1), code)));
}

pub(crate) extern "C" fn hang() {
    with(|control| control.hangs = true);
}
