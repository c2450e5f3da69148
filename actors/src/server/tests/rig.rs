//! The loop of the device actor on one thread. It sleeps whenever the real actor would, and only what would wake the
//! real one wakes it. So a missing wake-up shows (I5), and so does a loop that never sleeps (I11).

use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

use millstream_protocol::{
    Backend, Cursor, DeferredDrop, DeviceOptions, DropSink, HostDone, HostOutcome, HostWork,
    MemoryOptions, Point, QueueId, SlotRef, Table, Task,
};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Receiver, Sender, mailbox};
use millstream_sync::slots::Slots;

use super::code::Guards;
use super::script::{Call, Ledger, Script, Shared};
use crate::server::{Effect, Handover, HostToken, Server};
use millstream_state::points::Points;

/// The most turns without a message from outside; a loop with more never sleeps.
const TURNS_MAX: usize = 10_000;

/// The most messages that a turn takes.
const BURST: usize = 64;

/// A host function that was started and was not run.
struct Host {
    work: HostWork,
    resources: Option<Box<dyn Any + Send>>,
    token: HostToken,
}

/// Returns the last cursor of a queue that has completed.
fn completed(server: &Server<Script>, queue: QueueId) -> Cursor {
    server.device.backend.timeline(queue).completed()
}

type Ends = Arc<Mutex<Vec<(HostToken, HostOutcome)>>>;

