//! Our server by itself, on one thread, with messages made by hand: what deciding costs without
//! mailboxes and threads.
//!
//! A task here is a mark: it does nothing on its queue. What its bindings add to it, from admission
//! over the entry in the access logs to the bound arguments, is what rows call hazards.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::id::{ClientId, SliceId, StreamId};
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::message::{Op, Registration, Task};
use millstream_protocol::options::{DeviceOptions, Strategy};
use millstream_protocol::priority::Priority;
use millstream_protocol::table::{Hold, Outlet, Table};
use millstream_server::server::Server;
use millstream_sync::credit::Credit;
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Receiver, mailbox};
use millstream_sync::slots::Slots;

use super::null::{self, Null, NullDevice};
use crate::measures::{Effort, Figures, calibrate, timed, took};
use millstream_harness::median;

/// Bytes of every slice.
const SLICE_BYTES: u64 = 64;

/// Tasks between two looks at the queues' progress, as in a burst of the device thread.
const BURST: u64 = 256;

/// A server and what keeps it alive.
struct Bench {
    server: Server<NullDevice>,
    table: Arc<Table>,
    holds: Vec<Hold>,
    /// Where drops would be told.
    _mailbox: Receiver<Task>,
}

/// A stream as its clients see it.
#[derive(Clone)]
struct Submitter {
    id: StreamId,
    credit: Arc<Credit>,
}

impl Bench {
    fn new(options: DeviceOptions) -> Self {
        let (sender, receiver) = mailbox::<Task>(2, Arc::new(Gate::new()));
        let table = Slots::new(
            options.settings().max_handles,
            Outlet::new(sender.probe(), Arc::default()),
        );
        Self {
            server: Server::new(
                NullDevice::new(Null::default()),
                options.settings().clone(),
                table.clone(),
            ),
            table,
            holds: Vec::new(),
            _mailbox: receiver,
        }
    }

    fn hold(&mut self) -> millstream_sync::slots::SlotId {
        let hold = self.table.acquire().expect("the table has room");
        let id = hold.id();
        self.holds.push(hold);
        id
    }

    /// Admits a message as the device thread does: the server empties it where it lies, and what is left of
    /// it is not dropped.
    #[inline(always)]
    fn admit(&mut self, stream: Option<StreamId>, op: Op, bindings: &[Binding]) {
        let mut task = ManuallyDrop::new(Task::new(stream, op));
        bindings
            .iter()
            .for_each(|binding| task.push_binding(*binding));
        self.server.admit(&mut task);
    }

    fn stream(&mut self) -> Submitter {
        let id = StreamId(self.hold());
        let credit = Arc::new(Credit::new(u64::MAX));
        let stream = Registration::Stream {
            id,
            client: ClientId(0),
            client_name: "bench".into(),
            seat: None,
            priority: Priority::Normal,
            weight: 1,
            soft_limit: None,
            credit: credit.clone(),
            credit_is_shared: false,
        };
        self.admit(None, Op::Register(Box::new(stream)), &[]);
        Submitter { id, credit }
    }

    /// A slice that `owner` has written, and whose write has completed.
    fn slice(&mut self, owner: &Submitter) -> SliceId {
        let id = SliceId(self.hold());
        let reserve = Op::Reserve {
            client: ClientId(0),
            mode: Some(AllocationMode::Automatic),
            position: 0,
        };
        owner.credit.try_acquire(2).expect("credit has no end");
        self.admit(Some(owner.id), reserve, &[whole(id, Access::Write)]);
        self.admit(Some(owner.id), Op::Mark, &[whole(id, Access::Write)]);
        self.settle();
        id
    }

    fn settle(&mut self) {
        self.server.flush_all();
        self.server.progress();
    }

    /// Admits `count` marks with these bindings; the server flushes by itself as streams fill.
    fn marks(&mut self, stream: &Submitter, bindings: &[Binding], count: u64) {
        let mut left = count;
        while left > 0 {
            let burst = left.min(BURST);
            stream.credit.try_acquire(burst).expect("credit has no end");
            for _ in 0..burst {
                self.admit(Some(stream.id), Op::Mark, bindings);
            }
            self.settle();
            left -= burst;
        }
    }
}

/// All of a slice as one argument.
fn whole(slice: SliceId, access: Access) -> Binding {
    Binding::new(slice, 0, SLICE_BYTES, access)
}

/// What a task's `own` bindings of its own queue and its `others` of a queue that has synced already
/// add to it: time, batches that had to end and waits between queues, each per task.
pub(crate) fn hazards<const OWN: usize, const OTHERS: usize>(effort: Effort) -> Figures {
    let mut bench = Bench::new(DeviceOptions::default());
    // Streams sit on different queues: the first two.
    let (consumer, producer) = (bench.stream(), bench.stream());
    let mut bindings = Vec::new();
    for _ in 0..OWN {
        bindings.push(whole(bench.slice(&consumer), Access::ReadWrite));
    }
    for _ in 0..OTHERS {
        bindings.push(whole(bench.slice(&producer), Access::Read));
    }
    let count_events = |bench: &mut Bench, bindings: &[Binding]| {
        let (batches, waits) = (null::batches(), null::waits());
        bench.marks(&consumer, bindings, COUNTED);
        (null::batches() - batches, null::waits() - waits)
    };
    let (own_batches, _) = count_events(&mut bench, &[]);
    let (batches, waits) = count_events(&mut bench, &bindings);
    // With and without in turns, so that drift hits both.
    let count = calibrate(effort, BURST, |count| {
        bench.marks(&consumer, &bindings, count);
    });
    let mut part = |bindings: &[Binding]| {
        took(|| bench.marks(&consumer, bindings, count)).as_nanos() as f64 / count as f64
    };
    let (mut tasks, mut added) = (Vec::new(), Vec::new());
    for _ in 0..effort.repeats() {
        let (without, with) = (part(&[]), part(&bindings));
        tasks.push(with);
        added.push(with - without);
    }
    vec![
        ("ns", median(&added)),
        ("task_ns", median(&tasks)),
        (
            "recorded",
            batches.saturating_sub(own_batches) as f64 / COUNTED as f64,
        ),
        ("waited", waits as f64 / COUNTED as f64),
    ]
}

/// Tasks over which events are counted.
const COUNTED: u64 = 10 * BURST;

/// The way of a task without bindings through the server: held by its stream, and issued whenever
/// `BATCH` have come together.
pub(crate) fn scheduler_per_task<const BATCH: usize, const INTERLEAVE: bool>(
    effort: Effort,
) -> Figures {
    let strategy = if INTERLEAVE {
        Strategy::Interleave
    } else {
        Strategy::Sequential
    };
    let options = DeviceOptions::default().strategy(strategy).max_tasks(BATCH);
    let mut bench = Bench::new(options);
    let stream = bench.stream();
    vec![(
        "ns",
        timed(effort, |count| bench.marks(&stream, &[], count)),
    )]
}
