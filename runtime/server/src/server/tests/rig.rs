//! The device actor's loop on one thread. It sleeps whenever the real one would, and only what would
//! wake that one wakes it: so a wake-up that is missing shows (I5), and so does a loop that never rests (I11).

use std::any::Any;
use std::sync::{Arc, Mutex};

use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::leaving::Leaving;
use millstream_protocol::message::{HostDone, HostWork, Task};
use millstream_protocol::options::DeviceOptions;
use millstream_protocol::table::{Outlet, Table};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Receiver, Sender, mailbox};
use millstream_sync::slots::Slots;

use super::code::Guards;
use super::ledger::{Call, Ledger};
use super::script::{Script, Shared};
use crate::points::Points;
use crate::server::{Effect, HostToken, Server};

/// Turns without anything coming from outside, after which a loop is said never to rest.
const TURNS_MAX: usize = 1_000;

/// A host function that was started and has not been run.
struct Host {
    work: HostWork,
    resources: Option<Box<dyn Any + Send>>,
    token: HostToken,
}

type Ends = Arc<Mutex<Vec<(HostToken, Result<(), String>)>>>;

pub(super) struct Rig {
    pub(super) server: Server<Script>,
    pub(super) ledger: Shared,
    pub(super) table: Arc<Table>,
    sender: Sender<Task>,
    receiver: Receiver<Task>,
    pub(super) burst: usize,
    hosts: Vec<Host>,
    pub(super) guards: Guards,
    ends: Ends,
    collects: Vec<(Leaving, Points)>,
    /// Points that wake the device: its own registrations, and the GC actor's.
    wanted: Vec<Point>,
    watched: Vec<Point>,
    awake: bool,
}

impl Rig {
    pub(super) fn new(queues: usize, options: DeviceOptions) -> Self {
        Self::with_memory(queues, 1 << 20, options)
    }

    pub(super) fn with_memory(queues: usize, memory_bytes: u64, options: DeviceOptions) -> Self {
        let ledger = Shared::new(Ledger::new(queues, memory_bytes));
        let backend = Script::new(ledger.clone(), memory_bytes);
        let (sender, receiver) = mailbox(64, Arc::new(Gate::new()));
        let table = Slots::new(1 << 16, Outlet::new(sender.probe(), Arc::default()));
        Self {
            server: Server::new(backend, options.settings().clone(), table.clone()),
            ledger,
            table,
            sender,
            receiver,
            burst: 64,
            hosts: Vec::new(),
            guards: Guards::default(),
            ends: Ends::default(),
            collects: Vec::new(),
            wanted: Vec::new(),
            watched: Vec::new(),
            awake: false,
        }
    }

    /// Sends a message; makes room for it if there is none.
    pub(super) fn send(&mut self, task: Task) {
        while self.sender.depth() >= self.sender.capacity() {
            self.turn();
        }
        assert!(self.sender.try_send(task).is_ok());
        self.awake = true;
    }

    /// Takes all messages, and nothing else: nothing is flushed but what must be.
    pub(super) fn admit(&mut self) {
        let server = &mut self.server;
        while self
            .receiver
            .try_recv_with(|task| server.admit(task))
            .is_some()
        {}
    }

