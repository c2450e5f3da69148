//! The "GPU": executes one operation at a time, of a stream that the seed chooses among those that may go on.

use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::execute::execute;
use crate::state::{self, State};

/// Executes an operation, if there is one that may be.
pub(crate) fn step(state: &mut State) -> bool {
    let runnable = state.streams.runnable();
    if runnable.is_empty() || state.sticky.is_some() {
        return false;
    }
    let stream = runnable[state.chance.below(runnable.len())];
    let Some(queued) = state.streams.take(stream) else {
        return false;
    };
    state.executed += 1;
    let tick = queued.step.tick;
    state.time.pass(&queued.operation);
    let broken = match state.break_at {
        Some((place, code)) if state.executed >= place => Err(code),
        _ => execute(state, queued),
    };
    match broken {
        Ok(()) => state.streams.passed(stream, tick),
        Err(code) => state.break_down(code),
    }
    true
}

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Starts the thread of a session.
pub(crate) fn start(session: u64) {
    let thread = std::thread::Builder::new()
        .name("fake-gpu".to_owned())
        .spawn(move || run(session))
        .expect("a test can start a thread");
    let before = THREAD
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .replace(thread);
    debug_assert!(before.is_none(), "a session ends before another begins");
}

/// Waits for the end of the thread whose session is over.
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
        // Now and then it is slow, so that those who ask find that it is not yet.
        if !state.streams.runnable().is_empty() && state.chance.below(8) == 0 {
            state = state.dawdle(Duration::from_micros(50));
            // What was looked at before may be over, the session too, and whoever ended it has told so already.
            if state.session != Some(session) {
                break;
            }
        }
        if step(&mut state) {
            drop(state);
            state::changed();
            std::thread::yield_now();
            state = state::lock();
        } else {
            state = state.wait();
        }
    }
}
