//! The peer's `MultiStream` and `SchedulerMultiStream`, driven directly with no-op backends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use cubecl_common::device::{DeviceId, ServiceId};
use cubecl_environment::stream::StreamId;
use cubecl_server::logging::ServerLogger;
use cubecl_server::memory_management::{ErrorGraph, FailureId};
use cubecl_server::server::{BufferBinding, Handle, ServerError};
use cubecl_server::stream::scheduler::{
    SchedulerMultiStream, SchedulerMultiStreamOptions, SchedulerStrategy, SchedulerStreamBackend,
};
use cubecl_server::stream::{EventStreamBackend, MultiStream, StreamFactory, StreamMemory};

use crate::measures::{Effort, Figures, HOLD_LIMIT, STALE_TRIALS, timed};

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

static RECORDED: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);

/// A latch: threads wait until it opens; once open, it stays open.
#[derive(Debug, Default)]
struct Door {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self
                .opened
                .wait(open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// All events are one latch: open from the start, or closed until the measurement ends.
struct Events(Arc<Door>);

#[derive(Debug)]
struct EventStream(Arc<Door>);

impl StreamMemory for EventStream {
    fn failure(&self, _: &BufferBinding) -> Option<FailureId> {
        None
    }
    fn taint(&mut self, _: &BufferBinding, _: FailureId, _: &mut ErrorGraph) {}
    fn written(&mut self, _: &BufferBinding, _: &mut ErrorGraph) {}
}

impl EventStreamBackend for Events {
    type Stream = EventStream;
    type Event = Arc<Door>;

    fn create_stream(&self) -> Result<EventStream, ServerError> {
        Ok(EventStream(self.0.clone()))
    }

    fn handle_cursor(_: &EventStream, _: &BufferBinding) -> u64 {
        0
    }

    fn flush(stream: &mut EventStream, _: &mut ErrorGraph) -> Arc<Door> {
        RECORDED.fetch_add(1, Ordering::Relaxed);
        stream.0.clone()
    }

    fn wait_event(_: &mut EventStream, _: Arc<Door>) -> Result<(), ServerError> {
        WAITED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn wait_event_sync(event: Arc<Door>) -> Result<(), ServerError> {
        event.pass();
        Ok(())
    }
}

fn multi_stream(door: &Arc<Door>) -> MultiStream<Events> {
    MultiStream::new(
        Arc::new(ServerLogger::default()),
        Events(door.clone()),
        MAX_STREAMS,
    )
}

/// Measures resolving a task's `OWN` bindings of its own stream and its `OTHERS` of a stream that has
/// already synced: time, events recorded and waited, each per task.
pub(crate) fn hazards<const OWN: usize, const OTHERS: usize>(effort: Effort) -> Figures {
    let door = Arc::new(Door::default());
    door.open();
    let mut streams = multi_stream(&door);
    let (consumer, producer) = (stream(1), stream(2));
    let own = (0..OWN).map(|_| binding(consumer));
    let bindings: Vec<_> = own.chain((0..OTHERS).map(|_| binding(producer))).collect();
    drop(
        streams
            .resolve(producer, [].iter())
            .expect("the peer resolves"),
    );
    let mut tasks = 0_u64;
    let ns = timed(effort, |count| {
        for _ in 0..count {
            drop(
                streams
                    .resolve(consumer, bindings.iter())
                    .expect("the peer resolves"),
            );
        }
        tasks += count;
    });
    let per_task = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64 / tasks as f64;
    vec![
        ("ns", ns),
        ("recorded", per_task(&RECORDED)),
        ("waited", per_task(&WAITED)),
    ]
}

/// Counts the cross-stream launches that are accepted while the event that they wait for has not completed.
pub(crate) fn accepted_while_held() -> Figures {
    let door = Arc::new(Door::default());
    let mut streams = multi_stream(&door);
    let (consumer, producer) = (stream(1), stream(2));
    drop(
        streams
            .resolve(producer, [].iter())
            .expect("the peer resolves"),
    );
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = accepted.clone();
    std::thread::spawn(move || {
        let bindings = [binding(producer)];
        for _ in 0..HOLD_LIMIT {
            drop(
                streams
                    .resolve(consumer, bindings.iter())
                    .expect("the peer resolves"),
            );
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let count = crate::measures::settled(|| accepted.load(Ordering::Relaxed));
    // The thread stays blocked in the peer; the process ends without it.
    vec![("launches", count as f64)]
}

/// A task of the scheduler: its operation on the only cell of memory.
#[derive(Clone, Copy, Debug)]
enum Task {
    Nothing,
    Write(u64),
    Read,
}

#[derive(Debug, Default)]
struct Cell {
    value: AtomicU64,
    last_read: AtomicU64,
    done: AtomicBool,
}

#[derive(Debug)]
struct CellStream(Arc<Cell>);

impl StreamMemory for CellStream {
    fn failure(&self, _: &BufferBinding) -> Option<FailureId> {
        None
    }
    fn taint(&mut self, _: &BufferBinding, _: FailureId, _: &mut ErrorGraph) {}
    fn written(&mut self, _: &BufferBinding, _: &mut ErrorGraph) {}
}

struct CellStreams(Arc<Cell>);

impl StreamFactory for CellStreams {
    type Stream = CellStream;

    fn create(&mut self) -> Result<CellStream, ServerError> {
        Ok(CellStream(self.0.clone()))
    }
}

struct Scheduled(CellStreams);

impl SchedulerStreamBackend for Scheduled {
    type Task = Task;
    type Stream = CellStream;
    type Factory = CellStreams;

    fn enqueue(task: Task, stream: &mut CellStream, _: &mut ErrorGraph) {
        // Relaxed: the scheduler runs on the thread that reads the cell.
        let cell = &stream.0;
        match task {
            Task::Nothing => cell.done.store(true, Ordering::Relaxed),
            Task::Write(value) => cell.value.store(value, Ordering::Relaxed),
            Task::Read => cell
                .last_read
                .store(cell.value.load(Ordering::Relaxed), Ordering::Relaxed),
        }
    }

    fn flush(_: &mut CellStream, _: &mut ErrorGraph) {}

    fn factory(&mut self) -> &mut CellStreams {
        &mut self.0
    }
}

fn scheduler(
    cell: &Arc<Cell>,
    max_tasks: usize,
    strategy: SchedulerStrategy,
) -> SchedulerMultiStream<Scheduled> {
    let options = SchedulerMultiStreamOptions {
        max_streams: MAX_STREAMS,
        max_tasks,
        strategy,
    };
    let backend = Scheduled(CellStreams(cell.clone()));
    SchedulerMultiStream::new(Arc::new(ServerLogger::default()), backend, options)
}

/// Measures the scheduler alone, per task of one stream with three bindings of that stream. The
/// scheduler executes whenever `BATCH` tasks are registered.
pub(crate) fn scheduler_per_task<const BATCH: usize, const INTERLEAVE: bool>(
    effort: Effort,
) -> Figures {
    let strategy = if INTERLEAVE {
        SchedulerStrategy::Interleave
    } else {
        SchedulerStrategy::Sequential
    };
    let mut scheduler = scheduler(&Arc::new(Cell::default()), BATCH, strategy);
    let own = stream(1);
    let origins = [own; 3];
    let ns = timed(effort, |count| {
        for _ in 0..count {
            scheduler.register(own, Task::Nothing, &origins);
        }
    });
    vec![("ns", ns)]
}

/// Counts stale reads: stream B writes a buffer of stream A in place, then A reads it and sees the value
/// from before B's write.
pub(crate) fn stale_reads() -> Figures {
    let mut stale = 0;
    for trial in 1..=STALE_TRIALS {
        let cell = Arc::new(Cell::default());
        let mut scheduler = scheduler(&cell, 32, SchedulerStrategy::Interleave);
        let (a, b) = (stream(1), stream(2));
        scheduler.register(a, Task::Write(0), &[a]);
        scheduler.register(b, Task::Write(trial), &[a]);
        scheduler.register(a, Task::Read, &[a]);
        scheduler.execute_streams(vec![a]);
        stale += u64::from(cell.last_read.load(Ordering::Relaxed) != trial);
    }
    vec![("reads", stale as f64)]
}