pub(super) struct Rig {
    pub(super) server: Server<Script>,
    pub(super) ledger: Shared,
    pub(super) table: Arc<Table>,
    /// The kernel of all launches.
    pub(super) kernel: Option<SlotRef>,
    sender: Sender<Task>,
    receiver: Receiver<Task>,
    hosts: Vec<Host>,
    pub(super) guards: Guards,
    ends: Ends,
    collects: Vec<(DeferredDrop, Points)>,
    /// The points that wake the device.
    awaited: Vec<Point>,
    awake: bool,
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
        let ledger = Shared::new(ledger);
        let (sender, receiver) = mailbox(64, Arc::new(Gate::new()));
        let table = Slots::new(1 << 16, DropSink::new(sender.probe(), Arc::default()));
        let backend = Script::new(ledger.clone(), queues, memory_bytes, &table);
        let mut rig = Self {
            server: Server::new(backend, options.settings().clone(), table.clone()),
            ledger,
            table,
            kernel: None,
            sender,
            receiver,
            hosts: Vec::new(),
            guards: Guards::default(),
            ends: Ends::default(),
            collects: Vec::new(),
            awaited: Vec::new(),
            awake: false,
        };
        rig.kernel = Some(rig.register_kernel());
        rig
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
        self.awake = true;
    }

    /// Admits all messages and does nothing else: only necessary flushes happen.
    pub(super) fn admit(&mut self) {
        let server = &mut self.server;
        while self
            .receiver
            .try_recv_with(|task| server.admit(task))
            .is_some()
        {}
    }

    /// Runs one turn of the device actor. Returns `false` if it sleeps.
    pub(super) fn turn(&mut self) -> bool {
        if self.server.has_drops() {
            self.awake = true;
        }
        if !self.awake {
            return false;
        }
        if !self.work() {
            self.awake = self.prepare_idle();
        }
        true
    }

    /// As `DeviceActor::turn`.
    fn work(&mut self) -> bool {
        let mut taken = 0;
        let server = &mut self.server;
        while taken < BURST
            && self
                .receiver
                .try_recv_with(|task| server.admit(task))
                .is_some()
        {
            taken += 1;
        }
        let mut worked = taken > 0;
        if taken > 0 || self.server.has_drops() {
            self.server.process_drops();
            worked = true;
        }
        let ends = std::mem::take(&mut *self.ends.lock().unwrap());
        for (token, outcome) in ends {
            worked = true;
            self.server.host_finished(token, outcome);
        }
        worked |= self.server.progress();
        if self.server.can_flush() {
            self.server.flush_all();
            worked = true;
        }
        worked | self.carry_out()
    }

    fn carry_out(&mut self) -> bool {
        let mut worked = false;
        while let Some(effect) = self.server.effects.pop_front() {
            worked = true;
            match effect {
                Effect::Host {
                    work,
                    resources,
                    token,
                } => self.hosts.push(Host {
                    work,
                    resources,
                    token,
                }),
                Effect::HandOver(Handover { after, value, .. }) => {
                    self.collects.push((value, after));
                }
            }
        }
        worked
    }

    /// As `DeviceActor::prepare_idle`: returns `true` if there is something to do at once.
    fn prepare_idle(&mut self) -> bool {
        self.carry_out();
        self.awaited = self.server.awaited_points().collect();
        self.wake_by_points();
        self.receiver.has_next() || !self.ends.lock().unwrap().is_empty() || self.awake_by_points()
    }

    fn passed(&self, point: &Point) -> bool {
        completed(&self.server, point.queue) >= point.cursor
    }

    fn awake_by_points(&self) -> bool {
        self.awaited.iter().any(|point| self.passed(point))
    }

    /// Wakes the device, and does the work of the GC actor: drops values.
    fn wake_by_points(&mut self) {
        let server = &self.server;
        let passed = |point: Point| completed(server, point.queue) >= point.cursor;
        self.awake |= self.awake_by_points();
        self.collects.retain(|(_, after)| !after.iter().all(passed));
    }

    /// Completes one task of a queue, if one can complete.
    pub(super) fn step(&mut self, queue: usize) -> bool {
        let stepped = self.server.device.backend.step(queue);
        self.wake_by_points();
        stepped
    }

    /// Runs a started host function: the nth, modulo their number.
    pub(super) fn run_host(&mut self, nth: usize) -> bool {
        if self.hosts.is_empty() {
            return false;
        }
        let host = self.hosts.swap_remove(nth % self.hosts.len());
        let (ends, token) = (self.ends.clone(), host.token);
        let done = HostDone::new(move |outcome| ends.lock().unwrap().push((token, outcome)));
        if let Some(rest) = (host.work.run)(done, host.resources) {
            rest();
        }
        if !self.ends.lock().unwrap().is_empty() {
            self.awake = true;
        }
        true
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
        self.awake = true;
        true
    }

    /// Returns the number of host functions that were started and not run.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
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
        while (0..self.queues()).any(|queue| self.server.device.backend.step(queue)) {}
    }

    fn queues(&self) -> usize {
        self.server.device.backend.properties().queues
    }

    /// Returns the number of held tasks.
    pub(super) fn held(&self) -> u64 {
        self.server.tasks_held()
    }

    /// Returns `true` if `point` was published.
    pub(super) fn has_passed(&self, point: Point) -> bool {
        self.passed(&point)
    }

    /// Returns the number of tasks of a queue in flight.
    pub(super) fn in_flight(&self, queue: usize) -> u64 {
        self.ledger.get().issued[queue] - completed(&self.server, QueueId(queue as u8))
    }

    /// Returns the queue that a stream is assigned to.
    pub(super) fn queue_of(&self, stream: millstream_protocol::StreamId) -> QueueId {
        let key = self.server.objects.stream(stream).unwrap();
        self.server.scheduler.queue_of(key)
    }
}

/// The calls of the backend so far.
impl Rig {
    pub(super) fn calls(&self) -> Vec<Call> {
        self.ledger.get().calls.clone()
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
        self.ledger.get().reserved.contains(&slice.id())
    }

    pub(super) fn have_memory<const N: usize>(
        &self,
        slices: [&super::build::Slice; N],
    ) -> [bool; N] {
        slices.map(|slice| self.has_memory(slice))
    }

    /// Drops the host functions that were not run.
    pub(super) fn forget_hosts(&mut self) {
        self.hosts.clear();
    }

    /// Abandons the device, as `DeviceActor::abandon` does. The messages in the mailbox are dropped with it. Returns
    /// the number of held tasks.
    pub(super) fn abandon(&mut self) -> u64 {
        let (_, dead) = mailbox(1, Arc::new(Gate::new()));
        self.receiver.close();
        let before = self.server.tasks_lost();
        self.server.abandon();
        drop(std::mem::replace(&mut self.receiver, dead));
        self.server.tasks_lost() - before
    }
}
