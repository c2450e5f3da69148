//! A session for programs that know nothing of the fake: with `FAKE_CUDA_SESSION=7` the first `cuInit` begins one by that
//! seed. When the process exits, the session ends; what was wrong is told on standard error, and the exit code says so.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::control::fake_cuda_end;
use crate::gpu;
use crate::state::{self, State};

/// Its seed is in this variable.
const VARIABLE: &str = "FAKE_CUDA_SESSION";
/// The exit code of a process that did something wrong: one that programs do not use themselves.
const WRONG: i32 = 86;

/// The session that the environment asked for; 0 is none.
static SESSION: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
    fn _exit(code: i32) -> !;
}

/// Begins a session, if the environment asks for one and there was none yet.
pub(crate) fn begin(state: &mut State) -> bool {
    let seed = std::env::var(VARIABLE).ok();
    let Some(seed) = seed.and_then(|seed| seed.parse().ok()) else {
        return false;
    };
    if state.has_begun_one() {
        return false;
    }
    let session = state.begin(seed, false);
    // Relaxed: it is read when the process exits, under the lock that is held here.
    SESSION.store(session, Ordering::Relaxed);
    gpu::start(session);
    // SAFETY: a function of C for exactly this; the library is never unloaded by those who call it.
    let taken = unsafe { atexit(end) };
    debug_assert_eq!(taken, 0, "there is room for 32 functions");
    true
}

/// Ends it with the process.
extern "C" fn end() {
    let session = SESSION.load(Ordering::Relaxed);
    if state::lock().session != Some(session) {
        // A test has begun another, and ends that itself.
        return;
    }
    fake_cuda_end();
    let state = state::lock();
    let reports = &state.reports;
    if !reports.is_empty() {
        eprintln!("the fake CUDA driver reports:\n{}", reports.join("\n"));
        // SAFETY: the process is exiting, with another code from here on.
        unsafe { _exit(WRONG) };
    }
}
