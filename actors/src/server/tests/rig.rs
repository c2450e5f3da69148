//! The loop of the device actor on one thread. It sleeps whenever the real actor would, and only what would wake the
//! real one wakes it. So a missing wake-up shows (I5), and so does a loop that never sleeps (I11).

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::task::Waker;

use millstream_protocol::threads::Spawner;
use millstream_protocol::{
    Backend, Cursor, DeviceOptions, DropSink, MemoryOptions, Point, QueueId, SlotRef, Table, Task,
};
use millstream_state::observers::meter::Meter;
use millstream_sync::facade::{Edges, Mutex, lock};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Sender, mailbox};
use millstream_sync::slots::Slots;

use super::code::Guards;
use super::script::{Call, Ledger, Script};
use crate::control::ControlSender;
use crate::device_actor::DeviceActor;
use crate::effects::{Collector, DueCode, Effects, UserCode};
use crate::gc_actor::GcActor;
use crate::server::Server;

/// The most turns without a message from outside; a loop with more never sleeps.
const TURNS_MAX: usize = 10_000;

/// The most messages that a turn takes.
const BURST: usize = 64;

pub(super) struct Rig {
    pub(super) actor: DeviceActor<Script>,
    effects: Effects,
    /// User code that is due: host functions that a test runs.
    due: Arc<Mutex<VecDeque<DueCode>>>,
    pub(super) table: Arc<Table>,
    /// The kernel of all launches.
    pub(super) kernel: Option<SlotRef>,
    sender: Sender<Task>,
    pub(super) guards: Guards,
    sleeps: bool,
}

/// Returns the last cursor of a queue that has completed.
fn completed(server: &Server<Script>, queue: QueueId) -> Cursor {
    server.device.backend.timeline(queue).completed()
}

impl Rig {
    pub(super) fn new(queues: usize, options: DeviceOptions) -> Self {
        Self::with_memory(queues, 1 << 20, options)
    }

    pub(super) fn with_memory(queues: usize, memory_bytes: u64, options: DeviceOptions) -> Self {
        Self::on(Ledger::default(), queues, memory_bytes, options)
    }

    /// Creates the actor of a device on which each slice has a page of its own.
    pub(super) fn isolated(queues: usize, memory_bytes: u64, options: DeviceOptions) -> Self {
        let memory = MemoryOptions::default()
            .page_bytes(4096)
            .isolate(true)
            .max_pages_cached(0);
        Self::with_memory(queues, memory_bytes, options.memory(memory))
    }

    /// Creates the actor of the device that this ledger describes.
    pub(super) fn on(
        ledger: Ledger,
        queues: usize,
        memory_bytes: u64,
        options: DeviceOptions,
    ) -> Self {
        let (gate, edges) = (Arc::new(Gate::new()), Arc::<Edges>::default());
        let (sender, receiver) = mailbox(64, gate.clone());
        let table = Slots::new(1 << 16, DropSink::new(sender.probe(), edges.clone()));
        let backend = Script::new(ledger, queues, memory_bytes, &table);
        let timeline = |queue| backend.timeline(QueueId(queue as u8)).clone();
        let timelines: Vec<_> = (0..queues).map(timeline).collect();
        let server = Server::new(backend, options.settings().clone(), table.clone());
        let (device, control) = ControlSender::new(gate, edges);
        let gone = server.device.gone.clone();
        let gc = GcActor::new(timelines.clone(), device.clone(), gone, Meter::new());
        let due = Arc::default();
        let mut rig = Self {
            actor: DeviceActor::new(server, receiver, control, table.clone(), timelines, BURST),
            effects: Effects {
                collector: Collector::Inline(gc),
                user_code: UserCode::Due(Arc::clone(&due)),
                device,
                spawner: Spawner::default(),
            },
            due,
            table,
            kernel: None,
            sender,
            guards: Guards::default(),
            sleeps: true,
        };
        rig.kernel = Some(rig.register_kernel());
        rig
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.actor.server.device.backend.ledger
    }

