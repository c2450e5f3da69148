//! The "GPU": executes one operation at a time, of a stream that the seed chooses among the runnable ones. The GPU
//! thread also calls host functions, including those that other threads dequeue. It does so without the lock, because a
//! host function may do anything except call the driver.

use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::execute::execute;
use crate::host_function::HostCall;
use crate::operation::Operation;
use crate::state::{self, Locked, State};

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
        Ok(()) => state.streams.complete(stream, tick),
        Err(code) => state.break_gpu(code),
    }
    true
}

/// Calls a host function. The host's clock joins the function's clock, as if the host had waited for the work before
/// it.
fn call_host(mut state: Locked, call: HostCall) -> Locked {
    let session = state.session;
    state.host.join(&call.step.clock);
    drop(state);
    call.run();
    let mut state = state::lock();
    // If the GPU broke meanwhile, the stream's operations no longer exist.
    if state.session == session && state.sticky.is_none() {
        state.streams.complete(call.step.actor, call.step.tick);
    }
    state::changed();
    state
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
            state = state.wait_timeout(Duration::from_micros(50));
            // The session may have ended during the delay, and no further notification comes.
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
