//! The state behind the device's lock: queues, memory, random choices, and the observers (checker, virtual time,
//! faults).

use std::collections::VecDeque;

use millstream_protocol::{
    BoundSlice, Cursor, Point, QueueId, Refused, TaskPoint, Withdrawal, Withdrawals,
};

use crate::checker::{Checker, Violation};
use crate::entry::{Entry, Item, Op};
use crate::faults::{Call, FaultPlan, Verdict};
use crate::findings::{Figures, Holds};
use crate::memory::Memory;
use crate::random::Random;
use crate::timing::Timing;

/// One queue.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) items: VecDeque<Item>,
    /// Bytes whose failures are cleared before the next task.
    pub(crate) forgets: Vec<BoundSlice>,
    /// The terms of the next task, if it has any.
    pub(crate) withdrawal: Option<Withdrawal>,
    /// The terms of the task that begins.
    pub(crate) withdrawals: Withdrawals,
    /// The cursor up to which every task has run.
    pub(crate) done: Cursor,
    pub(crate) flushed: Cursor,
    /// The cursor up to which the host can see tasks as passed. Never greater than `done` or `flushed`.
    pub(crate) published: Cursor,
    /// A task of this queue is running.
    pub(crate) running: bool,
}

/// Everything behind the device's lock.
pub(crate) struct State {
    pub(crate) queues: Vec<Queue>,
    pub(crate) memory: Memory,
    pub(crate) checker: Option<Checker>,
    pub(crate) timing: Timing,
    pub(crate) random: Random,
    pub(crate) faults: FaultPlan,
    pub(crate) holds: Holds,
    /// Steps run in the order of virtual time.
    pub(crate) punctual: bool,
    /// Until this time a punctual device runs steps.
    pub(crate) horizon_ns: u64,
    /// Tasks do their work. Otherwise they take its time only.
    pub(crate) moves_data: bool,
    /// The device is lost: queued tasks fail, and new calls are refused.
    pub(crate) lost: bool,
    /// The device is closing.
    pub(crate) stopping: bool,
    pub(crate) figures: Figures,
    /// The figures of all earlier epochs.
    pub(crate) earlier: Figures,
}

/// An event that goes into the fingerprint of a run.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    Allocated = 1,
    Freed,
    Reserved,
    Released,
    Queued,
    Refused,
    Waits,
    Flushed,
    Ran,
    Published,
}

impl State {
    /// Shows something to the checker, if there is one.
    pub(crate) fn check(&mut self, show: impl FnOnce(&mut Checker)) {
        if let Some(checker) = &mut self.checker {
            show(checker);
        }
    }

    /// Counts a call and decides whether it fails. A lost device stays lost.
    pub(crate) fn judge(&mut self, call: Call) -> Verdict {
        let verdict = self.faults.judge(call);
        match verdict {
            Verdict::Fails(_) => self.figures.faults += 1,
            Verdict::LosesDevice if !self.lost => {
                self.figures.faults += 1;
                self.lost = true;
            }
            Verdict::Proceeds | Verdict::LosesDevice => {}
        }
        if self.lost {
            Verdict::LosesDevice
        } else {
            verdict
        }
    }

    /// Lets a call proceed, or returns the injected fault.
    pub(crate) fn admit(&mut self, call: Call) -> Result<(), Refused> {
        match self.judge(call) {
            Verdict::Proceeds => Ok(()),
            Verdict::Fails(number) => {
                let what = format!("{call:?}").to_lowercase();
                Err(Refused::Task(format!("injected fault: {what} {number}")))
            }
            Verdict::LosesDevice => Err(Refused::Lost("injected fault".to_owned())),
        }
    }

    /// Queues a task over these bindings. If it is refused, `op` stays with the caller, because dropping it may run
    /// user code.
    pub(crate) fn push(
        &mut self,
        place: TaskPoint<'_>,
        bindings: Vec<BoundSlice>,
        op: &mut Option<Op>,
    ) -> Result<(), Refused> {
        let point = Point::new(place.queue, place.cursor);
        let (mut views, mut blocks) = (Vec::new(), Vec::new());
        for bound in &bindings {
            match self.memory.resolve(bound) {
                Ok((view, block)) => {
                    views.push(view);
                    blocks.extend(block);
                }
                Err(refused) => {
                    self.check(|checker| checker.refused(point, place.name, &bindings));
                    self.record(Event::Refused, point);
                    return Err(refused);
                }
            }
        }
        if place.queue.index() >= self.queues.len() {
            return Err(Refused::Task(format!("{} does not exist", place.queue)));
        }
        self.check(|checker| checker.task(point, place.name, &bindings));
        let fills = self.memory.queued(&bindings);
        let queue = &mut self.queues[place.queue.index()];
        queue.items.push_back(Item::Task(Box::new(Entry {
            point,
            name: place.name.clone(),
            op: op.take().unwrap_or(Op::Mark),
            bindings,
            forgets: std::mem::take(&mut queue.forgets),
            withdrawal: queue.withdrawal.take(),
            views,
            fills,
            _blocks: blocks,
        })));
        self.record(Event::Queued, point);
        Ok(())
    }

    /// Calls `f` with a queue, if it exists.
    pub(crate) fn queue(&mut self, queue: QueueId, f: impl FnOnce(&mut Queue)) {
        if let Some(queue) = self.queues.get_mut(queue.index()) {
            f(queue);
        }
    }

    pub(crate) fn wait(&mut self, queue: QueueId, point: Point) {
        self.check(|checker| checker.wait(queue, point));
        self.queue(queue, |queue| queue.items.push_back(Item::Wait(point)));
        self.record(Event::Waits, point);
    }

    pub(crate) fn flush(&mut self, point: Point) {
        self.check(|checker| checker.flushed(point));
        self.queue(point.queue, |queue| {
            queue.flushed = queue.flushed.max(point.cursor);
        });
        self.record(Event::Flushed, point);
    }

    /// Records an event at a point.
    pub(crate) fn record(&mut self, event: Event, point: Point) {
        self.record_numbers(event, u64::from(point.queue.0), point.cursor);
    }

    /// Records an event in the fingerprint.
    pub(crate) fn record_numbers(&mut self, event: Event, first: u64, second: u64) {
        for number in [event as u64, first, second] {
            // One step of FNV-1a, over words.
            let mixed = (self.figures.fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3);
            self.figures.fingerprint = mixed ^ (mixed >> 29);
        }
    }

    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        self.checker
            .as_mut()
            .map(Checker::take_violations)
            .unwrap_or_default()
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut figures = self.figures;
        figures.virtual_ns = self.earlier.virtual_ns + self.timing.end_ns;
        if let Some(checker) = &self.checker {
            figures.waits = self.earlier.waits.plus(checker.waits());
        }
        figures
    }
}
