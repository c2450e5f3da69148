//! What each operation does to memory, and what it touches by that.

mod graph;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::access::Step;
use crate::code::Code;
use crate::operation::{HostSource, Launch, Operation, Queued, Rows};
use crate::state::State;
use ptx::Kind;
use ptx::{Fault, Trap, Window};

/// Executes an operation. An error breaks the GPU.
pub(crate) fn execute(state: &mut State, queued: Queued) -> Result<(), Code> {
    let Queued { step, operation } = queued;
    let step = &step;
    match operation {
        Operation::Allocate(range) => {
            state.touch(step, Kind::Write, range);
            Ok(())
        }
        Operation::Free(range) => {
            state.touch(step, Kind::Write, range.clone());
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
                let start = place(state, step, Kind::Write, range)?;
                for (at, byte) in (0..bytes).zip(unit.iter().cycle()) {
                    // SAFETY: `place` vouches for the range.
                    unsafe { start.add(at).write(*byte) };
                }
            }
            Ok(())
        }
        Operation::Launch(launch) => run(state, step, &launch),
        Operation::Graph(graph) => graph::run(state, step, graph),
        Operation::WriteValue {
            address,
            bytes,
            value,
            releases,
        } => write_value(state, step, address..address + bytes, value, releases),
        Operation::Record(recorded) => {
            recorded.at_ns(state.time.now_ns());
            Ok(())
        }
        // Called by the thread of the GPU, which knows that it is no operation of the GPU's.
        Operation::Call { .. } | Operation::Wait(_) => Ok(()),
    }
}

/// Bytes that a step may touch now, and does.
fn place(
    state: &mut State,
    step: &Step,
    kind: Kind,
    range: Range<u64>,
) -> Result<NonNull<u8>, Code> {
    match state.memory.at(&step.name, range.clone()) {
        Ok(start) => {
            state.touch(step, kind, range);
            Ok(start)
        }
        Err(wrong) => {
            state.report(wrong.report);
            Err(wrong.code)
        }
    }
}

/// The bytes of some rows, one after the other.
fn gather(state: &mut State, step: &Step, rows: Rows) -> Result<Vec<u8>, Code> {
    let mut bytes = Vec::with_capacity((rows.width * rows.rows) as usize);
    for range in rows.ranges() {
        let len = (range.end - range.start) as usize;
        let start = place(state, step, Kind::Read, range)?;
        // SAFETY: `place` vouches for the range.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) });
    }
    Ok(bytes)
}

/// Puts bytes into rows.
fn scatter(state: &mut State, step: &Step, rows: Rows, bytes: &[u8]) -> Result<(), Code> {
    let mut rest = bytes;
    for range in rows.ranges() {
        let len = ((range.end - range.start) as usize).min(rest.len());
        let (row, after) = rest.split_at(len);
        let start = place(state, step, Kind::Write, range)?;
        // SAFETY: `place` vouches for the range; the bytes are a copy of our own.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(row).cast(), len) };
        rest = after;
    }
    Ok(())
}

fn copy_in(state: &mut State, step: &Step, target: Rows, source: &HostSource) -> Result<(), Code> {
    match source {
        HostSource::Taken(bytes) => scatter(state, step, target, bytes),
        HostSource::Pinned { rows, was } => {
            state.memory.pend(rows.start, false);
            let bytes = gather(state, step, *rows)?;
            if was.as_ref().is_some_and(|was| bytes != *was) {
                state.report(format!(
                    "race: the pinned bytes at {:#x} that {} reads were changed after its call",
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
        state.memory.written(target.bounds());
        return scatter(state, step, target, &bytes);
    }
    // Pageable: its owner waits in the call.
    let mut rest = bytes.as_slice();
    for range in target.ranges() {
        let len = ((range.end - range.start) as usize).min(rest.len());
        let (row, after) = rest.split_at(len);
        // SAFETY: memory of the host that the caller of the driver vouches for, and who waits meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), range.start as *mut u8, len) };
        rest = after;
    }
    Ok(())
}

/// One store, which the host may be polling for. The checker cannot see the host's load: once the value is in memory of the host's,
/// the host counts as knowing what it was ordered after, as if it had asked an event.
fn write_value(
    state: &mut State,
    step: &Step,
    word: Range<u64>,
    value: u64,
    releases: bool,
) -> Result<(), Code> {
    state.memory.written(word.clone());
    // Release pairs with the acquiring load of a host that polls; without the barrier nothing is promised.
    let order = match releases {
        true => Ordering::Release,
        false => Ordering::Relaxed,
    };
    let start = place(state, step, Kind::Write, word.clone())?;
    // SAFETY: `place` vouches for the word, and its alignment was looked at in the call. What else uses it while this
    // does is atomic loads of the host's.
    unsafe {
        match word.end - word.start {
            8 => AtomicU64::from_ptr(start.as_ptr().cast()).store(value, order),
            _ => AtomicU32::from_ptr(start.as_ptr().cast()).store(value as u32, order),
        }
    }
    if releases && state.memory.is_pinned(word.start) {
        state.host.join(&step.clock);
    }
    Ok(())
}

/// Memory as a kernel of one step sees it: what it touches is noted at its end.
struct Seen<'a> {
    state: &'a mut State,
    step: &'a Step,
    /// The context that it runs in, if there are several GPUs.
    among_several: Option<u64>,
}

impl ptx::Global for Seen<'_> {
    fn window(&mut self, address: u64, bytes: u64) -> Result<Window, Trap> {
        let range = address..address.saturating_add(bytes);
        if let Some(context) = self.among_several
            && !self.state.may_reach(context, address)
        {
            let said = format!(
                "no access: {} touches {bytes} bytes at {address:#x}, memory of another GPU that its context was not allowed to use",
                self.step.name
            );
            let fault = Fault::IllegalAddress;
            return Err(Trap { fault, said });
        }
        let found = self.state.memory.window(&self.step.name, range);
        found.map_err(|wrong| Trap {
            fault: Fault::IllegalAddress,
            said: wrong.report,
        })
    }
}

fn run(state: &mut State, step: &Step, launch: &Launch) -> Result<(), Code> {
    match state.kernels_run.get_mut(&launch.kernel.name) {
        Some(count) => *count += 1,
        None => _ = state.kernels_run.insert(launch.kernel.name.clone(), 1),
    }
    let runs_in = state.streams.live.get(&step.actor);
    let runs_in = runs_in.map(|stream| stream.context);
    let among_several = runs_in.filter(|_| state.primaries.len() > 1);
    let mut seen = Seen {
        state,
        step,
        among_several,
    };
    let launch = ptx::Launch {
        kernel: &launch.kernel,
        cubes: launch.cubes,
        threads: launch.threads,
        shared_bytes: launch.shared_bytes,
        parameters: &launch.parameters,
    };
    let ran = ptx::run(&launch, &mut seen);
    for (ranges, kind) in ran
        .touched
        .into_iter()
        .zip([Kind::Read, Kind::Write, Kind::Atomic])
    {
        for range in ranges {
            state.touch(step, kind, range);
        }
    }
    for race in ran.races {
        state.report(race);
    }
    ran.ended.map_err(|trap| {
        state.report(trap.said);
        trap.fault.into()
    })
}
