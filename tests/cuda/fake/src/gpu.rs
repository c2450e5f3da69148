//! The "GPU": executes one operation at a time, of a stream that the seed chooses among those that may go on. Its
//! thread also calls functions of the host's, which others find waiting: without the lock, as they may do anything but call
//! the driver.

use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::execute::execute;
use crate::host_function::HostCall;
use crate::operation::Operation;
use crate::state::{self, Locked, State};

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
        _ if let Operation::Call { function, data } = queued.operation => {
            if let Some(of) = state.streams.live.get_mut(&stream) {
                of.busy = true;
            }
            let step = queued.step;
            let call = HostCall {
                function,
                data,
                step,
            };
            state.host_calls.push_back(call);
            return true;
        }
        _ => execute(state, queued),
    };
    match broken {
        Ok(()) => state.streams.passed(stream, tick),
        Err(code) => state.break_down(code),
    }
    true
}

/// Calls the next function of the host's. Its start is as if the host had waited for what came before.
fn call_host(mut state: Locked, call: HostCall) -> Locked {
    let session = state.session;
    state.host.join(&call.step.clock);
    drop(state);
    call.run();
    let mut state = state::lock();
    // A context that broke meanwhile has forgotten the stream's operations.
    if state.session == session && state.sticky.is_none() {
        state.streams.passed(call.step.actor, call.step.tick);
    }
    state::changed();
    state
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
        if !state.stepped && !state.streams.runnable().is_empty() && state.chance.below(8) == 0 {
            state = state.dawdle(Duration::from_micros(50));
            // What was looked at before may be over, the session too, and whoever ended it has told so already.
            if state.session != Some(session) {
                break;
            }
        }
        if let Some(call) = state.host_calls.pop_front() {
            state = call_host(state, call);
        } else if !state.stepped && step(&mut state) {
            drop(state);
            state::changed();
            std::thread::yield_now();
            state = state::lock();
        } else {
            state = state.wait();
        }
    }
}
