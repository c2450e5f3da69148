//! Operations in native code, for the doubles of libraries that run on the driver. The driver itself has no such call.

use crate::calls::{In, functions};
use crate::code::Code;
use crate::control::Text;
use crate::native::{Native, Ready, Run, Span};
use crate::operation::{Operation, Rows};
use crate::state::{self, State};

fn spans(state: &mut State, spans: &[Span]) -> Result<(), Code> {
    for span in spans {
        state.check_memory(Rows::line(span.start, span.bytes))?;
    }
    Ok(())
}

/// Returns the GPU that memory at this address belongs to, or -1.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_gpu_at(address: u64) -> i32 {
    let origin = state::lock().memory.origin(address);
    origin.map_or(-1, |origin| origin.gpu as i32)
}

functions! {
    /// Queues a call of `run` with `data` and pointers to the memory that it reads and writes. It may run once `ready`
    /// returns a number other than 0. Both are called with the lock of the fake, so they must not call the driver.
    fake_cuda_native(
        stream: u64, name: Text, reads: In<Span>, read_count: usize, writes: In<Span>, write_count: usize,
        ready: Option<Ready>, run: Option<Run>, data: u64,
    ) Context |state| {
        let run = run.ok_or(Code::INVALID_VALUE)?;
        let (reads, writes) = (reads.list(read_count)?, writes.list(write_count)?);
        spans(state, &reads)?;
        spans(state, &writes)?;
        let name = name.get().unwrap_or_default();
        let native = Native { name, reads, writes, ready, run, data };
        state.queue(stream, Operation::Native(native)).map(|_| ())
    };
}
