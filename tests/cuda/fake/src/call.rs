//! The common entry of all driver functions: takes the lock, counts the call, applies injected faults, and checks the
//! current context. Also implements waiting.

use std::cell::{Cell, RefCell};

use crate::clock::Point;
use crate::code::Code;
use crate::gpu;
use crate::state::{self, Locked, State};

/// The requirements of a driver function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None; the function also works in an inert fake.
    Nothing,
    /// `cuInit` was called.
    Init,
    /// A context is current on the calling thread.
    Context,
    /// The same, and the function releases an object. It does so even if it meets a fault, and then returns the error,
    /// as a driver does that reports an earlier failure.
    Ending,
    /// As `Ending`, but without a context.
    Release,
}

impl Needs {
    fn context(self) -> bool {
        matches!(self, Needs::Context | Needs::Ending)
    }
}

thread_local! {
    /// The session of this thread's last call.
    static SESSION: Cell<Option<u64>> = const { Cell::new(None) };
    /// The context stack of this thread, each with its session. The last is current; 0 is none.
    static CONTEXTS: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Replaces the current context of this thread; 0 is none.
pub(crate) fn set_current(state: &State, context: u64) {
    pop();
    push(state, context);
}

/// Returns the current context of this thread; 0 is none.
pub(crate) fn current() -> u64 {
    let current = CONTEXTS.with_borrow(|contexts| contexts.last().copied());
    current.map_or(0, |(_, context)| context)
}

/// Counts the calls of this thread to an earlier session from now on: a device that outlives its session may start one.
pub(crate) fn set_stale() {
    SESSION.set(Some(0));
}

/// Pushes a context on this thread's stack.
pub(crate) fn push(state: &State, context: u64) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.push((state.session.unwrap_or(0), context)));
}

/// Pops the current context from this thread's stack.
pub(crate) fn pop() -> Option<u64> {
    let popped = CONTEXTS.with_borrow_mut(Vec::pop);
    popped.map(|(_, context)| context)
}

/// What the body of a call returns: the point that the call waits for, if any.
pub(crate) trait Outcome {
    fn point(self) -> Option<Point>;
}

impl Outcome for () {
    fn point(self) -> Option<Point> {
        None
    }
}

impl Outcome for Option<Point> {
    fn point(self) -> Option<Point> {
        self
    }
}

/// Performs a call: runs `body` if the requirements are met, and waits for the point that it returns. The waiting thread
/// also executes operations.
pub(crate) fn call<T: Outcome>(
    name: &'static str,
    needs: Needs,
    body: impl FnOnce(&mut State) -> Result<T, Code>,
) -> u32 {
    let mut state = state::lock();
    let answer = enter(&mut state, name, needs, body).map(Outcome::point);
    state::changed();
    let answer = match answer {
        Ok(Some(point)) => wait(state, &point),
        Ok(None) if RELEASING.contains(&name) => {
            drop(drain(state));
            Ok(())
        }
        answer => {
            drop(state);
            answer.map(|_| ())
        }
    };
    state::changed();
    answer.err().unwrap_or(Code::SUCCESS).0
}

