//! The plan of a recording, and its replays.
//!
//! ```text
//!  recorded tasks ──► order_of ──► Plan::new ──► Backend::prepare          once per recording
//!                     (hazards)                        │ Prepared
//!  parameters, words ──► Replay::new (binds) ──► Backend::replay           each replay: one cursor per task
//! ```
//!
//! A [`Plan`] is made once: the recorded tasks, the name and the kernel of each, and the
//! [order](crate::hazard::order) of the tasks as long as parameters do not overlap. A [`Replay`] is one run of the
//! plan on one queue: task `i` has the cursor `first + i`. If parameters overlap ([`Replay::overlap`]), the order
//! lacks conflicts, and the tasks run in sequence.
//!
//! A [`BoundPlan`] keeps the bindings of the last replay. A replay with the same parameters reuses them and allocates
//! nothing (I9); the comparison covers every field of every parameter (I1), which the mutant `i1_replay_binds_once`
//! weakens.
//!
//! If a task is refused, the tasks before it are issued, and those after it are not. The server then issues the
//! remaining tasks one by one, so that each failure reaches only the data that depends on it (I7).
//!
//! A long plan may have more tasks than its queue has room for. A backend then issues those of [`Replay::part`], unless
//! it runs the whole plan by one call.

use std::ops::Range;
use std::sync::Arc;

use super::Backend;
use super::task::{BoundCount, BoundSlice, Launch, TaskPoint};
use crate::error::Refused;
use crate::hazard::order::Order;
use crate::id::{Cursor, QueueId};
use crate::kernel::BackendKernel;
use crate::launch::{LaunchCount, Pattern};
use crate::recording::{RecordedBinding, RecordedOp, RecordedTask, cut};

/// The name and the kernel of a task of a plan.
#[derive(Clone)]
pub struct Call {
    /// The name of the kernel, or of the operation.
    pub name: Arc<str>,
    /// The kernel, if the task is a launch.
    pub kernel: Option<BackendKernel>,
    /// Whether the kernel prints.
    pub prints: bool,
}

/// A recording in the form that a backend replays.
pub struct Plan {
    tasks: Arc<[RecordedTask]>,
    calls: Box<[Call]>,
    order: Order,
    /// For each task the end of its bindings in the list of all bindings.
    ends: Box<[u32]>,
    launches: u64,
    prints: bool,
}

impl Plan {
    /// Creates the plan of these tasks in this order ([`order_of`](crate::recording::order_of)). `call` returns the
    /// name and the kernel of a task.
    pub fn new(
        tasks: Arc<[RecordedTask]>,
        order: Order,
        call: impl FnMut(&RecordedTask) -> Call,
    ) -> Self {
        let ends = tasks.iter().scan(0_u32, |end, task| {
            *end += task.bindings.len() as u32;
            Some(*end)
        });
        let launches = tasks.iter().filter(|task| task.kernel().is_some());
        let calls: Box<[Call]> = tasks.iter().map(call).collect();
        Self {
            ends: ends.collect(),
            launches: launches.count() as u64,
            prints: calls.iter().any(|call| call.prints),
            calls,
            order,
            tasks,
        }
    }

    /// Returns the tasks, in recorded order.
    #[inline]
    pub fn tasks(&self) -> &[RecordedTask] {
        &self.tasks
    }

    /// Returns the name and the kernel of a task.
    #[inline]
    pub fn call(&self, task: usize) -> &Call {
        &self.calls[task]
    }

    /// Returns the order of the tasks, which is valid as long as parameters do not overlap.
    #[inline]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns whether a task may print.
    #[inline]
    pub fn prints(&self) -> bool {
        self.prints
    }

    /// Returns the number of launches among the tasks.
    #[inline]
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// Returns the number of launches among these tasks.
    pub fn launches_of(&self, tasks: Range<usize>) -> u64 {
        if tasks.len() == self.tasks.len() {
            return self.launches;
        }
        let launches = self.tasks[tasks]
            .iter()
            .filter(|task| task.kernel().is_some());
        launches.count() as u64
    }
}

