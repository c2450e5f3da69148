//! One step of the device, chosen by the seed.
//!
//! A queue is an ordered list of tasks and waits. Three cursors say how far it is: `done` (has run), `flushed` (may
//! be seen), and `published` (the host sees it). `published <= min(done, flushed)` always holds.
//!
//! ```text
//!  call:    push, wait -> appended;  flush -> flushed = cursor
//!  choices: Run(queue)              its first item is a task, no task of it is running, and its earlier waits passed
//!           Publish(queue, cursor)  any cursor in published + 1 ..= min(done, flushed)
//!  step:    Run     -> runs the task without the lock, then done = its cursor
//!           Publish -> published = the cursor, and the timeline wakes its waiters
//! ```
//! A wait at the front is removed once its point has **completed** (`done`), not once it is published, as on a real
//! device. A held queue has no choices, and a lost device has none at all.
//!
//! The step is drawn from all choices of all queues, weighted by [`Sim::slow`](crate::Sim::slow). So the host's view
//! lags behind the device by a random amount, and queues interleave in every order that the waits permit. In a
//! punctual device the step is the earliest choice in virtual time, up to the horizon of its clock. All randomness comes from one generator, under
//! the lock. In a driven device calls and steps do not overlap, so the same seed gives the same run.
//!
//! `tests/device/runs.rs` checks that, `tests/device/calls.rs` checks that publication lags and stays behind the flush.

use millstream_protocol::{Cursor, Point, QueueId, Reason};

use crate::entry::{Entry, Item, Op};
use crate::faults::{Call, Verdict};
use crate::run::{Fate, Ran, Running, run};
use crate::shared::Shared;
use crate::state::{Event, State};

/// The weight of a queue with normal speed.
const NORMAL_WEIGHT: u64 = 1000;

/// A possible next step.
#[derive(Clone, Copy)]
enum Choice {
    Run(usize),
    Publish(usize, Cursor),
}

/// The chosen step, with everything it needs without the lock.
enum Next {
    Run(Running),
    Publish(Point),
}

/// Runs one step. Returns `false` if there was none to run.
pub(crate) fn step(shared: &Shared) -> bool {
    match shared.with(|state| state.next(shared)) {
        None => return false,
        Some(Next::Publish(point)) => {
            shared.timelines[point.queue.index()].publish(point.cursor);
        }
        Some(Next::Run(task)) => {
            let ran = run(&shared.table, task);
            shared.with(|state| state.finish(&ran));
        }
    }
    true
}

/// Returns `true` if a step can run.
pub(crate) fn can_step(shared: &Shared) -> bool {
    shared.with(|state| match state.punctual {
        true => next_ns(state).is_some_and(|at_ns| at_ns <= state.horizon_ns),
        false => !state.choices().is_empty(),
    })
}

/// Returns the virtual time of the next step.
pub(crate) fn next_ns(state: &mut State) -> Option<u64> {
    let choices = state.choices();
    Some(state.earliest(choices)?.0)
}

impl State {
    /// Returns why a task that is about to begin was withdrawn.
    fn withdrawn(&mut self, entry: &mut Entry, shared: &Shared) -> Option<Reason> {
        let (index, terms) = (entry.point.queue.index(), entry.withdrawal.take());
        if matches!(entry.op, Op::Mark) {
            return None;
        }
        let withdrawals = &mut self.queues[index].withdrawals;
        if let Some(terms) = terms {
            withdrawals.set(terms);
        }
        withdrawals.reason(entry.point.cursor, &shared.timelines[index])
    }

