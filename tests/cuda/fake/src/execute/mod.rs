//! The effect of each operation on memory, and its accesses.

mod graph;

use std::ops::Range;
use std::ptr::NonNull;

use crate::access::Step;
use crate::code::Code;
use crate::native::{Native, Span};
use crate::operation::{HostSource, Launch, Operation, Queued, Rows};
use crate::state::State;
use ptx::Kind;
use ptx::{Fault, Trap, Window};

/// Executes an operation.
///
/// # Errors
/// The code of a fault that breaks the GPU.
pub(crate) fn execute(state: &mut State, queued: Queued) -> Result<(), Code> {
    let Queued { step, operation } = queued;
    let step = &step;
    match operation {
        Operation::Allocate(range) => {
            state.record_access(step, Kind::Write, range);
            Ok(())
        }
        Operation::Free(range) => {
            state.record_access(step, Kind::Write, range.clone());
            state.memory.release(range.start);
            Ok(())
        }
        Operation::CopyIn { target, source } => copy_in(state, step, target, &source),
        Operation::CopyOut {
            target,
            source,
            pinned,
        } => copy_out(state, step, target, source, pinned),
        Operation::Copy { target, source } => {
            let bytes = gather(state, step, source)?;
            scatter(state, step, target, &bytes)
        }
        Operation::Fill { target, unit } => {
            for range in target.ranges() {
                let bytes = (range.end - range.start) as usize;
                let start = access_bytes(state, step, Kind::Write, range)?;
                for (at, byte) in (0..bytes).zip(unit.iter().cycle()) {
                    // SAFETY: `access_bytes` checked the range.
                    unsafe { start.add(at).write(*byte) };
                }
            }
            Ok(())
        }
        Operation::Launch(launch) => run(state, step, &launch),
        Operation::Native(native) => run_native(state, step, &native),
        Operation::Graph(graph) => graph::run(state, step, graph),
        Operation::Record(recorded) => {
            recorded.at_ns(state.time.now_ns());
            Ok(())
        }
        // A wait only delays the stream.
        Operation::Wait(_) => Ok(()),
    }
}

/// Checks and records an access. Returns a pointer to the bytes.
fn access_bytes(
    state: &mut State,
    step: &Step,
    kind: Kind,
    range: Range<u64>,
) -> Result<NonNull<u8>, Code> {
    match state.memory.at(&step.name, range.clone()) {
        Ok(start) => {
            state.record_access(step, kind, range);
            Ok(start)
        }
        Err(violation) => {
            state.report(violation.report);
            Err(violation.code)
        }
    }
}

/// Reads rows to a buffer.
fn gather(state: &mut State, step: &Step, rows: Rows) -> Result<Vec<u8>, Code> {
    let mut bytes = Vec::with_capacity((rows.width * rows.rows) as usize);
    for range in rows.ranges() {
        let len = (range.end - range.start) as usize;
        let start = access_bytes(state, step, Kind::Read, range)?;
        // SAFETY: `access_bytes` checked the range.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) });
    }
    Ok(bytes)
}

/// Writes a buffer to rows.
fn scatter(state: &mut State, step: &Step, rows: Rows, bytes: &[u8]) -> Result<(), Code> {
    let mut rest = bytes;
    for range in rows.ranges() {
        let len = ((range.end - range.start) as usize).min(rest.len());
        let (row, after) = rest.split_at(len);
        let start = access_bytes(state, step, Kind::Write, range)?;
        // SAFETY: `access_bytes` checked the range; the buffer is separate memory.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(row).cast(), len) };
        rest = after;
    }
    Ok(())
}

fn copy_in(state: &mut State, step: &Step, target: Rows, source: &HostSource) -> Result<(), Code> {
    match source {
        HostSource::Taken(bytes) => scatter(state, step, target, bytes),
        HostSource::Pinned { rows, was } => {
            state.memory.adjust_pending(rows.start, false);
            let bytes = gather(state, step, *rows)?;
            if was.as_ref().is_some_and(|was| bytes != *was) {
                state.report(format!(
                    "race: the pinned bytes at {:#x} that {} reads were changed after the call",
                    rows.start, step.name
                ));
            }
            scatter(state, step, target, &bytes)
        }
    }
}