fn enter<T>(
    state: &mut State,
    name: &'static str,
    needs: Needs,
    body: impl FnOnce(&mut State) -> Result<T, Code>,
) -> Result<T, Code> {
    state.call = name;
    let Some(session) = state.session else {
        return match needs {
            Needs::Nothing => body(state),
            // A driver without a GPU returns this from `cuInit` on.
            _ => Err(Code::NO_DEVICE),
        };
    };
    // A device that is closed after its session calls on threads whose last call was in that session. A thread that
    // opens a new device begins with one of these functions.
    let opens = matches!(name, "cuInit" | "cuDriverGetVersion");
    match SESSION.get() {
        Some(of) if of < session && !opens => return Err(Code::CONTEXT_IS_DESTROYED),
        _ => SESSION.set(Some(session)),
    }
    let current = CONTEXTS.with_borrow(|contexts| contexts.last().copied());
    if current.is_some_and(|(of, context)| of < session && context != 0) && needs.context() {
        // The threads of a lost device may outlive its session.
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    let fault = state.count(name);
    if let Some(code) = fault {
        if code.is_sticky() {
            state.break_gpu(code);
        }
        if !matches!(needs, Needs::Ending | Needs::Release) {
            return Err(code);
        }
    }
    if needs != Needs::Nothing && !state.initialized {
        let report = format!("{name} was called before cuInit");
        return Err(state.refuse(Code::NOT_INITIALIZED, report));
    }
    if needs.context() {
        let lives = matches!(current, Some((of, context)) if of == session && state.gpu_of(context).is_some());
        if !lives {
            let thread = state::thread_name();
            let report = format!(
                "no context: {name} was called on thread `{thread}`, where no live context is current"
            );
            return Err(state.refuse(Code::INVALID_CONTEXT, report));
        }
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
    }
    state.current = current.map_or(0, |(of, context)| if of == session { context } else { 0 });
    check_may_drain(state, name);
    let answer = body(state)?;
    fault.map_or(Ok(answer), Err)
}

/// Functions that may wait until the GPU has completed the work of the context, whatever it is.
const DRAINING: [&str; 4] = [
    "cuMemFreeHost",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
];
/// Those of them that always wait, after they have released the object.
const RELEASING: [&str; 2] = ["cuMemFreeHost", "cuModuleUnload"];
/// The starts of the names of threads that must not wait for the work of all clients: those of the device, of its queues,
/// and of the values to drop. The system cuts names after 15 letters.
const MUST_NOT_DRAIN: [&str; 3] = ["millstream-dev", "millstream-gc", "ms-cuda-queue"];

/// Reports a call that waits for the GPU on a thread that must not, while the current context has work.
fn check_may_drain(state: &mut State, name: &str) {
    if !DRAINING.contains(&name) || state.streams.are_idle(state.current) {
        return;
    }
    let thread = state::thread_name();
    if MUST_NOT_DRAIN.iter().any(|start| thread.starts_with(start)) {
        let call = state.this_call();
        state.report(format!(
            "waits for the GPU: {call} waits for all work of the context on thread `{thread}`, which others wait for"
        ));
    }
}

/// Waits until the current context has no work, unless the GPU is broken, or only this thread could go on.
fn drain(mut state: Locked) -> Locked {
    let (session, context) = (state.session, current());
    while state.session == session && state.sticky.is_none() && !state.streams.are_idle(context) {
        if !state.stepped {
            state = state::wait(state);
        } else if !gpu::step(&mut state) {
            break;
        }
    }
    state
}

fn wait(mut state: Locked, point: &Point) -> Result<(), Code> {
    let session = state.session;
    loop {
        if state.session != session {
            return Err(Code::INVALID_CONTEXT);
        }
        if state.streams.is_complete(point.stream, point.tick) {
            state.host.join(&point.clock);
            return Ok(());
        }
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
        // Leaves half of the steps to other threads, so that the waiting thread does not execute all of them.
        let mine = state.stepped || state.rng.below(2) == 0;
        if mine && gpu::step(&mut state) {
            drop(state);
            state::changed();
            state = state::lock();
        } else {
            state = state::wait(state);
        }
    }
}

/// Queries a point, if there is one. If it is complete, the host's clock joins its clock.
pub(crate) fn query(state: &mut State, point: Option<Point>) -> Result<(), Code> {
    let Some(point) = point else {
        return Ok(());
    };
    if state.stepped {
        let steps = state.rng.below(3);
        (0..steps).for_each(|_| _ = gpu::step(state));
    }
    if let Some(sticky) = state.sticky {
        return Err(sticky);
    }
    if !state.streams.is_complete(point.stream, point.tick) {
        return Err(Code::NOT_READY);
    }
    state.host.join(&point.clock);
    Ok(())
}
