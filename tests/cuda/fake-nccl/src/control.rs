//! The controls for tests: the state in the loaded library.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use crate::communicator::{fail_hanging, living, lock};
use crate::group::open_groups;

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

/// The control functions. The library of a test has the same type as the loaded one, because both are built from this
/// code.
#[repr(C)]
pub(crate) struct Controls {
    pub(crate) begin: extern "C" fn(),
    pub(crate) reports: extern "C" fn(*mut u8, usize) -> usize,
    pub(crate) calls: extern "C" fn(*const c_char) -> u64,
    pub(crate) fail: extern "C" fn(*const c_char, u64, u32),
    pub(crate) hang: extern "C" fn(),
    pub(crate) fail_hanging: extern "C" fn(u32) -> usize,
    pub(crate) living: extern "C" fn() -> usize,
    pub(crate) open_groups: extern "C" fn() -> usize,
}

static CONTROLS: Controls = Controls {
    begin,
    reports,
    calls,
    fail,
    hang,
    fail_hanging,
    living,
    open_groups,
};

/// Returns the control functions of this library.
#[unsafe(no_mangle)]
extern "C" fn fake_nccl_controls() -> &'static Controls {
    &CONTROLS
}

extern "C" fn begin() {
    with(|control| *control = Control::default());
}

extern "C" fn reports(buffer: *mut u8, room: usize) -> usize {
    let reports = with(|control| control.reports.join("\n"));
    if !buffer.is_null() {
        let bytes = reports.len().min(room);
        // SAFETY: the test passes a buffer of this length.
        unsafe { std::ptr::copy_nonoverlapping(reports.as_ptr(), buffer, bytes) };
    }
    reports.len()
}

extern "C" fn calls(name: *const c_char) -> u64 {
    let name = text(name);
    with(|control| control.calls.get(name.as_str()).copied().unwrap_or(0))
}

extern "C" fn fail(name: *const c_char, nth: u64, code: u32) {
    let name = text(name);
    with(|control| control.faults.push((name, nth.max(1), code)));
}

extern "C" fn hang() {
    with(|control| control.hangs = true);
}