fn copy_out(
    state: &mut State,
    step: &Step,
    target: Rows,
    source: Rows,
    pinned: bool,
) -> Result<(), Code> {
    let bytes = gather(state, step, source)?;
    if pinned {
        state.memory.finish_write(target.bounds());
        return scatter(state, step, target, &bytes);
    }
    // Pageable memory: the caller waits in the call.
    let mut rest = bytes.as_slice();
    for range in target.ranges() {
        let len = ((range.end - range.start) as usize).min(rest.len());
        let (row, after) = rest.split_at(len);
        // SAFETY: the caller passed this host memory, and waits in the call.
        unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), range.start as *mut u8, len) };
        rest = after;
    }
    Ok(())
}

/// Runs native code on the memory that it declared.
fn run_native(state: &mut State, step: &Step, native: &Native) -> Result<(), Code> {
    let mut pointers = |spans: &[Span], kind| {
        let spans = spans.iter().filter(|span| span.bytes > 0);
        let pointers =
            spans.map(|span| Ok(access_bytes(state, step, kind, span.range())?.as_ptr()));
        pointers.collect::<Result<Vec<*mut u8>, Code>>()
    };
    let reads = pointers(&native.reads, Kind::Read)?;
    let writes = pointers(&native.writes, Kind::Write)?;
    (native.run)(native.data, reads.as_ptr().cast(), writes.as_ptr());
    Ok(())
}

/// The memory that a kernel accesses. Its accesses are recorded when it has ended.
struct KernelMemory<'a> {
    state: &'a mut State,
    step: &'a Step,
    /// The GPU of the kernel, if there are several.
    checked_gpu: Option<usize>,
}

impl ptx::Global for KernelMemory<'_> {
    fn window(&mut self, address: u64, bytes: u64) -> Result<Window, Trap> {
        let range = address..address.saturating_add(bytes);
        if let Some(gpu) = self.checked_gpu
            && !self.state.may_reach(gpu, address)
        {
            let report = format!(
                "no peer access: {} accesses {bytes} bytes at {address:#x}, memory of another GPU that grants it no access",
                self.step.name
            );
            let fault = Fault::IllegalAddress;
            return Err(Trap {
                fault,
                message: report,
            });
        }
        let found = self.state.memory.window(&self.step.name, range);
        found.map_err(|violation| Trap {
            fault: Fault::IllegalAddress,
            message: violation.report,
        })
    }
}

fn run(state: &mut State, step: &Step, launch: &Launch) -> Result<(), Code> {
    match state.kernels_run.get_mut(&launch.kernel.name) {
        Some(count) => *count += 1,
        None => _ = state.kernels_run.insert(launch.kernel.name.clone(), 1),
    }
    let runs_in = state.streams.live.get(&step.actor);
    let gpu = runs_in.and_then(|stream| state.gpu_of(stream.context));
    let checked_gpu = gpu.filter(|_| state.primaries.len() > 1);
    let mut memory = KernelMemory {
        state,
        step,
        checked_gpu,
    };
    let launch = ptx::Launch {
        kernel: &launch.kernel,
        cubes: launch.cubes,
        threads: launch.threads,
        shared_bytes: launch.shared_bytes,
        parameters: &launch.parameters,
    };
    let outcome = ptx::run(&launch, &mut memory);
    for (ranges, kind) in outcome
        .accesses
        .into_iter()
        .zip([Kind::Read, Kind::Write, Kind::Atomic])
    {
        for range in ranges {
            state.record_access(step, kind, range);
        }
    }
    for race in outcome.races {
        state.report(race);
    }
    outcome.result.map_err(|trap| {
        state.report(trap.message);
        trap.fault.into()
    })
}
