//! Measures our server alone, on one thread and with hand-made messages: its decisions, without
//! mailboxes and threads.
//!
//! A task here is a mark, which does nothing on its queue. The rows "hazards" are the time that bindings
//! add to it: admission, the entries in the access logs, and the bound arguments.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use millstream_actors::server::Server;
use millstream_protocol::{
    Access, AllocationMode, Binding, ClientId, DeviceOptions, DropSink, NewStream, Op, Priority,
    Registration, SliceId, SlotRef, Strategy, StreamId, Table, Task,
};
use millstream_sync::credit::Credit;
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Receiver, mailbox};
use millstream_sync::slots::Slots;

use super::null::{Null, NullDevice};
use crate::measures::{Effort, Figures, calibrate, timed, took};
use millstream_harness::median;

/// Bytes of every slice.
const SLICE_BYTES: u64 = 64;

/// Tasks between two checks of the queues' progress, as in a burst of the device thread.
const BURST: u64 = 256;

/// A server and the objects that it needs.
struct Bench {
    server: Server<NullDevice>,
    table: Arc<Table>,
    holds: Vec<SlotRef>,
    /// The receiver of the mailbox that drops would wake.
    _mailbox: Receiver<Task>,
}

/// The clients' side of a stream.
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
            DropSink::new(sender.probe(), Arc::default()),
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

    /// Admits a message as the device thread does: the server moves its content out in place, and the rest is
    /// not dropped.
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
        let stream = Registration::Stream(NewStream {
            id,
            client: ClientId(0),
            client_name: "bench".into(),
            client_slot: None,
            priority: Priority::Normal,
            weight: 1,
            soft_limit: None,
            credit: credit.clone(),
            credit_is_shared: false,
        });
        self.admit(None, Op::Register(Box::new(stream)), &[]);
        Submitter { id, credit }
    }

    /// Returns a slice that `owner` has written; the write has completed.
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

    /// Admits `count` marks with these bindings. The server flushes streams as they fill.
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

/// Returns a complete slice as one argument.
fn whole(slice: SliceId, access: Access) -> Binding {
    Binding::new(slice, 0, SLICE_BYTES, access)
}

/// Measures the time that a task's `OWN` bindings of its own queue, and its `OTHERS` of a queue that has already synced,
/// add to it.
pub(crate) fn hazards<const OWN: usize, const OTHERS: usize>(effort: Effort) -> Figures {
    let mut bench = Bench::new(DeviceOptions::default());
    // The streams are assigned to different queues: the first two.
    let (consumer, producer) = (bench.stream(), bench.stream());
    let mut bindings = Vec::new();
    for _ in 0..OWN {
        bindings.push(whole(bench.slice(&consumer), Access::ReadWrite));
    }
    for _ in 0..OTHERS {
        bindings.push(whole(bench.slice(&producer), Access::Read));
    }
    // With and without bindings in turn, so that drift affects both.
    let count = calibrate(effort, BURST, |count| {
        bench.marks(&consumer, &bindings, count);
    });
    let mut part = |bindings: &[Binding]| {
        took(|| bench.marks(&consumer, bindings, count)).as_nanos() as f64 / count as f64
    };
    let mut added = Vec::new();
    for _ in 0..effort.repeats() {
        let without = part(&[]);
        added.push(part(&bindings) - without);
    }
    vec![("ns", median(&added))]
}

/// Measures a task without bindings in the server: its stream holds it, and the server issues whenever
/// `BATCH` tasks are held.
pub(crate) fn scheduler_per_task<const BATCH: usize>(effort: Effort) -> Figures {
    let options = DeviceOptions::default()
        .strategy(Strategy::Interleave)
        .max_tasks(BATCH);
    let mut bench = Bench::new(options);
    let stream = bench.stream();
    vec![(
        "ns",
        timed(effort, |count| bench.marks(&stream, &[], count)),
    )]
}
