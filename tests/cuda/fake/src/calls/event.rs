//! Events. A wait is for the last record at the time of the call; a wait for an event that was never recorded does
//! nothing.

use crate::call::query;
use crate::calls::capture::check_allowed;
use crate::calls::{Out, functions};
use crate::clock::Point;
use crate::code::Code;
use crate::event::{Event, Recorded};
use crate::operation::Operation;
use crate::state::State;

/// `CU_EVENT_DISABLE_TIMING`
const UNTIMED: u32 = 2;
/// Blocking, untimed, between processes.
const EVENT_FLAGS: u32 = 1 | 2 | 4;

/// Returns the point of an event, or `None` if it was never recorded.
fn point(state: &mut State, event: u64) -> Result<Option<Point>, Code> {
    let last = state.event(event)?.last.as_ref();
    Ok(last.map(|(point, _)| point.clone()))
}

/// As `point`, for a query or a wait of the host.
fn asked(state: &mut State, event: u64) -> Result<Option<Point>, Code> {
    check_allowed(state)?;
    match state.event(event)?.captured {
        true => Err(Code::CAPTURED_EVENT),
        false => point(state, event),
    }
}

fn record(state: &mut State, event: u64, stream: u64) -> Result<(), Code> {
    let created_in = state.event(event)?.context;
    if state.stream(stream)?.context != created_in {
        let call = state.this_call();
        let report = format!(
            "invalid context: {call} records an event of one context in a stream of another"
        );
        return Err(state.refuse(Code::INVALID_HANDLE, report));
    }
    let captured = state.stream(stream)?.capture.is_some();
    state.event(event)?.captured = captured;
    if captured {
        return Ok(());
    }
    let recorded = Recorded::default();
    let point = state.queue(stream, Operation::Record(recorded.clone()))?;
    state.event(event)?.last = Some((point, recorded));
    Ok(())
}

fn wait(state: &mut State, stream: u64, event: u64, flags: u32) -> Result<(), Code> {
    state.stream(stream)?;
    let point = point(state, event)?;
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if state.event(event)?.captured {
        let report = "not modelled: a wait for an event of a capture";
        return Err(state.refuse(Code::NOT_SUPPORTED, report));
    }
    if let Some(point) = point {
        state.queue(stream, Operation::Wait(point))?;
    }
    Ok(())
}

/// Returns the time of an event.
fn time_ns(state: &mut State, event: u64) -> Result<u64, Code> {
    let of = state.event(event)?;
    let error = match (of.timed, of.last.clone()) {
        (false, _) => "was created without timing",
        (true, None) => "was never recorded",
        (true, Some((point, recorded))) => {
            return match state.streams.is_complete(point.stream, point.tick) {
                true => Ok(recorded.ns()),
                false => Err(Code::NOT_READY),
            };
        }
    };
    let call = state.this_call();
    let report = format!("no timing: {call} receives an event that {error}");
    Err(state.refuse(Code::INVALID_HANDLE, report))
}

/// Returns the milliseconds from one event to another. The host's clock does not join the events.
fn elapsed(state: &mut State, ms: &Out<f32>, events: [u64; 2]) -> Result<(), Code> {
    let contexts = events.map(|event| state.event(event).map(|of| of.context));
    if contexts[0]? != contexts[1]? {
        let call = state.this_call();
        let report = format!("invalid context: {call} receives events of two contexts");
        return Err(state.refuse(Code::INVALID_HANDLE, report));
    }
    // An invalid event takes precedence over an incomplete one.
    let times = events.map(|event| time_ns(state, event));
    if times.contains(&Err(Code::INVALID_HANDLE)) {
        return Err(Code::INVALID_HANDLE);
    }
    let ns = times[1]?.cast_signed() - times[0]?.cast_signed();
    ms.put((ns as f64 / 1e6) as f32)
}

functions! {
    cuEventCreate(event: Out<u64>, flags: u32) Context |state| {
        if flags & !EVENT_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (handle, context) = (state.handle(), state.current);
        event.put(handle)?;
        state.events.insert(handle, Event { context, timed: flags & UNTIMED == 0, last: None, captured: false });
        Ok(())
    };
    cuEventDestroy_v2(event: u64) Ending |state| {
        state.event(event)?;
        state.events.remove(&event);
        Ok(())
    };
    cuEventRecord(event: u64, stream: u64) Context |state| record(state, event, stream);
    cuEventQuery(event: u64) Context |state| {
        let point = asked(state, event)?;
        query(state, point)
    };
    cuEventElapsedTime(ms: Out<f32>, from: u64, to: u64) Context |state| elapsed(state, &ms, [from, to]);
    // A stream may wait for an event of another context.
    cuStreamWaitEvent(stream: u64, event: u64, flags: u32) Context |state| wait(state, stream, event, flags);
    cuEventSynchronize(event: u64) Context |state| asked(state, event);
}
