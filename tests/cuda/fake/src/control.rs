//! The loaded library's side of the controls: C functions that [`Session`](crate::Session) calls.

use std::ffi::{CStr, c_char};

use crate::code::Code;
use crate::{call, gpu, state};

/// The control functions. The library of a test has the same type as the loaded one, because both are built from this
/// code.
#[repr(C)]
pub(crate) struct Controls {
    pub(crate) begin: extern "C" fn(u64, u32),
    pub(crate) end: extern "C" fn(),
    pub(crate) report: extern "C" fn(*mut u8, usize) -> usize,
    pub(crate) launched: extern "C" fn(*mut u8, usize) -> usize,
    pub(crate) graphs: extern "C" fn(*mut u8, usize) -> usize,
    pub(crate) calls: extern "C" fn(Text) -> u64,
    pub(crate) callers: extern "C" fn() -> usize,
    pub(crate) fault: extern "C" fn(Text, u64, u32),
    pub(crate) faults_injected: extern "C" fn() -> u64,
    pub(crate) hold: extern "C" fn(u64, u32),
    pub(crate) hold_kernel: extern "C" fn(Text, u32),
    pub(crate) kernel: extern "C" fn(Text, *mut u64, *mut u64),
    pub(crate) break_at: extern "C" fn(u64, u32),
    pub(crate) step: extern "C" fn() -> u32,
    pub(crate) executed: extern "C" fn() -> u64,
    pub(crate) memory: extern "C" fn(u64),
    pub(crate) gpus: extern "C" fn(u32),
    pub(crate) driver_version: extern "C" fn(i32),
    pub(crate) kept: extern "C" fn() -> u64,
    pub(crate) current: extern "C" fn() -> u64,
    pub(crate) make_current: extern "C" fn(u64),
    pub(crate) set_peers: extern "C" fn(u32),
    pub(crate) writes_values: extern "C" fn(u32),
    pub(crate) priorities: extern "C" fn(*mut i32, usize) -> usize,
}

static CONTROLS: Controls = Controls {
    begin,
    end,
    report,
    launched,
    graphs,
    calls: fake_cuda_calls,
    callers,
    fault,
    faults_injected,
    hold,
    hold_kernel,
    kernel,
    break_at,
    step,
    executed,
    memory,
    gpus,
    driver_version,
    kept,
    current,
    make_current,
    set_peers,
    writes_values,
    priorities,
};

/// Returns the control functions of this library.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_controls() -> &'static Controls {
    &CONTROLS
}

/// A string of a C caller, or null.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Returns a text for a call during which `text` lives, or null.
    pub(crate) fn of(text: Option<&CStr>) -> Self {
        Self(text.map_or(std::ptr::null(), CStr::as_ptr))
    }

    pub(crate) fn get(&self) -> Option<String> {
        // SAFETY: only C callers create one; they pass null or a string that ends with a zero byte.
        let text = (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })?;
        Some(text.to_string_lossy().into_owned())
    }
}

/// Begins a session. With `stepped` there is no GPU thread.
extern "C" fn begin(seed: u64, stepped: u32) {
    end();
    let session = state::lock().begin(seed, stepped != 0);
    gpu::start(session);
}

/// Ends the session: executes the operations that may run, and checks for leaks. The fake is inert afterwards; the
/// reports stay.
pub(crate) extern "C" fn end() {
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

/// Writes a string to a buffer as far as it fits, and returns the length of the string.
fn write(text: &str, buffer: *mut u8, room: usize) -> usize {
    if !buffer.is_null() {
        let bytes = text.len().min(room);
        // SAFETY: the C caller guarantees that the buffer has this length.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, bytes) };
    }
    text.len()
}

/// Writes the reports, one per line.
extern "C" fn report(buffer: *mut u8, room: usize) -> usize {
    write(&state::lock().reports.join("\n"), buffer, room)
}

/// Writes the launches, one per line.
extern "C" fn launched(buffer: *mut u8, room: usize) -> usize {
    write(&state::lock().launched.join("\n"), buffer, room)
}

/// Writes the descriptions of the instantiated graphs, one per line.
extern "C" fn graphs(buffer: *mut u8, room: usize) -> usize {
    write(&state::lock().graphs.descriptions.join("\n"), buffer, room)
}

/// Returns the number of calls of a function, or of all functions without a name.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_calls(name: Text) -> u64 {
    let state = state::lock();
    match name.get() {
        Some(name) => state.calls(&name),
        None => state.calls_total,
    }
}

