//! Copies. A copy from pageable memory reads the bytes during the call, and a copy to pageable memory waits. Pinned
//! memory is read and written when the copy is executed.

use crate::call::WaitTarget;
use crate::calls::{In, functions, waiting_functions};
use crate::code::Code;
use crate::operation::{HostSource, Operation, Rows};
use crate::pinned::host_bytes;
use crate::state::State;

/// `CU_MEMORYTYPE_HOST`
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`
const DEVICE: u32 = 2;

/// Checks that memory of a pool is copied in a stream of the current context, as documented.
fn check_current_context(
    state: &mut State,
    call: &str,
    rows: Rows,
    stream: u64,
) -> Result<(), Code> {
    let runs_in = state.known_stream(call, stream)?.context;
    let of_a_pool = state
        .memory
        .origin(rows.start)
        .is_some_and(|origin| origin.pool.is_some());
    if of_a_pool && runs_in != state.current {
        let call = state.this_call(call);
        state.report(format!(
            "invalid context: {call} copies memory of a pool in a stream of another context than the current one"
        ));
        return Err(Code::INVALID_CONTEXT);
    }
    Ok(())
}

fn copy_in(
    state: &mut State,
    call: &str,
    target: Rows,
    source: Rows,
    stream: u64,
) -> Result<(), Code> {
    check_current_context(state, call, target, stream)?;
    state.check_memory(call, target)?;
    let source = if source.bytes() > 0 && state.memory.is_pinned(source.start) {
        state.check_memory(call, source)?;
        state.memory.adjust_pending(source.start, true);
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
) -> Result<WaitTarget, Code> {
    check_current_context(state, call, source, stream)?;
    state.check_memory(call, source)?;
    let pinned = target.bytes() > 0 && state.memory.is_pinned(target.start);
    if pinned {
        state.check_memory(call, target)?;
        state.memory.expect_rows(target);
    }
    let copy = Operation::CopyOut {
        target,
        source,
        pinned,
    };
    let point = state.queue(call, stream, copy)?;
    Ok((!pinned).then_some(point))
}

pub(super) fn copy(
    state: &mut State,
    call: &str,
    target: Rows,
    source: Rows,
    stream: u64,
) -> Result<(), Code> {
    state.known_stream(call, stream)?;
    state.check_memory(call, target)?;
    state.check_memory(call, source)?;
    let (to, from) = (target.bounds(), source.bounds());
    if to.start < from.end && from.start < to.end {
        let call = state.this_call(call);
        state.report(format!("overlap: {call} copies from {from:x?} to {to:x?}"));
        return Err(Code::INVALID_VALUE);
    }
    state.queue(call, stream, Operation::Copy { target, source })?;
    Ok(())
}

/// One half of `CUDA_MEMCPY2D`: the source or the target.
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
    /// Returns the rows, and whether they are host memory.
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

fn copy_2d(state: &mut State, request: Copy2d, stream: u64) -> Result<WaitTarget, Code> {
    let call = "cuMemcpy2DAsync_v2";
    let sides = (
        request.source.rows(request.width_bytes, request.height),
        request.target.rows(request.width_bytes, request.height),
    );
    let (Some((source, from_host)), Some((target, to_host))) = sides else {
        let call = state.this_call(call);
        state.report(format!(
            "invalid copy: {call} has a pitch shorter than its rows, or a kind of memory that is not modelled"
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
            check_current_context(state, "cuMemcpyDtoDAsync_v2", Rows::line(address, bytes), stream)?;
        }
        copy(state, "cuMemcpyDtoDAsync_v2", Rows::line(target, bytes), Rows::line(source, bytes), stream)
    };
}

waiting_functions! {
    cuMemcpyDtoHAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) |state| {
        let bytes = bytes as u64;
        copy_out(state, "cuMemcpyDtoHAsync_v2", Rows::line(target, bytes), Rows::line(source, bytes), stream)
    };
    cuMemcpy2DAsync_v2(request: In<Copy2d>, stream: u64) |state| copy_2d(state, request.get()?, stream);
}