    /// One turn of the device actor; false if it slept.
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
        while taken < self.burst
            && self
                .receiver
                .try_recv_with(|task| server.admit(task))
                .is_some()
        {
            taken += 1;
        }
        let mut worked = taken > 0;
        if taken > 0 || self.server.has_drops() {
            self.server.honour_drops();
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
        while let Some(effect) = self.server.take_effect() {
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
                Effect::Collect { value, after } => self.collects.push((value, after)),
                Effect::Watch(point) => self.watched.push(point),
            }
        }
        worked
    }

    /// As `DeviceActor::prepare_idle`: true if there is something to do at once.
    fn prepare_idle(&mut self) -> bool {
        self.server.watch_freed();
        self.carry_out();
        self.wanted = self.server.wanted().collect();
        self.wake_by_points();
        self.receiver.has_next() || !self.ends.lock().unwrap().is_empty() || self.awake_by_points()
    }

    fn passed(&self, point: &Point) -> bool {
        self.ledger.get().published(point.queue) >= point.cursor
    }

    fn awake_by_points(&self) -> bool {
        self.wanted.iter().any(|point| self.passed(point))
    }

    /// What the GC actor does: drops values, wakes the device for memory.
    fn wake_by_points(&mut self) {
        let ledger = self.ledger.clone();
        let passed = |point: Point| ledger.get().published(point.queue) >= point.cursor;
        let watched = self.watched.len();
        self.watched.retain(|point| !passed(*point));
        if self.watched.len() < watched || self.awake_by_points() {
            self.awake = true;
        }
        self.collects.retain(|(_, after)| !after.all(passed));
    }

    /// Completes one task of a queue, if one can.
    pub(super) fn step(&mut self, queue: usize) -> bool {
        let stepped = self.ledger.get().step(queue);
        self.wake_by_points();
        stepped
    }

    /// Runs a host function that was started: the nth, counted round.
    pub(super) fn run_host(&mut self, nth: usize) -> bool {
        if self.hosts.is_empty() {
            return false;
        }
        let host = self.hosts.swap_remove(nth % self.hosts.len());
        let (ends, token) = (self.ends.clone(), host.token);
        let done = HostDone::new(move |outcome| ends.lock().unwrap().push((token, outcome)));
        (host.work.run)(done, host.resources);
        if !self.ends.lock().unwrap().is_empty() {
            self.awake = true;
        }
        true
    }

    /// Ends a guard: the nth, counted round.
    pub(super) fn end_guard(&mut self, nth: usize) -> bool {
        let mut guards = self.guards.lock().unwrap();
        if guards.is_empty() {
            return false;
        }
        let count = guards.len();
        let guard = guards.swap_remove(nth % count);
        drop(guards);
        let mut ledger = self.ledger.get();
        let old = ledger.issues.len() >= guard.since + 5;
        ledger.seen.note("guard");
        ledger.seen.note_if("guard that outlived five tasks", old);
        drop(ledger);
        guard.end();
        self.awake = true;
        true
    }

    /// Host functions that were started and have not been run.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Turns until the device sleeps.
    pub(super) fn rest(&mut self) {
        let mut turns = 0;
        while self.turn() {
            turns += 1;
            assert!(turns < TURNS_MAX, "the device never rests (I11)");
        }
    }

    /// Lets everything end that can: host functions, tasks one by one, turns when something wakes the
    /// device, and guards when nothing else can go. What is not done then never will be.
    pub(super) fn drain(&mut self) {
        loop {
            self.rest();
            if self.run_host(0) {
                continue;
            }
            let queues = self.ledger.get().queues();
            if !(0..queues).any(|queue| self.step(queue)) && !self.end_guard(0) {
                break;
            }
        }
    }

    /// Completes everything that is on its way, without waking the device for it.
    pub(super) fn complete(&mut self) {
        let queues = self.ledger.get().queues();
        while (0..queues).any(|queue| self.ledger.get().step(queue)) {}
    }

    /// What is held.
    pub(super) fn held(&self) -> u64 {
        self.server.tasks_held()
    }

    /// Has `point` been published?
    pub(super) fn has_passed(&self, point: Point) -> bool {
        self.passed(&point)
    }

    /// Tasks of a queue that have not completed.
    pub(super) fn in_flight(&self, queue: usize) -> u64 {
        self.ledger.get().in_flight(queue)
    }

    /// Values to be dropped whose points have not passed.
    pub(super) fn collects(&self) -> usize {
        self.collects.len()
    }

    /// The queue that a stream sits on.
    pub(super) fn queue_of(&self, stream: millstream_protocol::id::StreamId) -> QueueId {
        let key = self.server.objects.stream(stream).unwrap();
        self.server.scheduler.queue_of(key)
    }
}

/// What the backend was told so far.
impl Rig {
    pub(super) fn calls(&self) -> Vec<Call> {
        self.ledger.get().calls.clone()
    }

    /// The numbers of what ran on a queue, in order.
    pub(super) fn order(&self, queue: u8) -> Vec<u64> {
        let number = |call: Call| match call {
            Call::Run(on, number) if on == queue => Some(number),
            _ => None,
        };
        self.calls().into_iter().filter_map(number).collect()
    }

    /// Waits: which queue, for which, for what cursor.
    pub(super) fn waits(&self) -> Vec<(u8, u8, u64)> {
        let wait = |call: Call| match call {
            Call::Wait(queue, on, cursor) => Some((queue, on, cursor)),
            _ => None,
        };
        self.calls().into_iter().filter_map(wait).collect()
    }

    /// The cursors at which batches of a queue ended.
    pub(super) fn flushes(&self, queue: u8) -> Vec<u64> {
        let flush = |call: Call| match call {
            Call::Flush(on, cursor) if on == queue => Some(cursor),
            _ => None,
        };
        self.calls().into_iter().filter_map(flush).collect()
    }

    /// The queue of a stream whose registration may still be in the mailbox.
    pub(super) fn queue_of_new(&mut self, stream: &super::build::Stream) -> QueueId {
        self.admit();
        self.queue_of(stream.id())
    }
}

/// How it ends.
impl Rig {
    /// Has the slice memory?
    pub(super) fn has_memory(&self, slice: &super::build::Slice) -> bool {
        self.ledger.get().memory.reserved.contains(&slice.id())
    }

    /// Host functions that will not be run.
    pub(super) fn forget_hosts(&mut self) {
        self.hosts.clear();
    }

    /// The device gives up, as `DeviceActor::abandon` has it; what is in the mailbox is dropped with it.
    /// Tells how many tasks were held.
    pub(super) fn abandon(&mut self) -> u64 {
        let (_, dead) = mailbox(1, Arc::new(Gate::new()));
        self.receiver.close();
        let left = self.server.abandon();
        drop(std::mem::replace(&mut self.receiver, dead));
        left
    }
}
