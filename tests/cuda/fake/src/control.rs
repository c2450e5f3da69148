//! The loaded library's side of the controls, which [`Session`](crate::Session) calls.

use std::ffi::{CStr, c_char};

use crate::code::Code;
use crate::state::State;
use crate::{call, gpu, state};

/// What a test does with the state.
pub(crate) type Body<'a> = dyn FnMut(&mut State) + 'a;

/// The control functions. The library of a test has the same types as the loaded one, because one call of the compiler
/// builds both, and the same allocator: that of the system.
pub(crate) struct Controls {
    pub(crate) begin: fn(u64, bool),
    pub(crate) end: fn(),
    /// Calls a function with the state. It uses no `static` of this package: those of the test's library are others.
    pub(crate) with: fn(&mut Body<'_>),
    /// Returns the context that is current on the calling thread, or 0. This is no call of the driver.
    pub(crate) current: fn() -> u64,
    /// Makes a context current on the calling thread; 0 is none. This is no call of the driver.
    pub(crate) make_current: fn(u64),
}

static CONTROLS: Controls = Controls {
    begin,
    end,
    with,
    current: call::current,
    make_current: |context| call::set_current(&state::lock(), context),
};

/// Returns the control functions of this library.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_controls() -> &'static Controls {
    &CONTROLS
}

/// Returns the number of calls of a function, or of all functions without a name, for programs in other languages.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_calls(name: Text) -> u64 {
    let state = state::lock();
    match name.get() {
        Some(name) => state.calls(&name),
        None => state.calls_total,
    }
}

/// Makes the `nth` call from now of a function return `code`, for programs in other languages.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_fault(name: Text, nth: u64, code: u32) {
    state::lock().plan_fault(name.get(), nth, Code(code));
}

/// A string of a C caller, or null.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Option<String> {
        // SAFETY: only C callers create one; they pass null or a string that ends with a zero byte.
        let text = (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })?;
        Some(text.to_string_lossy().into_owned())
    }
}

/// Begins a session. If it is `stepped`, there is no GPU thread.
fn begin(seed: u64, stepped: bool) {
    end();
    let session = state::lock().begin(seed, stepped);
    gpu::start(session);
}

/// Ends the session: executes the operations that may run, and checks for leaks. The fake is inert afterwards; the
/// reports stay.
pub(crate) fn end() {
    let mut state = state::lock();
    if state.session.is_some() {
        while gpu::step(&mut state) {}
        let streams = state.streams.live.values();
        let stuck = streams.filter(|stream| !stream.queue.is_empty()).count();
        if stuck > 0 {
            state.report(format!(
                "{stuck} streams still have operations at the end of the session; release all holds"
            ));
        }
        for leak in state.leaks() {
            state.report(leak);
        }
        state.session = None;
    }
    drop(state);
    state::changed();
    gpu::join();
}

fn with(body: &mut Body<'_>) {
    body(&mut state::lock());
    state::changed();
}
