//! Begins, ends and queries captures.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::graph::{Capture, Mode, StreamCapture};
use crate::state::State;

/// `CUstreamCaptureStatus`
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

fn begin(state: &mut State, stream: u64, mode: u32) -> Result<(), Code> {
    let call = "cuStreamBeginCapture_v2";
    let mode = Mode::of(mode).ok_or(Code::INVALID_VALUE)?;
    if state.known_stream(call, stream)?.capture.is_some() {
        let call = state.this_call(call);
        state.report(format!(
            "invalid capture: {call} receives a stream that is captured already"
        ));
        return Err(Code::ILLEGAL_STATE);
    }
    let by = state.handle();
    let graph = state.handle();
    state.graphs.make_graph(graph, true);
    let capture = Capture {
        graph,
        origin: stream,
        mode,
        thread: state.caller,
        broken: false,
    };
    state.graphs.captures.insert(by, capture);
    state.known_stream(call, stream)?.capture = Some(StreamCapture::new(by, Vec::new()));
    Ok(())
}

fn end(state: &mut State, stream: u64, graph: &Out<u64>) -> Result<(), Code> {
    let call = "cuStreamEndCapture";
    graph.put(0)?;
    let by = state
        .known_stream(call, stream)?
        .capture
        .as_ref()
        .map(|captured| captured.capture);
    let of = by.and_then(|by| state.graphs.captures.get(&by));
    let error = match of {
        None => Some((
            "ends the capture of a stream that is not captured",
            Code::ILLEGAL_STATE,
        )),
        Some(of) if of.origin != stream => Some((
            "ends a capture in another stream than it began in",
            Code::STREAM_CAPTURE_UNMATCHED,
        )),
        Some(of) if of.mode != Mode::Relaxed && of.thread != state.caller => Some((
            "ends a capture on another thread than it began on",
            Code::STREAM_CAPTURE_WRONG_THREAD,
        )),
        Some(_) => None,
    };
    if let Some((error, code)) = error {
        let call = state.this_call(call);
        state.report(format!("invalid capture: {call} {error}"));
        return Err(code);
    }
    let Some((capture, joined)) = by.and_then(|by| state.end_capture(by)) else {
        return Err(Code::ILLEGAL_STATE);
    };
    if capture.broken || !joined || state.meets_fault {
        state.graphs.end_graph(capture.graph);
    }
    if capture.broken {
        return Err(Code::STREAM_CAPTURE_INVALIDATED);
    }
    if !joined {
        let call = state.this_call(call);
        state.report(format!(
            "capture invalidated: {call} ends a capture with a stream that was not joined again"
        ));
        return Err(Code::STREAM_CAPTURE_UNJOINED);
    }
    match state.meets_fault {
        true => Ok(()),
        false => graph.put(capture.graph),
    }
}

/// Returns the capture status of a stream, and its active capture.
fn status(state: &mut State, call: &str, stream: u64) -> Result<(u32, Option<u64>), Code> {
    let captured = state.known_stream(call, stream)?.capture.as_ref();
    let by = captured.map(|captured| captured.capture);
    let capture = by.and_then(|by| state.graphs.captures.get(&by));
    Ok(match capture {
        None => (NONE, None),
        Some(capture) if capture.broken => (INVALIDATED, None),
        Some(_) => (ACTIVE, by),
    })
}

/// The out pointers of a capture query; most of them may be null.
struct Wanted {
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<u64>,
    nodes: Out<u64>,
    edges: Out<u64>,
    count: Out<usize>,
}

/// Writes the state of a capture. The lists are valid until the next operation of the stream.
fn info(state: &mut State, call: &str, stream: u64, wanted: &Wanted) -> Result<(), Code> {
    let (status, by) = status(state, call, stream)?;
    wanted.status.put(status)?;
    let Some(by) = by else {
        return Ok(());
    };
    let graph = state.graphs.captures[&by].graph;
    let captured = state.known_stream(call, stream)?.capture.as_ref();
    let (nodes, edges) = captured.map_or((&[][..], &[][..]), |captured| {
        (&captured.tail[..], &captured.edges[..])
    });
    for (place, value) in [
        (&wanted.id, by),
        (&wanted.graph, graph),
        (&wanted.nodes, nodes.as_ptr() as u64),
        (&wanted.edges, edges.as_ptr() as u64),
    ] {
        if place.is_requested() {
            place.put(value)?;
        }
    }
    match wanted.count.is_requested() {
        true => wanted.count.put(nodes.len()),
        false => Ok(()),
    }
}

functions! {
    cuStreamBeginCapture_v2(stream: u64, mode: u32) Context |state| begin(state, stream, mode);
    // With a fault, the capture ends without a graph.
    cuStreamEndCapture(stream: u64, graph: Out<u64>) Ending |state| end(state, stream, &graph);
    cuStreamIsCapturing(stream: u64, answer: Out<u32>) Context |state| {
        answer.put(status(state, "cuStreamIsCapturing", stream)?.0)
    };
    cuStreamGetCaptureInfo_v2(
        stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, count: Out<usize>,
    ) Context |state| {
        let edges = Out(std::ptr::null_mut());
        let wanted = Wanted { status, id, graph, nodes, edges, count };
        info(state, "cuStreamGetCaptureInfo_v2", stream, &wanted)
    };
    cuStreamGetCaptureInfo_v3(
        stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>, nodes: Out<u64>, edges: Out<u64>,
        count: Out<usize>,
    ) Context |state| {
        let wanted = Wanted { status, id, graph, nodes, edges, count };
        info(state, "cuStreamGetCaptureInfo_v3", stream, &wanted)
    };
    cuThreadExchangeStreamCaptureMode(mode: Out<u32>) Init |state| {
        let new = Mode::of(mode.get()?).ok_or(Code::INVALID_VALUE)?;
        let old = state.graphs.modes.insert(state.caller, new);
        mode.put(old.unwrap_or(Mode::Global) as u32)
    };
}
