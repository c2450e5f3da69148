//! Copies. From pageable memory the bytes are taken in the call; to pageable memory the call waits. Pinned memory is
//! read and written when the copy is executed.

use crate::call::Awaited;
use crate::calls::{Given, functions, waiting_functions};
use crate::code::Code;
use crate::graph::{End, Work};
use crate::operation::{HostSource, Operation, Rows};
use crate::pinned::host_bytes;
use crate::state::State;

/// `CU_MEMORYTYPE_HOST`
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`
const DEVICE: u32 = 2;

/// A copy of a stream that is captured: what is of the host must be pinned, for it is used at each launch.
fn capture(
    state: &mut State,
    call: &str,
    target: End,
    source: End,
    stream: u64,
) -> Result<(), Code> {
    for end in [target, source] {
        if end.of_host && !state.memory.is_pinned(end.rows.start) {
            let why = "copies pageable memory, which is not modelled in a stream that is captured";
            return state.must_not_be_captured(call, stream, why);
        }
        state.must_be_there(call, end.rows)?;
    }
    state.capture(stream, Work::Copy { target, source });
    Ok(())
}

/// Memory of a pool is copied in a stream of the context that is current: so it is documented.
fn must_be_current(state: &mut State, call: &str, rows: Rows, stream: u64) -> Result<(), Code> {
    let runs_in = state.known_stream(call, stream)?.context;
    let of_a_pool = state
        .memory
        .home(rows.start)
        .is_some_and(|home| home.pool.is_some());
    if of_a_pool && runs_in != state.current {
        let call = state.this_call(call);
        state.report(format!(
            "wrong context: {call} copies memory of a pool in a stream of another context than the current one"
        ));
        return Err(Code::INVALID_CONTEXT);
    }
    Ok(())
}

/// Rows of the host's, or of the GPU's.
fn end(rows: Rows, of_host: bool) -> End {
    End { rows, of_host }
}

fn copy_in(
    state: &mut State,
    call: &str,
    target: Rows,
    source: Rows,
    stream: u64,
) -> Result<(), Code> {
    must_be_current(state, call, target, stream)?;
    if state.is_captured(call, stream)? {
        return capture(state, call, end(target, false), end(source, true), stream);
    }
    state.must_be_there(call, target)?;
    let source = if source.bytes() > 0 && state.memory.is_pinned(source.start) {
        state.must_be_there(call, source)?;
        state.memory.pend(source.start, true);
        HostSource::Pinned {
            rows: source,
            was: state.memory.pinned_bytes(source),
        }
    } else {
        HostSource::Taken(host_bytes(source))
    };
    state.queue(call, stream, Operation::CopyIn { target, source })?;
    Ok(())
}

fn copy_out(
    state: &mut State,
    call: &str,
    target: Rows,
    source: Rows,
    stream: u64,
) -> Result<Awaited, Code> {
    must_be_current(state, call, source, stream)?;
    if state.is_captured(call, stream)? {
        let (target, source) = (end(target, true), end(source, false));
        return capture(state, call, target, source, stream).map(|()| None);
    }
    state.must_be_there(call, source)?;
    let pinned = target.bytes() > 0 && state.memory.is_pinned(target.start);
    if pinned {
        state.must_be_there(call, target)?;
        state.memory.await_rows(target);
    }
    let copy = Operation::CopyOut {
        target,
        source,
        pinned,
    };
    let moment = state.queue(call, stream, copy)?;
    Ok((!pinned).then_some(moment))
}

pub(super) fn copy(
    state: &mut State,
    call: &str,
    target: Rows,
    source: Rows,
    stream: u64,
) -> Result<(), Code> {
    let is_captured = state.is_captured(call, stream)?;
    state.must_be_there(call, target)?;
    state.must_be_there(call, source)?;
    let (to, from) = (target.bounds(), source.bounds());
    if to.start < from.end && from.start < to.end {
        let call = state.this_call(call);
        state.report(format!("overlap: {call} copies from {from:x?} to {to:x?}"));
        return Err(Code::INVALID_VALUE);
    }
    if is_captured {
        return capture(state, call, end(target, false), end(source, false), stream);
    }
    state.queue(call, stream, Operation::Copy { target, source })?;
    Ok(())
}

/// `CUDA_MEMCPY2D`: one side of it is the second half.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Side {
    x_bytes: usize,
    y: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

impl Side {
    /// The rows of a host or a GPU, and whether it is the host's.
    fn rows(self, width: usize, height: usize) -> Option<(Rows, bool)> {
        let base = match self.kind {
            HOST => self.host,
            DEVICE => self.device,
            _ => return None,
        };
        let start = base + (self.y * self.pitch + self.x_bytes) as u64;
        let rows = Rows {
            start,
            pitch: self.pitch as u64,
            width: width as u64,
            rows: height as u64,
        };
        let fits = height <= 1 || self.pitch >= self.x_bytes + width;
        fits.then_some((rows, self.kind == HOST))
    }
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2d {
    source: Side,
    target: Side,
    width_bytes: usize,
    height: usize,
}

fn copy_2d(state: &mut State, asked: Copy2d, stream: u64) -> Result<Awaited, Code> {
    let call = "cuMemcpy2DAsync_v2";
    let sides = (
        asked.source.rows(asked.width_bytes, asked.height),
        asked.target.rows(asked.width_bytes, asked.height),
    );
    let (Some((source, from_host)), Some((target, to_host))) = sides else {
        let call = state.this_call(call);
        state.report(format!(
            "wrong copy: {call} has a pitch shorter than its rows, or memory of a kind that is not modelled"
        ));
        return Err(Code::INVALID_VALUE);
    };
    match (from_host, to_host) {
        (false, false) => copy(state, call, target, source, stream).map(|()| None),
        (true, false) => copy_in(state, call, target, source, stream).map(|()| None),
        (false, true) => copy_out(state, call, target, source, stream),
        (true, true) => {
            state.report(format!("not modelled: {call} from host to host"));
            Err(Code::NOT_SUPPORTED)
        }
    }
}

functions! {
    cuMemcpyHtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) Context |state| {
        let bytes = bytes as u64;
        copy_in(state, "cuMemcpyHtoDAsync_v2", Rows::line(target, bytes), Rows::line(source, bytes), stream)
    };
    cuMemcpyDtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) Context |state| {
        let bytes = bytes as u64;
        for address in [target, source] {
            must_be_current(state, "cuMemcpyDtoDAsync_v2", Rows::line(address, bytes), stream)?;
        }
        copy(state, "cuMemcpyDtoDAsync_v2", Rows::line(target, bytes), Rows::line(source, bytes), stream)
    };
}

waiting_functions! {
    cuMemcpyDtoHAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) |state| {
        let bytes = bytes as u64;
        copy_out(state, "cuMemcpyDtoHAsync_v2", Rows::line(target, bytes), Rows::line(source, bytes), stream)
    };
    cuMemcpy2DAsync_v2(asked: Given<Copy2d>, stream: u64) |state| copy_2d(state, asked.get()?, stream);
}
