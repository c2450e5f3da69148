//! Sessions for programs that are not tests: with `FAKE_CUDA_SESSION=7` the first `cuInit` begins a session with seed
//! 7. The session ends when the process exits. If there are reports, they are printed to standard error, and the exit
//! code is 86.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::control;
use crate::gpu;
use crate::state::{self, State};

/// The environment variable with the seed.
const VARIABLE: &str = "FAKE_CUDA_SESSION";
/// The exit code of a process with reports. Programs do not use it otherwise.
const EXIT_CODE: i32 = 86;

/// The session that the environment requested; 0 for none.
static SESSION: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
    fn _exit(code: i32) -> !;
}

/// Begins a session if the environment requests one and there was none yet. Returns whether it did.
pub(crate) fn begin(state: &mut State) -> bool {
    let seed = std::env::var(VARIABLE).ok();
    let Some(seed) = seed.and_then(|seed| seed.parse().ok()) else {
        return false;
    };
    if state.has_had_session() {
        return false;
    }
    let session = state.begin(seed, false);
    // Relaxed: read at exit under the lock that is held here.
    SESSION.store(session, Ordering::Relaxed);
    gpu::start(session);
    // SAFETY: registers a C function to call at exit; the library is never unloaded.
    let taken = unsafe { atexit(end) };
    debug_assert_eq!(taken, 0, "`atexit` accepts at least 32 functions");
    true
}

/// Ends the session when the process exits.
extern "C" fn end() {
    let session = SESSION.load(Ordering::Relaxed);
    if state::lock().session != Some(session) {
        // A test has begun another session and ends it.
        return;
    }
    control::end();
    let state = state::lock();
    let reports = &state.reports;
    if !reports.is_empty() {
        eprintln!("the fake CUDA driver reports:\n{}", reports.join("\n"));
        // SAFETY: the process is exiting; this only changes the exit code.
        unsafe { _exit(EXIT_CODE) };
    }
}
