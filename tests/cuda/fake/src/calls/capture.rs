//! Captures: which streams have one, and which calls it forbids. Of the work of a stream only records of events can be
//! captured, and the graph of a capture is empty.

use std::cell::Cell;

use crate::calls::{Out, functions};
use crate::capture::{Capture, GLOBAL, RELAXED};
use crate::code::Code;
use crate::state::State;

thread_local! {
    /// The mode of this thread.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Refuses an unsafe call if captures forbid it on this thread, and invalidates these. Of the calls that the driver counts as
/// unsafe, only queries and waits of the host are checked.
pub(super) fn check_allowed(state: &mut State) -> Result<(), Code> {
    let streams = state.streams.live.values_mut();
    let captures = streams.filter_map(|stream| stream.capture.as_mut());
    let mut allowed = Ok(());
    for capture in captures.filter(|capture| capture.forbids(MODE.get())) {
        capture.is_invalid = true;
        allowed = Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    allowed
}

fn begin(state: &mut State, stream: u64, mode: u32) -> Result<(), Code> {
    let of = state.stream(stream)?;
    if mode > RELAXED || of.capture.is_some() {
        return Err(Code::INVALID_VALUE);
    }
    of.capture = Some(Capture::new(mode));
    Ok(())
}

fn end(state: &mut State, stream: u64, graph: &Out<u64>) -> Result<(), Code> {
    let capture = state.stream(stream)?.capture.take();
    if capture.ok_or(Code::INVALID_VALUE)?.is_invalid {
        graph.put(0)?;
        return Err(Code::STREAM_CAPTURE_INVALIDATED);
    }
    let handle = state.handle();
    state.graphs.make_graph(handle);
    graph.put(handle)
}

functions! {
    cuStreamBeginCapture_v2(stream: u64, mode: u32) Context |state| begin(state, stream, mode);
    cuStreamEndCapture(stream: u64, graph: Out<u64>) Context |state| end(state, stream, &graph);
    cuStreamIsCapturing(stream: u64, status: Out<u32>) Context |state| {
        let capture = state.stream(stream)?.capture.as_ref();
        status.put(capture.map_or(0, |capture| 1 + u32::from(capture.is_invalid)))
    };
    cuThreadExchangeStreamCaptureMode(mode: Out<u32>) Context |_state| {
        let wanted = mode.get()?;
        if wanted > RELAXED {
            return Err(Code::INVALID_VALUE);
        }
        mode.put(MODE.replace(wanted))
    };
}
