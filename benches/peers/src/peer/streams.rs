//! The peer's `MultiStream` and `SchedulerMultiStream`, driven directly with no-op backends.

use std::sync::Arc;

use cubecl_common::device::{DeviceId, ServiceId};
use cubecl_environment::stream::StreamId;
use cubecl_server::logging::ServerLogger;
use cubecl_server::memory_management::{ErrorGraph, FailureId};
use cubecl_server::server::{BufferBinding, Handle, ServerError};
use cubecl_server::stream::scheduler::{
    SchedulerMultiStream, SchedulerMultiStreamOptions, SchedulerStrategy, SchedulerStreamBackend,
};
use cubecl_server::stream::{EventStreamBackend, MultiStream, StreamFactory, StreamMemory};

use crate::measures::{Effort, Figures, timed};

/// The number of streams that each type keeps before ids share a slot.
const MAX_STREAMS: u8 = 128;

fn stream(value: u64) -> StreamId {
    StreamId { value }
}

/// Returns a binding of 64 bytes that were allocated on `origin`.
fn binding(origin: StreamId) -> BufferBinding {
    let service = ServiceId::of::<()>(DeviceId {
        type_id: 9,
        index_id: 0,
    });
    Handle::new(service, origin, 64).binding()
}

/// A stream without memory.
#[derive(Debug)]
struct NoopStream;

impl StreamMemory for NoopStream {
    fn failure(&self, _: &BufferBinding) -> Option<FailureId> {
        None
    }
    fn taint(&mut self, _: &BufferBinding, _: FailureId, _: &mut ErrorGraph) {}
    fn written(&mut self, _: &BufferBinding, _: &mut ErrorGraph) {}
}

/// Events, all of which have completed.
struct Events;

impl EventStreamBackend for Events {
    type Stream = NoopStream;
    type Event = ();

    fn create_stream(&self) -> Result<NoopStream, ServerError> {
        Ok(NoopStream)
    }

    fn handle_cursor(_: &NoopStream, _: &BufferBinding) -> u64 {
        0
    }

    fn flush(_: &mut NoopStream, _: &mut ErrorGraph) {}

    fn wait_event(_: &mut NoopStream, (): ()) -> Result<(), ServerError> {
        Ok(())
    }

    fn wait_event_sync((): ()) -> Result<(), ServerError> {
        Ok(())
    }
}

/// Measures the time of resolving a task's `OWN` bindings of its own stream and its `OTHERS` of a stream that has already
/// synced.
pub(crate) fn hazards<const OWN: usize, const OTHERS: usize>(effort: Effort) -> Figures {
    let logger = Arc::new(ServerLogger::default());
    let mut streams = MultiStream::new(logger, Events, MAX_STREAMS);
    let (consumer, producer) = (stream(1), stream(2));
    let own = (0..OWN).map(|_| binding(consumer));
    let bindings: Vec<_> = own.chain((0..OTHERS).map(|_| binding(producer))).collect();
    drop(
        streams
            .resolve(producer, [].iter())
            .expect("the peer resolves"),
    );
    let ns = timed(effort, |count| {
        for _ in 0..count {
            drop(
                streams
                    .resolve(consumer, bindings.iter())
                    .expect("the peer resolves"),
            );
        }
    });
    vec![("ns", ns)]
}

impl StreamFactory for NoopStream {
    type Stream = NoopStream;

    fn create(&mut self) -> Result<NoopStream, ServerError> {
        Ok(NoopStream)
    }
}

/// The scheduler's tasks do nothing.
struct Scheduled(NoopStream);

impl SchedulerStreamBackend for Scheduled {
    type Task = ();
    type Stream = NoopStream;
    type Factory = NoopStream;

    fn enqueue((): (), stream: &mut NoopStream, _: &mut ErrorGraph) {
        std::hint::black_box(stream);
    }

    fn flush(_: &mut NoopStream, _: &mut ErrorGraph) {}

    fn factory(&mut self) -> &mut NoopStream {
        &mut self.0
    }
}

/// Measures the scheduler alone, per task of one stream with three bindings of that stream. The
/// scheduler executes whenever `BATCH` tasks are registered.
pub(crate) fn scheduler_per_task<const BATCH: usize>(effort: Effort) -> Figures {
    let options = SchedulerMultiStreamOptions {
        max_streams: MAX_STREAMS,
        max_tasks: BATCH,
        strategy: SchedulerStrategy::Interleave,
    };
    let logger = Arc::new(ServerLogger::default());
    let mut scheduler = SchedulerMultiStream::new(logger, Scheduled(NoopStream), options);
    let own = stream(1);
    let origins = [own; 3];
    let ns = timed(effort, |count| {
        for _ in 0..count {
            scheduler.register(own, (), &origins);
        }
    });
    vec![("ns", ns)]
}
