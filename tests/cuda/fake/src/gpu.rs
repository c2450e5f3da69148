//! The "GPU": executes one operation at a time, of a stream that the seed chooses among the runnable ones.

use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::execute::execute;
use crate::state::{self, State};

/// Executes one operation, if one may run, and returns whether it did.
pub(crate) fn step(state: &mut State) -> bool {
    let runnable = state.streams.runnable();
    if runnable.is_empty() || state.sticky.is_some() {
        return false;
    }
    let stream = runnable[state.rng.below(runnable.len())];
    let Some(queued) = state.streams.take(stream) else {
        return false;
    };
    state.executed += 1;
    let tick = queued.step.tick;
    state.time.advance(&queued.operation);
    let broken = match state.break_at {
        Some((place, code)) if state.executed >= place => Err(code),
        _ => execute(state, queued),
    };
    match broken {
        Ok(()) => state.streams.complete(stream, tick),
        Err(code) => state.break_gpu(code),
    }
    true
}

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Starts the GPU thread of a session.
pub(crate) fn start(session: u64) {
    let thread = std::thread::Builder::new()
        .name("fake-gpu".to_owned())
        .spawn(move || run(session))
        .expect("a test can start a thread");
    let before = THREAD
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .replace(thread);
    debug_assert!(before.is_none(), "the previous session has ended");
}

/// Joins the GPU thread of an ended session.
pub(crate) fn join() {
    let thread = THREAD
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .take();
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

fn run(session: u64) {
    let mut state = state::lock();
    while state.session == Some(session) {
        // Delays some operations, so that queries find them incomplete.
        if !state.stepped && !state.streams.runnable().is_empty() && state.rng.below(8) == 0 {
            state = state::wait_timeout(state, Duration::from_micros(50));
            // The session may have ended during the delay, and no further notification comes.
            if state.session != Some(session) {
                break;
            }
        }
        if !state.stepped && step(&mut state) {
            drop(state);
            state::changed();
            std::thread::yield_now();
            state = state::lock();
        } else {
            state = state::wait(state);
        }
    }
}