/// The bindings of all tasks of a plan at its last replay. A replay with the same parameters reuses them.
#[derive(Default)]
pub struct BoundPlan {
    parameters: Vec<BoundSlice>,
    /// The bindings of all tasks, concatenated.
    all: Vec<BoundSlice>,
    /// The scalars of the task with word slots that was patched last.
    patched: Vec<u64>,
}

impl BoundPlan {
    /// Binds the tasks of a plan to these parameters.
    #[inline]
    fn bind(&mut self, plan: &Plan, parameters: &[BoundSlice]) {
        if self.parameters != parameters || self.all.is_empty() {
            self.bind_anew(plan, parameters);
        }
    }

    /// Returns the bindings that a task of the plan had at the last replay.
    #[inline]
    pub fn bindings(&self, plan: &Plan, task: usize) -> &[BoundSlice] {
        &self.all[plan.range_of(task)]
    }

    fn bind_anew(&mut self, plan: &Plan, parameters: &[BoundSlice]) {
        self.parameters.clear();
        self.parameters.extend_from_slice(parameters);
        self.all.clear();
        let bindings = plan.tasks.iter().flat_map(|task| &task.bindings);
        self.all
            .extend(bindings.map(|binding| part(parameters, binding)));
    }
}

/// Returns a part of a parameter.
#[inline]
fn part(parameters: &[BoundSlice], binding: &RecordedBinding) -> BoundSlice {
    let parameter = &parameters[binding.parameter as usize];
    // A parameter without a page has length 0.
    let (offset, len) = cut(binding.offset, binding.len, parameter.len);
    BoundSlice {
        page: parameter.page,
        offset: parameter.offset + offset,
        len,
        access: binding.access,
        slice: parameter.slice,
        slice_offset: parameter.slice_offset + offset,
    }
}

/// One run of a plan: its tasks with their bindings, at consecutive cursors of one queue.
pub struct Replay<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The cursor of the first task.
    pub first: Cursor,
    /// The plan.
    pub plan: &'a Plan,
    /// Whether parameters overlap. If so, the tasks run in sequence, and the plan's order does not hold.
    pub overlap: bool,
    /// The tasks that may be issued one by one now. Further ones would not fit into the queue (I12); the server issues
    /// them as room appears. All tasks, unless the plan is long.
    pub part: Range<usize>,
    words: &'a [u64],
    bound: &'a mut BoundPlan,
}

