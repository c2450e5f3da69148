//! What a test says to the loaded library, as functions of C: the other side of [`Session`](crate::Session).

use std::ffi::{CStr, c_char};

use crate::code::Code;
use crate::{gpu, state};

/// A text of a caller's, or none.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Option<String> {
        // SAFETY: only callers of C's interface make one, who vouch for a text that ends with 0, or null.
        let text = (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })?;
        Some(text.to_string_lossy().into_owned())
    }
}

/// Begins a session. With `stepped`, no thread is the "GPU".
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_begin(seed: u64, stepped: u32) {
    fake_cuda_end();
    let session = state::lock().begin(seed, stepped != 0);
    gpu::start(session);
}

/// Executes what may still be executed, looks for leaks, and is inert from here on. Reports stay.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn fake_cuda_end() {
    let mut state = state::lock();
    if state.session.is_some() {
        loop {
            while gpu::step(&mut state) {}
            if state.host_calls.is_empty() && !state.streams.is_busy() {
                break;
            }
            // A function of the host's has yet to end.
            state::changed();
            state = state.wait();
        }
        let streams = state.streams.live.values();
        let stuck = streams.filter(|stream| !stream.queue.is_empty()).count();
        if stuck > 0 {
            state.report(format!(
                "{stuck} streams still had operations at the end: a hold was not released"
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

/// Writes a text as far as there is room, and answers how many bytes it has.
fn write(text: &str, buffer: *mut u8, room: usize) -> usize {
    if !buffer.is_null() {
        let bytes = text.len().min(room);
        // SAFETY: the promise of the caller of C's interface: there is so much room.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, bytes) };
    }
    text.len()
}

/// Writes the reports, one a line.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_report(buffer: *mut u8, room: usize) -> usize {
    write(&state::lock().reports.join("\n"), buffer, room)
}

/// Writes what was launched, one a line.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_launched(buffer: *mut u8, room: usize) -> usize {
    write(&state::lock().launched.join("\n"), buffer, room)
}

/// Writes what the executable graphs were as they were made, one a line.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_graphs(buffer: *mut u8, room: usize) -> usize {
    write(&state::lock().graphs.said.join("\n"), buffer, room)
}

/// How often a function was called; without a name, all.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_calls(name: Text) -> u64 {
    let state = state::lock();
    match name.get() {
        Some(name) => state.calls(&name),
        None => state.calls_total,
    }
}

/// Refuses the `nth` call from now, of this function or, without a name, of any.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_fault(name: Text, nth: u64, code: u32) {
    state::lock().plan_fault(name.get(), nth, Code(code));
}

/// How many planned faults were met.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_faults_met() -> u64 {
    state::lock().faults_met
}

/// Nothing of a stream is executed any more, or again; 0 is all streams that there are.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_hold(stream: u64, held: u32) {
    let mut state = state::lock();
    for (handle, of) in &mut state.streams.live {
        if stream == 0 || stream == *handle {
            of.held = held != 0;
        }
    }
    drop(state);
    state::changed();
}

/// Kernels of this name do not begin any more, or again.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_hold_kernel(name: Text, held: u32) {
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

/// How many streams have come to a kernel of this name, and how often one was run.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_kernel(name: Text, come: *mut u64, run: *mut u64) {
    let state = state::lock();
    let name = name.get().unwrap_or_default();
    // SAFETY: the caller's promise: the places for the answers are its own.
    unsafe {
        come.write(state.streams.at_kernel(&name) as u64);
        run.write(state.kernels_run.get(&name).copied().unwrap_or(0));
    }
}

/// The `nth` operation from now that is executed breaks the GPU.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_break(nth: u64, code: u32) {
    let mut state = state::lock();
    state.break_at = Some((state.executed + nth.max(1), Code(code)));
}

/// Executes an operation, if there is one that may be.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_step() -> u32 {
    let mut state = state::lock();
    let done = gpu::step(&mut state);
    drop(state);
    state::changed();
    done.into()
}

/// How many operations were executed.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_executed() -> u64 {
    state::lock().executed
}

/// How much memory the GPU has.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_memory(bytes: u64) {
    let mut state = state::lock();
    state.memory.bytes = bytes.max(state.memory.used_most());
}

/// How many GPUs there are, before the first of them is opened.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_gpus(count: u32) {
    let mut state = state::lock();
    state
        .primaries
        .resize_with(count.max(1) as usize, Default::default);
}

/// May GPUs use each other's memory?
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_are_peers(are: u32) {
    state::lock().peers.possible = are != 0;
}

/// Are there memory operations of streams?
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_writes_values(there: u32) {
    state::lock().writes_values = there != 0;
}

/// Writes the priority of each stream that was made, in order, and answers how many there are.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_priorities(buffer: *mut i32, room: usize) -> usize {
    let state = state::lock();
    if !buffer.is_null() {
        let count = state.priorities.len().min(room);
        // SAFETY: the caller's promise: there is so much room.
        unsafe { std::ptr::copy_nonoverlapping(state.priorities.as_ptr(), buffer, count) };
    }
    state.priorities.len()
}
