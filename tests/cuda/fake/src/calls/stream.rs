//! The functions that create, destroy, query and wait for streams.

use std::collections::VecDeque;

use crate::call::query;
use crate::calls::capture::check_allowed;
use crate::calls::context::PRIORITY_GREATEST;
use crate::calls::{Out, functions};
use crate::clock::{Clock, Point};
use crate::code::Code;
use crate::state::State;
use crate::stream::Stream;

/// `CU_STREAM_NON_BLOCKING`: the stream does not synchronize with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// Returns the point of a stream's last operation for a query or a wait of the host, or `None` if the stream is unused.
fn last(state: &mut State, stream: u64) -> Result<Option<Point>, Code> {
    check_allowed(state)?;
    let clock = state.stream(stream)?.clock.clone();
    let tick = clock.of(stream);
    Ok((tick > 0).then(|| Point {
        stream,
        tick,
        clock: clock.into(),
    }))
}

/// Creates a stream in the current context.
fn create(state: &mut State, stream: &Out<u64>, flags: u32, priority: i32) -> Result<(), Code> {
    if flags != NON_BLOCKING {
        let report = "not modelled: a stream that synchronizes with the default stream";
        return Err(state.refuse(Code::NOT_SUPPORTED, report));
    }
    let handle = state.handle();
    stream.put(handle)?;
    let priority = priority.clamp(PRIORITY_GREATEST, 0);
    state.priorities.push(priority);
    let created = Stream {
        number: state.priorities.len() as u64,
        context: state.current,
        priority,
        queue: VecDeque::new(),
        clock: Clock::default(),
        held: false,
        destroyed: false,
        capture: None,
    };
    state.streams.live.insert(handle, created);
    Ok(())
}

functions! {
    cuStreamCreate(stream: Out<u64>, flags: u32) Context |state| create(state, &stream, flags, 0);
    cuStreamCreateWithPriority(stream: Out<u64>, flags: u32, priority: i32) Context |state| {
        create(state, &stream, flags, priority)
    };
    // The fake still executes the queued operations, as a driver does.
    cuStreamDestroy_v2(stream: u64) Ending |state| {
        let found = state.stream(stream)?;
        found.destroyed = true;
        if found.queue.is_empty() {
            state.streams.live.remove(&stream);
        }
        Ok(())
    };
    cuStreamQuery(stream: u64) Context |state| {
        let point = last(state, stream)?;
        query(state, point)
    };
    // The handles 0 to 2 are the default streams, which belong to the current context.
    cuStreamGetCtx(stream: u64, context: Out<u64>) Context |state| match stream {
        0..=2 => context.put(state.current),
        _ => context.put(state.stream(stream)?.context),
    };
    cuStreamSynchronize(stream: u64) Context |state| last(state, stream);
}
