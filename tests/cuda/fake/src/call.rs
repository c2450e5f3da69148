//! What all functions of the driver do first: lock, count, meet a planned fault, look for a context; and how those
//! wait that wait.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Moment;
use crate::code::Code;
use crate::state::{self, Locked, State};
use crate::{gpu, host_function};

/// What a function of the driver needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing; it works in an inert fake, too.
    Nothing,
    /// `cuInit` was called.
    Init,
    /// A context is current on the calling thread.
    Context,
    /// The same, and it ends something: a planned fault is answered after that, as a driver does which tells of an
    /// earlier failure.
    Ending,
    /// As `Ending`, but it needs no context.
    Release,
}

impl Needs {
    fn context(self) -> bool {
        matches!(self, Needs::Context | Needs::Ending)
    }
}

/// How many threads have called.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Which thread this is.
    // Relaxed: only that no two have the same.
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
    /// The session that this thread last called in.
    static SESSION: Cell<Option<u64>> = const { Cell::new(None) };
    /// Contexts of this thread, each with the session that it is of: the last is current, 0 is none.
    static CONTEXTS: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Makes a context current on this thread instead of the one that is; 0 is none.
pub(crate) fn set_current(state: &State, context: u64) {
    pop();
    push(state, context);
}

/// Makes a context current on this thread, until it is popped.
pub(crate) fn push(state: &State, context: u64) {
    CONTEXTS.with_borrow_mut(|contexts| contexts.push((state.session.unwrap_or(0), context)));
}

/// What was current is so no more.
pub(crate) fn pop() -> Option<u64> {
    let popped = CONTEXTS.with_borrow_mut(Vec::pop);
    popped.map(|(_, context)| context)
}

/// An answer as C has it.
fn number(answer: Result<(), Code>) -> u32 {
    answer.err().unwrap_or(Code::SUCCESS).0
}

/// Calls `body` unless something is wrong before.
pub(crate) fn call(
    name: &str,
    needs: Needs,
    body: impl FnOnce(&mut State) -> Result<(), Code>,
) -> u32 {
    let mut state = state::lock();
    let answer = enter(&mut state, name, needs, body);
    drop(state);
    state::changed();
    number(answer)
}

fn enter<T>(
    state: &mut State,
    name: &str,
    needs: Needs,
    body: impl FnOnce(&mut State) -> Result<T, Code>,
) -> Result<T, Code> {
    let Some(session) = state.session else {
        return match needs {
            Needs::Nothing => body(state),
            // A driver without a GPU, from `cuInit` on.
            _ => Err(Code::NO_DEVICE),
        };
    };
    // A device that ends late does so on threads that called in its own session. Who opens another one begins with one of these.
    let opens = matches!(name, "cuInit" | "cuDriverGetVersion");
    match SESSION.get() {
        Some(of) if of < session && !opens => return Err(Code::CONTEXT_IS_DESTROYED),
        _ => SESSION.set(Some(session)),
    }
    let current = CONTEXTS.with_borrow(|contexts| contexts.last().copied());
    if current.is_some_and(|(of, context)| of < session && context != 0) && needs.context() {
        // A lost device's threads may outlive the session in which it was lost.
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    let fault = state.count(name);
    if host_function::is_running() {
        state.report(format!(
            "wrong call: {name} in a function of the host's that a stream was given, where the driver must not be called"
        ));
        return Err(Code::NOT_PERMITTED);
    }
    if let Some(code) = fault {
        if code.is_sticky() {
            state.break_down(code);
        }
        if !matches!(needs, Needs::Ending | Needs::Release) {
            return Err(code);
        }
    }
    if needs != Needs::Nothing && !state.initialized {
        state.report(format!("{name} was called before cuInit"));
        return Err(Code::NOT_INITIALIZED);
    }
    if needs.context() {
        let lives = matches!(current, Some((of, context)) if of == session && state.gpu_of(context).is_some());
        if !lives {
            let thread = state::thread_name();
            state.report(format!(
                "no context: {name} was called on thread `{thread}`, where no living context is current"
            ));
            return Err(Code::INVALID_CONTEXT);
        }
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
    }
    state.current = current.map_or(0, |(of, context)| if of == session { context } else { 0 });
    state.refusing = fault.is_some();
    state.caller = THREAD.with(|thread| *thread);
    let answer = body(state)?;
    fault.map_or(Ok(answer), Err)
}

/// What a call waits for: a moment of a stream, if there is any.
pub(crate) type Awaited = Option<Moment>;

/// As [`call`]; then waits until the moment that `body` names has come. Whoever waits is the "GPU", too.
pub(crate) fn call_and_wait(
    name: &str,
    body: impl FnOnce(&mut State) -> Result<Awaited, Code>,
) -> u32 {
    let mut state = state::lock();
    let moment = match enter(&mut state, name, Needs::Context, body) {
        Ok(Some(moment)) => moment,
        answer => return number(answer.map(|_| ())),
    };
    state::changed();
    number(wait(state, &moment))
}

fn wait(mut state: Locked, moment: &Moment) -> Result<(), Code> {
    let session = state.session;
    loop {
        if state.session != session {
            return Err(Code::INVALID_CONTEXT);
        }
        if state.streams.is_over(moment.stream, moment.tick) {
            state.host.join(&moment.clock);
            return Ok(());
        }
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
        // Half of the steps are left to others, so that those who wait are not always first.
        let mine = state.stepped || state.chance.below(2) == 0;
        if mine && gpu::step(&mut state) {
            drop(state);
            state::changed();
            state = state::lock();
        } else {
            state = state.wait();
        }
    }
}

/// Has this moment come? Whoever asks learns what was known then.
pub(crate) fn ask(state: &mut State, moment: &Moment) -> Result<(), Code> {
    if state.stepped {
        let steps = state.chance.below(3);
        (0..steps).for_each(|_| _ = gpu::step(state));
    }
    if let Some(sticky) = state.sticky {
        return Err(sticky);
    }
    if !state.streams.is_over(moment.stream, moment.tick) {
        return Err(Code::NOT_READY);
    }
    state.host.join(&moment.clock);
    Ok(())
}