    pub(super) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.actor.server.device.backend.ledger
    }

    /// Sends a message. If the mailbox is full, runs turns until there is room.
    pub(super) fn send(&mut self, task: Task) {
        let slot = loop {
            match self.sender.try_reserve() {
                Ok(slot) => break slot,
                Err(_) => self.turn(),
            };
        };
        // SAFETY: the slot was reserved just now, and is initialized and committed once.
        unsafe {
            slot.as_ptr().write(MaybeUninit::new(task));
            self.sender.commit(slot, || false);
        }
    }

    /// Admits all messages and does nothing else: only necessary flushes happen.
    pub(super) fn admit(&mut self) {
        while self.actor.take_burst(Server::admit) > 0 {
            self.sleeps = false;
        }
    }

    /// Runs one turn of the device actor, as the thread of a device does. Returns `false` if it sleeps.
    pub(super) fn turn(&mut self) -> bool {
        if self.sleeps && !self.actor.has_work() {
            return false;
        }
        self.actor.end_idle();
        let worked = self.actor.turn(&mut self.effects);
        self.collect();
        self.sleeps = !worked && !self.actor.prepare_idle(Waker::noop(), &mut self.effects);
        true
    }

    /// Does the work of the GC actor: drops values whose points have passed.
    fn collect(&mut self) {
        self.effects.collect();
        let due = std::mem::take(&mut *lock(&self.due)).into_iter();
        let (drops, runs): (VecDeque<_>, _) =
            due.partition(|code| matches!(code, DueCode::Drop(_)));
        *lock(&self.due) = runs;
        drops.into_iter().for_each(DueCode::run);
    }

    /// Completes one task of a queue, if one can complete.
    pub(super) fn step(&mut self, queue: usize) -> bool {
        let stepped = self.actor.server.device.backend.step(queue);
        self.collect();
        stepped
    }

    /// Runs a started host function: the nth, modulo their number.
    pub(super) fn run_host(&mut self, nth: usize) -> bool {
        let mut due = lock(&self.due);
        let count = due.len().max(1);
        let host = due.swap_remove_back(nth % count);
        drop(due);
        let begun = host.is_some();
        host.into_iter().for_each(DueCode::run);
        begun
    }

    /// Ends a guard: the nth, modulo their number.
    pub(super) fn end_guard(&mut self, nth: usize) -> bool {
        let mut guards = self.guards.lock().unwrap();
        if guards.is_empty() {
            return false;
        }
        let count = guards.len();
        let guard = guards.swap_remove(nth % count);
        drop(guards);
        drop(guard);
        true
    }

    /// Returns the number of host functions that were started and not run.
    pub(super) fn hosts(&self) -> usize {
        lock(&self.due).len()
    }

    /// Runs turns until the device sleeps.
    pub(super) fn rest(&mut self) {
        let mut turns = 0;
        while self.turn() {
            turns += 1;
            assert!(turns < TURNS_MAX, "the device never sleeps (I11)");
        }
    }

    /// Lets everything end that can end: host functions, tasks one by one, turns if something wakes the device, and
    /// guards if nothing else can go on. Afterwards the rest never ends.
    pub(super) fn drain(&mut self) {
        loop {
            self.rest();
            if self.run_host(0) {
                continue;
            }
            if !(0..self.queues()).any(|queue| self.step(queue)) && !self.end_guard(0) {
                break;
            }
        }
    }

    /// Completes all flushed tasks without waking the device.
    pub(super) fn complete(&mut self) {
        while (0..self.queues()).any(|queue| self.actor.server.device.backend.step(queue)) {}
    }

    fn queues(&self) -> usize {
        self.actor.server.device.backend.properties().queues
    }

    /// Returns the number of held tasks.
    pub(super) fn held(&self) -> u64 {
        self.actor.server.tasks_held()
    }

    /// Returns `true` if `point` was published.
    pub(super) fn has_passed(&self, point: Point) -> bool {
        completed(&self.actor.server, point.queue) >= point.cursor
    }

    /// Returns the number of tasks of a queue in flight.
    pub(super) fn in_flight(&self, queue: usize) -> u64 {
        self.ledger().issued[queue] - completed(&self.actor.server, QueueId(queue as u8))
    }

    /// Returns the queue that a stream is assigned to.
    pub(super) fn queue_of(&self, stream: millstream_protocol::StreamId) -> QueueId {
        let key = self.actor.server.objects.stream(stream).unwrap();
        self.actor.server.scheduler.queue_of(key)
    }
}

/// The calls of the backend so far.
impl Rig {
    pub(super) fn calls(&self) -> Vec<Call> {
        self.ledger().calls.clone()
    }

    /// Returns the numbers of the tasks that ran on a queue, in order.
    pub(super) fn order(&self, queue: u8) -> Vec<u64> {
        let number = |call: Call| match call {
            Call::Run(on, number) if on == queue => Some(number),
            _ => None,
        };
        self.calls().into_iter().filter_map(number).collect()
    }

    /// Returns the waits: the queue, the awaited queue, and the cursor.
    pub(super) fn waits(&self) -> Vec<(u8, u8, u64)> {
        let wait = |call: Call| match call {
            Call::Wait(queue, on, cursor) => Some((queue, on, cursor)),
            _ => None,
        };
        self.calls().into_iter().filter_map(wait).collect()
    }

    /// Returns the cursors at which batches of a queue ended.
    pub(super) fn flushes(&self, queue: u8) -> Vec<u64> {
        let flush = |call: Call| match call {
            Call::Flush(on, cursor) if on == queue => Some(cursor),
            _ => None,
        };
        self.calls().into_iter().filter_map(flush).collect()
    }
}

/// The end of a run.
impl Rig {
    /// Returns `true` if the slice has had memory.
    pub(super) fn has_memory(&self, slice: &super::build::Slice) -> bool {
        self.ledger().reserved.contains(&slice.id())
    }

    pub(super) fn have_memory<const N: usize>(
        &self,
        slices: [&super::build::Slice; N],
    ) -> [bool; N] {
        slices.map(|slice| self.has_memory(slice))
    }

    /// Drops the host functions that were not run.
    pub(super) fn forget_hosts(&mut self) {
        lock(&self.due).clear();
    }

    /// Abandons the device, with the messages in the mailbox. Returns the number of tasks that it gives up.
    pub(super) fn abandon(&mut self) -> u64 {
        self.actor.abandon().0
    }
}
