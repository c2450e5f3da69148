//! Streams and events. A wait is for what the event remembers when it is called; an event that was never recorded
//! is waited for by nobody.

use std::collections::VecDeque;

use crate::call::ask;
use crate::calls::{Out, functions, waiting_functions};
use crate::clock::Clock;
use crate::code::Code;
use crate::state::{Event, State};
use crate::stream::{Moment, Operation, Stream};

/// Does not wait for the legacy default stream.
const NON_BLOCKING: u32 = 1;
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

/// The last moment of a stream; none if it was given nothing.
fn last(state: &mut State, call: &str, stream: u64) -> Result<Option<Moment>, Code> {
    let clock = state.known_stream(call, stream)?.clock.clone();
    let tick = clock.of(stream);
    Ok((tick > 0).then(|| Moment {
        stream,
        tick,
        clock: clock.into(),
    }))
}

functions! {
    cuStreamCreateWithPriority(stream: Out<u64>, flags: u32, _priority: i32) Context |state| {
        if flags != NON_BLOCKING {
            state.report("not modelled: a stream that waits for the default stream".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        let handle = state.handle();
        stream.put(handle)?;
        let number = state.stream_number();
        let made = Stream {
            number,
            queue: VecDeque::new(),
            clock: Clock::default(),
            held: false,
            destroyed: false,
        };
        state.streams.live.insert(handle, made);
        Ok(())
    };
    // What it was given is executed all the same.
    cuStreamDestroy_v2(stream: u64) Ending |state| {
        let of = state.known_stream("cuStreamDestroy_v2", stream)?;
        of.destroyed = true;
        if of.queue.is_empty() {
            state.streams.live.remove(&stream);
        }
        Ok(())
    };
    cuStreamWaitEvent(stream: u64, event: u64, flags: u32) Context |state| {
        let call = "cuStreamWaitEvent";
        state.known_stream(call, stream)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if let Some(moment) = known_event(state, call, event)?.moment.clone() {
            state.queue(call, stream, Operation::Wait(moment))?;
        }
        Ok(())
    };
    cuEventCreate(event: Out<u64>, flags: u32) Context |state| {
        if flags & !EVENT_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if flags & UNTIMED == 0 {
            state.report("not modelled: an event with a time".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        let handle = state.handle();
        event.put(handle)?;
        state.events.insert(handle, Event { moment: None });
        Ok(())
    };
    cuEventDestroy_v2(event: u64) Ending |state| {
        known_event(state, "cuEventDestroy_v2", event)?;
        state.events.remove(&event);
        Ok(())
    };
    cuEventRecord(event: u64, stream: u64) Context |state| {
        let call = "cuEventRecord";
        known_event(state, call, event)?;
        let moment = state.queue(call, stream, Operation::Record)?;
        known_event(state, call, event)?.moment = Some(moment);
        Ok(())
    };
    cuEventQuery(event: u64) Context |state| match known_event(state, "cuEventQuery", event)?.moment.clone() {
        Some(moment) => ask(state, &moment),
        None => Ok(()),
    };
}

waiting_functions! {
    cuStreamSynchronize(stream: u64) |state| last(state, "cuStreamSynchronize", stream);
    cuEventSynchronize(event: u64) |state| Ok(known_event(state, "cuEventSynchronize", event)?.moment.clone());
}