    fn next(&mut self, shared: &Shared) -> Option<Next> {
        match self.choose()? {
            Choice::Publish(index, most) => {
                let queue = &mut self.queues[index];
                let cursor = queue.published + 1 + self.random.below(most - queue.published);
                queue.published = cursor;
                if self.punctual {
                    self.timing
                        .advance_clock(self.timing.ended_ns(index, cursor));
                }
                let point = Point::new(QueueId(index as u8), cursor);
                self.check(|checker| checker.published(point));
                self.record(Event::Published, point);
                Some(Next::Publish(point))
            }
            Choice::Run(index) => {
                let Some(Item::Task(mut entry)) = self.queues[index].items.pop_front() else {
                    return None;
                };
                self.queues[index].running = true;
                let withdrawn = self.withdrawn(&mut entry, shared);
                let fate = match self.judge(Call::Run) {
                    verdict if withdrawn.is_some() && !matches!(verdict, Verdict::LosesDevice) => {
                        withdrawn.map_or(Fate::Lost, Fate::Withdrawn)
                    }
                    Verdict::Proceeds if self.moves_data => Fate::Runs,
                    Verdict::Proceeds => Fate::Passes,
                    Verdict::Fails(number) => Fate::Fails(number),
                    Verdict::LosesDevice => Fate::Lost,
                };
                Some(Next::Run(Running {
                    entry,
                    fate,
                    seed: self.random.next(),
                    checks: self.checker.is_some(),
                }))
            }
        }
    }

    fn choose(&mut self) -> Option<Choice> {
        let choices = self.choices();
        if self.punctual {
            let (at_ns, choice) = self.earliest(choices)?;
            return (at_ns <= self.horizon_ns).then_some(choice);
        }
        let weight = |choice: &Choice| {
            let (Choice::Run(queue) | Choice::Publish(queue, _)) = *choice;
            (NORMAL_WEIGHT / self.timing.slow[queue]).max(1)
        };
        let all: u64 = choices.iter().map(weight).sum();
        if all == 0 {
            return None;
        }
        let mut left = self.random.below(all);
        choices.iter().copied().find(|choice| {
            let weight = weight(choice);
            let chosen = left < weight;
            left = left.saturating_sub(weight);
            chosen
        })
    }

    /// Returns the first choice in virtual time: the host sees an end before a task begins that could have observed
    /// it. Returns its time, too.
    fn earliest(&self, choices: Vec<Choice>) -> Option<(u64, Choice)> {
        let first = choices.into_iter().map(|choice| match choice {
            Choice::Run(queue) => (self.timing.free_ns(queue), choice),
            Choice::Publish(queue, _) => {
                let cursor = self.queues[queue].published + 1;
                let ended_ns = self.timing.ended_ns(queue, cursor);
                (ended_ns, Choice::Publish(queue, cursor))
            }
        });
        let is_run = |choice: &Choice| matches!(choice, Choice::Run(_));
        first.min_by_key(|(at_ns, choice)| (*at_ns, is_run(choice)))
    }

    fn choices(&mut self) -> Vec<Choice> {
        let mut choices = Vec::new();
        if self.lost {
            // Queued tasks fail when the device closes.
            return choices;
        }
        for index in 0..self.queues.len() {
            if self.holds.is_held(index) {
                continue;
            }
            self.pass_waits(index);
            let queue = &self.queues[index];
            if !queue.running && matches!(queue.items.front(), Some(Item::Task(_))) {
                choices.push(Choice::Run(index));
            }
            let most = queue.done.min(queue.flushed);
            if most > queue.published {
                choices.push(Choice::Publish(index, most));
            }
        }
        choices
    }

    /// Removes waits from the front of a queue whose points have completed.
    fn pass_waits(&mut self, index: usize) {
        while let Some(Item::Wait(point)) = self.queues[index].items.front() {
            let point = *point;
            let other = self.queues.get(point.queue.index());
            if self.queues[index].running || other.is_some_and(|other| other.done < point.cursor) {
                return;
            }
            self.queues[index].items.pop_front();
            self.timing.waited(index, point);
        }
    }

    /// A task has run.
    fn finish(&mut self, ran: &Ran) {
        let entry = &*ran.entry;
        self.check(|checker| {
            checker.ran(entry.point, &entry.name, &entry.bindings, &ran.observed);
        });
        let queue = &mut self.queues[entry.point.queue.index()];
        queue.running = false;
        queue.done = entry.point.cursor;
        self.memory.ended(&entry.bindings);
        self.timing
            .ran(entry.point, &entry.name, &entry.bindings, ran.work);
        self.figures.tasks += 1;
        self.record(Event::Ran, entry.point);
    }
}