/// The operation of one task of a replay.
pub enum Step<'a> {
    /// Launches a kernel.
    Launch(Launch<'a>),
    /// Copies the first range to the second.
    Copy(&'a BoundSlice, &'a BoundSlice),
    /// Fills the range.
    Fill(&'a BoundSlice, Pattern),
}

impl<'a> Replay<'a> {
    /// Creates a run with these parameters and words, from the cursor `first` of `queue` on.
    #[inline]
    pub fn new(
        plan: &'a Plan,
        (queue, first): (QueueId, Cursor),
        parameters: &[BoundSlice],
        words: &'a [u64],
        bound: &'a mut BoundPlan,
    ) -> Self {
        bound.bind(plan, parameters);
        Self {
            queue,
            first,
            plan,
            overlap: false,
            part: 0..plan.tasks.len(),
            words,
            bound,
        }
    }

    /// Returns the parameters. With the [words](Replay::words) they determine what the tasks do.
    #[inline]
    pub fn parameters(&self) -> &[BoundSlice] {
        &self.bound.parameters
    }

    /// Returns the words of this replay, for the scalars that each replay sets.
    #[inline]
    pub fn words(&self) -> &[u64] {
        self.words
    }

    /// Returns the bindings of a task.
    #[inline]
    pub fn bindings(&self, task: usize) -> &[BoundSlice] {
        self.bound.bindings(self.plan, task)
    }

    /// Returns the operation of a task.
    ///
    /// # Errors
    /// Why no device can run the task.
    #[inline]
    pub fn step(&mut self, task: usize) -> Result<Step<'_>, Refused> {
        let (recorded, call) = (&self.plan.tasks[task], &self.plan.calls[task]);
        let bindings = &self.bound.all[self.plan.range_of(task)];
        match (&recorded.op, bindings) {
            (RecordedOp::Launch { count, .. }, _) => {
                let Some(kernel) = &call.kernel else {
                    return Err(malformed(
                        "its kernel is not registered on this device; prepare the kernel here",
                    ));
                };
                let (bindings, count) = match (count, bindings) {
                    (LaunchCount::Static(count), all) => (all, BoundCount::Static(*count)),
                    (LaunchCount::Dynamic, [bindings @ .., count]) => {
                        (bindings, BoundCount::Dynamic(*count))
                    }
                    (LaunchCount::Dynamic, []) => (&[][..], BoundCount::Static([0; 3])),
                };
                Ok(Step::Launch(Launch {
                    name: &call.name,
                    kernel,
                    count,
                    bindings,
                    scalars: patch(recorded, self.words, &mut self.bound.patched),
                    metadata: &recorded.metadata,
                    tensor_maps: &recorded.tensor_maps,
                }))
            }
            (RecordedOp::Copy, [source, target]) => Ok(Step::Copy(source, target)),
            (RecordedOp::Fill(pattern), [target]) => {
                debug_assert!(
                    pattern.divides(target.offset, target.len),
                    "views are whole elements"
                );
                Ok(Step::Fill(target, *pattern))
            }
            (RecordedOp::Copy, bindings) => Err(malformed(&miscounted("copy", 2, bindings.len()))),
            (RecordedOp::Fill(_), bindings) => {
                Err(malformed(&miscounted("fill", 1, bindings.len())))
            }
        }
    }

    /// Issues one task with the backend's call for its operation.
    ///
    /// # Errors
    /// Why the task was refused. It is then not issued.
    #[inline]
    pub fn issue<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        task: usize,
    ) -> Result<(), Refused> {
        let (queue, cursor) = (self.queue, self.first + task as Cursor);
        let name = &self.plan.calls[task].name;
        let place = TaskPoint {
            queue,
            cursor,
            name,
        };
        match self.step(task)? {
            Step::Launch(launch) => backend.launch(queue, cursor, &launch),
            Step::Copy(source, target) => backend.copy(place, source, target),
            Step::Fill(target, pattern) => backend.fill(place, target, pattern),
        }
    }

    /// Issues the tasks of the [part](Replay::part) one by one: the default of [`Backend::replay`]. Returns the index of
    /// the first task that is not issued yet.
    ///
    /// # Errors
    /// The index of the refused task, from 0, and the reason. Tasks before it are issued, tasks after it are not.
    #[inline]
    pub fn issue_part<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
    ) -> Result<usize, (usize, Refused)> {
        for task in self.part.clone() {
            let issued = self.issue(backend, task);
            issued.map_err(|refused| (task, refused))?;
        }
        Ok(self.part.end)
    }
}

impl Plan {
    #[inline]
    fn range_of(&self, task: usize) -> Range<usize> {
        let start = task.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[task] as usize
    }
}

/// Returns the packed scalars of a task, with those that this replay sets.
#[inline]
fn patch<'a>(recorded: &'a RecordedTask, words: &[u64], patched: &'a mut Vec<u64>) -> &'a [u64] {
    if recorded.slots.is_empty() {
        return &recorded.scalars;
    }
    patched.clear();
    patched.extend_from_slice(&recorded.scalars);
    for slot in &recorded.slots {
        slot.set(patched, words);
    }
    patched
}

#[cold]
fn miscounted(op: &str, expected: usize, given: usize) -> String {
    format!("a recorded {op} needs {expected} bindings, got {given}")
}

#[cold]
fn malformed(why: &str) -> Refused {
    Refused::Task(why.to_owned())
}
