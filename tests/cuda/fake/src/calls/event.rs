//! Events. A wait is for what the event remembers when it is called; an event that was never recorded is waited for by
//! nobody.

use crate::call::ask;
use crate::calls::{Out, functions, waiting_functions};
use crate::clock::Moment;
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
            "wrong handle: {call} is given {event:#x}, which is no event, or was destroyed"
        ));
    }
    state.events.get_mut(&event).ok_or(Code::INVALID_HANDLE)
}

/// What the host asks an event for.
fn moment(state: &mut State, call: &str, event: u64) -> Result<Option<Moment>, Code> {
    state.must_be_safe(call)?;
    if let Some((by, _)) = known_event(state, call, event)?.captured {
        let rule = "asks an event that was last recorded in a capture, where nothing is executed";
        return Err(state.break_capture(by, call, rule, Code::CAPTURED_EVENT));
    }
    let last = known_event(state, call, event)?.last.as_ref();
    Ok(last.map(|(moment, _)| moment.clone()))
}

fn record(state: &mut State, call: &str, event: u64, stream: u64) -> Result<(), Code> {
    let made_in = known_event(state, call, event)?.context;
    if state.known_stream(call, stream)?.context != made_in {
        let call = state.this_call(call);
        state.report(format!(
            "wrong context: {call} records an event of one context in a stream of another"
        ));
        return Err(Code::INVALID_HANDLE);
    }
    if state.is_captured(call, stream)? {
        let captured = state.known_stream(call, stream)?.capture.clone();
        let of = known_event(state, call, event)?;
        of.captured = captured.map(|captured| (captured.by, captured.tail));
        of.last = None;
        return Ok(());
    }
    let recorded = Recorded::default();
    let moment = state.queue(call, stream, Operation::Record(recorded.clone()))?;
    let of = known_event(state, call, event)?;
    (of.last, of.captured) = (Some((moment, recorded)), None);
    Ok(())
}

fn wait(state: &mut State, stream: u64, event: u64, flags: u32) -> Result<(), Code> {
    let call = "cuStreamWaitEvent";
    let is_captured = state.is_captured(call, stream)?;
    let of = known_event(state, call, event)?;
    let (captured, last) = (of.captured.clone(), of.last.clone());
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if let Some(captured) = captured {
        return state.join_capture(call, stream, captured);
    }
    if is_captured {
        let by = state.known_stream(call, stream)?.capture.as_ref();
        let by = by.map_or(0, |captured| captured.by);
        let rule =
            "makes a captured stream wait for an event that was recorded outside of its capture";
        return Err(state.break_capture(by, call, rule, Code::STREAM_CAPTURE_ISOLATION));
    }
    if let Some((moment, _)) = last {
        state.queue(call, stream, Operation::Wait(moment))?;
    }
    Ok(())
}

/// When an event was, or why that is not known.
fn time_ns(state: &mut State, call: &str, event: u64) -> Result<u64, Code> {
    let of = known_event(state, call, event)?;
    let (timed, last) = (of.timed, of.last.clone());
    let wrong = match (timed, &last) {
        (false, _) => "was made without a time",
        (true, None) => "was never recorded",
        (true, Some((moment, recorded))) => {
            return match state.streams.is_over(moment.stream, moment.tick) {
                true => Ok(recorded.ns()),
                false => Err(Code::NOT_READY),
            };
        }
    };
    let call = state.this_call(call);
    state.report(format!("no time: {call} is given an event that {wrong}"));
    Err(Code::INVALID_HANDLE)
}

/// Milliseconds from one event to another. Who asks learns nothing else by it.
fn elapsed(state: &mut State, call: &str, ms: &Out<f32>, [from, to]: [u64; 2]) -> Result<(), Code> {
    let contexts = [from, to].map(|event| known_event(state, call, event).map(|of| of.context));
    if contexts[0]? != contexts[1]? {
        let call = state.this_call(call);
        state.report(format!(
            "wrong context: {call} is given events of two contexts"
        ));
        return Err(Code::INVALID_HANDLE);
    }
    // What is wrong with either is said before what is not yet.
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
        let made = Event {
            context: state.current,
            timed: flags & UNTIMED == 0,
            last: None,
            captured: None,
        };
        state.events.insert(handle, made);
        Ok(())
    };
    cuEventDestroy_v2(event: u64) Ending |state| {
        known_event(state, "cuEventDestroy_v2", event)?;
        state.events.remove(&event);
        Ok(())
    };
    cuEventRecord(event: u64, stream: u64) Context |state| record(state, "cuEventRecord", event, stream);
    cuEventQuery(event: u64) Context |state| match moment(state, "cuEventQuery", event)? {
        Some(moment) => ask(state, &moment),
        None => Ok(()),
    };
    cuEventElapsedTime(ms: Out<f32>, from: u64, to: u64) Context |state| {
        elapsed(state, "cuEventElapsedTime", &ms, [from, to])
    };
    cuEventElapsedTime_v2(ms: Out<f32>, from: u64, to: u64) Context |state| {
        elapsed(state, "cuEventElapsedTime_v2", &ms, [from, to])
    };
    // An event of another context may be waited for.
    cuStreamWaitEvent(stream: u64, event: u64, flags: u32) Context |state| wait(state, stream, event, flags);
}

waiting_functions! {
    cuEventSynchronize(event: u64) |state| moment(state, "cuEventSynchronize", event);
}
