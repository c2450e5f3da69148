//! Copies. A copy from pageable memory reads the bytes during the call, and a copy to pageable memory waits. Pinned
//! memory is read and written when the copy is executed.

use crate::calls::{In, functions};
use crate::clock::Point;
use crate::code::Code;
use crate::operation::{HostSource, Operation, Rows};
use crate::pinned::host_bytes;
use crate::state::State;

/// `CU_MEMORYTYPE_HOST`
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`
pub(super) const DEVICE: u32 = 2;

/// Checks that memory of a pool is copied in a stream of the current context, as documented.
fn check_current_context(state: &mut State, rows: Rows, stream: u64) -> Result<(), Code> {
    let runs_in = state.stream(stream)?.context;
    let origin = state.memory.origin(rows.start);
    let of_a_pool = origin.is_some_and(|origin| origin.pool.is_some());
    if of_a_pool && runs_in != state.current {
        let call = state.this_call();
        let report = format!(
            "invalid context: {call} copies memory of a pool in a stream of another context than the current one"
        );
        return Err(state.refuse(Code::INVALID_CONTEXT, report));
    }
    Ok(())
}

fn copy_in(state: &mut State, target: Rows, source: Rows, stream: u64) -> Result<(), Code> {
    check_current_context(state, target, stream)?;
    state.check_memory(target)?;
    let source = if source.bytes() > 0 && state.memory.is_pinned(source.start) {
        state.check_memory(source)?;
        state.memory.adjust_pending(source.start, true);
        HostSource::Pinned {
            rows: source,
            was: state.memory.pinned_bytes(source),
        }
    } else {
        HostSource::Taken(host_bytes(source))
    };
    state.queue(stream, Operation::CopyIn { target, source })?;
    Ok(())
}

/// Returns the point that the call waits for, if the target is pageable.
fn copy_out(
    state: &mut State,
    target: Rows,
    source: Rows,
    stream: u64,
) -> Result<Option<Point>, Code> {
    check_current_context(state, source, stream)?;
    state.check_memory(source)?;
    let pinned = target.bytes() > 0 && state.memory.is_pinned(target.start);
    if pinned {
        state.check_memory(target)?;
        state.memory.expect_rows(target);
    }
    let copy = Operation::CopyOut {
        target,
        source,
        pinned,
    };
    let point = state.queue(stream, copy)?;
    Ok((!pinned).then_some(point))
}

pub(super) fn copy(state: &mut State, to: Rows, from: Rows, stream: u64) -> Result<(), Code> {
    state.stream(stream)?;
    state.check_memory(to)?;
    state.check_memory(from)?;
    let (target, source) = (to.bounds(), from.bounds());
    if target.start < source.end && source.start < target.end {
        let call = state.this_call();
        let report = format!("overlap: {call} copies from {source:x?} to {target:x?}");
        return Err(state.refuse(Code::INVALID_VALUE, report));
    }
    let copy = Operation::Copy {
        target: to,
        source: from,
    };
    state.queue(stream, copy)?;
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
        let rows = Rows {
            start: base + (self.y * self.pitch + self.x_bytes) as u64,
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

fn copy_2d(state: &mut State, request: Copy2d, stream: u64) -> Result<Option<Point>, Code> {
    let sides = [request.source, request.target];
    let sides = sides.map(|side| side.rows(request.width_bytes, request.height));
    let [Some((source, from_host)), Some((target, to_host))] = sides else {
        let call = state.this_call();
        let report = format!(
            "invalid copy: {call} has a pitch shorter than its rows, or a kind of memory that is not modelled"
        );
        return Err(state.refuse(Code::INVALID_VALUE, report));
    };
    match (from_host, to_host) {
        (false, false) => copy(state, target, source, stream).map(|()| None),
        (true, false) => copy_in(state, target, source, stream).map(|()| None),
        (false, true) => copy_out(state, target, source, stream),
        (true, true) => {
            let report = format!("not modelled: {} from host to host", state.call);
            Err(state.refuse(Code::NOT_SUPPORTED, report))
        }
    }
}

functions! {
    cuMemcpyHtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) Context |state| {
        copy_in(state, Rows::line(target, bytes as u64), Rows::line(source, bytes as u64), stream)
    };
    cuMemcpyDtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) Context |state| {
        let [target, source] = [target, source].map(|address| Rows::line(address, bytes as u64));
        check_current_context(state, target, stream)?;
        check_current_context(state, source, stream)?;
        copy(state, target, source, stream)
    };
    cuMemcpyDtoHAsync_v2(target: u64, source: u64, bytes: usize, stream: u64) Context |state| {
        copy_out(state, Rows::line(target, bytes as u64), Rows::line(source, bytes as u64), stream)
    };
    cuMemcpy2DAsync_v2(request: In<Copy2d>, stream: u64) Context |state| copy_2d(state, request.get()?, stream);
}