/// Returns the number of threads that made calls.
extern "C" fn callers() -> usize {
    state::lock().callers.len()
}

/// Injects a fault in the `nth` call from now of this function, or of any without a name.
extern "C" fn fault(name: Text, nth: u64, code: u32) {
    state::lock().plan_fault(name.get(), nth, Code(code));
}

/// Returns the number of injected faults that calls have met.
extern "C" fn faults_injected() -> u64 {
    state::lock().faults_injected
}

/// Holds or releases a stream, or all existing streams if the handle is 0.
extern "C" fn hold(stream: u64, held: u32) {
    let mut state = state::lock();
    for (handle, of) in &mut state.streams.live {
        if stream == 0 || stream == *handle {
            of.held = held != 0;
        }
    }
    drop(state);
    state::changed();
}

/// Holds or releases the kernels of this name.
extern "C" fn hold_kernel(name: Text, held: u32) {
    let mut state = state::lock();
    let names = &mut state.streams.held_kernels;
    let name = name.get().unwrap_or_default();
    match held {
        0 => names.remove(&name),
        _ => names.insert(name),
    };
    drop(state);
    state::changed();
}

/// Returns the number of streams whose next operation is a kernel of this name, and the number of its runs.
extern "C" fn kernel(name: Text, waiting: *mut u64, runs: *mut u64) {
    let state = state::lock();
    let name = name.get().unwrap_or_default();
    // SAFETY: the caller guarantees that the out pointers are valid.
    unsafe {
        waiting.write(state.streams.at_kernel(&name) as u64);
        runs.write(state.kernels_run.get(&name).copied().unwrap_or(0));
    }
}

/// Makes the `nth` executed operation from now break the GPU.
extern "C" fn break_at(nth: u64, code: u32) {
    let mut state = state::lock();
    state.break_at = Some((state.executed + nth.max(1), Code(code)));
}

/// Executes one operation, if one may run, and returns whether it did.
extern "C" fn step() -> u32 {
    let mut state = state::lock();
    let done = gpu::step(&mut state);
    drop(state);
    state::changed();
    done.into()
}

/// Returns the number of executed operations.
extern "C" fn executed() -> u64 {
    state::lock().executed
}

/// Sets the memory of each GPU.
extern "C" fn memory(bytes: u64) {
    let mut state = state::lock();
    state.memory.bytes = bytes.max(state.memory.used_max());
}

/// Sets the number of GPUs, before the first of them is opened.
extern "C" fn gpus(count: u32) {
    let mut state = state::lock();
    state
        .primaries
        .resize_with(count.max(1) as usize, Default::default);
}

/// Sets the version of CUDA that the driver supports.
extern "C" fn driver_version(version: i32) {
    state::lock().driver_version = version;
}

/// Returns the freed bytes that the pools keep.
extern "C" fn kept() -> u64 {
    state::lock().memory.kept()
}

/// Returns the context that is current on the calling thread, or 0. This is no call of the driver.
extern "C" fn current() -> u64 {
    call::current()
}

/// Makes a context current on the calling thread; 0 is none. This is no call of the driver.
extern "C" fn make_current(context: u64) {
    call::set_current(&state::lock(), context);
}

/// Sets whether GPUs are peers.
extern "C" fn set_peers(are: u32) {
    state::lock().peers.possible = are != 0;
}

/// Sets whether streams support memory operations.
extern "C" fn writes_values(there: u32) {
    state::lock().writes_values = there != 0;
}

/// Writes the priority of each created stream, in order, and returns their number.
extern "C" fn priorities(buffer: *mut i32, room: usize) -> usize {
    let state = state::lock();
    if !buffer.is_null() {
        let count = state.priorities.len().min(room);
        // SAFETY: the caller guarantees that the buffer has this length.
        unsafe { std::ptr::copy_nonoverlapping(state.priorities.as_ptr(), buffer, count) };
    }
    state.priorities.len()
}
