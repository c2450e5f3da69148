//! Events. A wait is for the last record at the time of the call; a wait for an event that was never recorded does
//! nothing.

use crate::call::query;
use crate::calls::{Out, functions, waiting_functions};
use crate::clock::Point;
use crate::code::Code;
use crate::event::{Event, Recorded};
use crate::operation::Operation;
use crate::state::State;

/// `CU_EVENT_DISABLE_TIMING`
const UNTIMED: u32 = 2;
/// Blocking, untimed, between processes.
const EVENT_FLAGS: u32 = 1 | 2 | 4;

fn known_event<'a>(state: &'a mut State, call: &str, event: u64) -> Result<&'a mut Event, Code> {
    if !state.events.contains_key(&event) {
        state.report(format!(
            "invalid handle: {call} receives {event:#x}, which is not an event, or was destroyed"
        ));
    }
    state.events.get_mut(&event).ok_or(Code::INVALID_HANDLE)
}

/// Returns the point of an event for a query or a wait of the host.
fn point(state: &mut State, call: &str, event: u64) -> Result<Option<Point>, Code> {
    let last = known_event(state, call, event)?.last.as_ref();
    Ok(last.map(|(point, _)| point.clone()))
}

fn record(state: &mut State, call: &str, event: u64, stream: u64) -> Result<(), Code> {
    let created_in = known_event(state, call, event)?.context;
    if state.known_stream(call, stream)?.context != created_in {
        let call = state.this_call(call);
        state.report(format!(
            "invalid context: {call} records an event of one context in a stream of another"
        ));
        return Err(Code::INVALID_HANDLE);
    }
    let recorded = Recorded::default();
    let point = state.queue(call, stream, Operation::Record(recorded.clone()))?;
    known_event(state, call, event)?.last = Some((point, recorded));
    Ok(())
}

fn wait(state: &mut State, stream: u64, event: u64, flags: u32) -> Result<(), Code> {
    let call = "cuStreamWaitEvent";
    state.known_stream(call, stream)?;
    let last = known_event(state, call, event)?.last.clone();
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if let Some((point, _)) = last {
        state.queue(call, stream, Operation::Wait(point))?;
    }
    Ok(())
}

/// Returns the time of an event.
fn time_ns(state: &mut State, call: &str, event: u64) -> Result<u64, Code> {
    let of = known_event(state, call, event)?;
    let (timed, last) = (of.timed, of.last.clone());
    let error = match (timed, &last) {
        (false, _) => "was created without timing",
        (true, None) => "was never recorded",
        (true, Some((point, recorded))) => {
            return match state.streams.is_complete(point.stream, point.tick) {
                true => Ok(recorded.ns()),
                false => Err(Code::NOT_READY),
            };
        }
    };
    let call = state.this_call(call);
    state.report(format!("no timing: {call} receives an event that {error}"));
    Err(Code::INVALID_HANDLE)
}

/// Returns the milliseconds from one event to another. The host's clock does not join the events.
fn elapsed(state: &mut State, ms: &Out<f32>, [from, to]: [u64; 2]) -> Result<(), Code> {
    let call = "cuEventElapsedTime";
    let contexts = [from, to].map(|event| known_event(state, call, event).map(|of| of.context));
    if contexts[0]? != contexts[1]? {
        let call = state.this_call(call);
        state.report(format!(
            "invalid context: {call} receives events of two contexts"
        ));
        return Err(Code::INVALID_HANDLE);
    }
    // An invalid event takes precedence over an incomplete one.
    let times = [from, to].map(|event| time_ns(state, call, event));
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
        let handle = state.handle();
        event.put(handle)?;
        let created = Event {
            context: state.current,
            timed: flags & UNTIMED == 0,
            last: None,
        };
        state.events.insert(handle, created);
        Ok(())
    };
    cuEventDestroy_v2(event: u64) Ending |state| {
        known_event(state, "cuEventDestroy_v2", event)?;
        state.events.remove(&event);
        Ok(())
    };
    cuEventRecord(event: u64, stream: u64) Context |state| record(state, "cuEventRecord", event, stream);
    cuEventQuery(event: u64) Context |state| match point(state, "cuEventQuery", event)? {
        Some(point) => query(state, &point),
        None => Ok(()),
    };
    cuEventElapsedTime(ms: Out<f32>, from: u64, to: u64) Context |state| {
        elapsed(state, &ms, [from, to])
    };
    // A stream may wait for an event of another context.
    cuStreamWaitEvent(stream: u64, event: u64, flags: u32) Context |state| wait(state, stream, event, flags);
}

waiting_functions! {
    cuEventSynchronize(event: u64) |state| point(state, "cuEventSynchronize", event);
}
