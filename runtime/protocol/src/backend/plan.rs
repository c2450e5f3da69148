//! The plan of a recording: its tasks, what each of them runs, and which of them come before which. Made once; a [`Replay`] is one run
//! of it.

use std::sync::Arc;

use super::Backend;
use super::task::{BoundCount, BoundSlice, Launch, Place};
use crate::error::Refused;
use crate::hazard::order::Order;
use crate::id::{Cursor, QueueId};
use crate::kernel::{BackendKernel, ExecutionMode};
use crate::launch::{LaunchCount, Pattern};
use crate::recording::{RecordedBinding, RecordedOp, RecordedTask, cut};

/// What a task of a plan is called and runs.
#[derive(Clone)]
pub struct Call {
    /// The name of its kernel, or of what it does.
    pub name: Arc<str>,
    /// What it launches, if it is a launch.
    pub kernel: Option<BackendKernel>,
}

/// A recording as a backend replays it.
pub struct Plan {
    tasks: Arc<[RecordedTask]>,
    calls: Box<[Call]>,
    order: Order,
    /// Where the bindings of each task end, in the list of all.
    ends: Box<[u32]>,
    launches: u64,
}

impl Plan {
    /// The plan of these tasks in this order ([`order_of`](crate::recording::order_of)), each of which is called and runs what `call` says.
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
        Self {
            ends: ends.collect(),
            launches: launches.count() as u64,
            calls: tasks.iter().map(call).collect(),
            order,
            tasks,
        }
    }

    /// The tasks, in the order in which they were recorded.
    #[inline]
    pub fn tasks(&self) -> &[RecordedTask] {
        &self.tasks
    }

    /// What a task is called and runs.
    #[inline]
    pub fn call(&self, task: usize) -> &Call {
        &self.calls[task]
    }

    /// Which tasks come before which, as long as parameters do not overlap.
    #[inline]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// How many of the tasks are launches.
    #[inline]
    pub fn launches(&self) -> u64 {
        self.launches
    }
}

/// The bindings of all tasks of a plan, as they were at its last replay: one with the same parameters finds them there.
#[derive(Default)]
pub struct BoundPlan {
    parameters: Vec<BoundSlice>,
    /// Those of all tasks, one behind the other.
    all: Vec<BoundSlice>,
    /// The scalars of a task with slots.
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

    /// The bindings that a task of the plan had at the last replay.
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

/// A part of a parameter.
#[inline]
fn part(parameters: &[BoundSlice], binding: &RecordedBinding) -> BoundSlice {
    let parameter = &parameters[binding.parameter as usize];
    // One without a page has no bytes.
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

/// One run of a plan: its tasks, bound, at cursors of one queue that follow each other.
pub struct Replay<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The cursor of the first task.
    pub first: Cursor,
    /// What is run.
    pub plan: &'a Plan,
    /// Parameters overlap, so that the tasks are to run one behind the other, and not as the plan's order says.
    pub overlap: bool,
    words: &'a [u64],
    bound: &'a mut BoundPlan,
}

/// What one task of a replay does.
pub enum Step<'a> {
    /// Launches a kernel.
    Launch(Launch<'a>),
    /// Copies the first range to the second.
    Copy(&'a BoundSlice, &'a BoundSlice),
    /// Fills the range.
    Fill(&'a BoundSlice, Pattern),
}

impl<'a> Replay<'a> {
    /// A run with these parameters and words, from the cursor `first` of `queue` on.
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
            words,
            bound,
        }
    }

    /// The bindings of a task.
    #[inline]
    pub fn bindings(&self, task: usize) -> &[BoundSlice] {
        self.bound.bindings(self.plan, task)
    }

    /// What a task does.
    ///
    /// # Errors
    /// Why it cannot run on any device.
    #[inline]
    pub fn step(&mut self, task: usize) -> Result<Step<'_>, Refused> {
        let (recorded, call) = (&self.plan.tasks[task], &self.plan.calls[task]);
        let bindings = &self.bound.all[self.plan.range_of(task)];
        match (&recorded.op, bindings) {
            (RecordedOp::Launch { count, .. }, _) => {
                let Some(kernel) = &call.kernel else {
                    return Err(unfit("the device does not know its kernel"));
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
                    // Nothing is recorded that was not checked.
                    mode: ExecutionMode::Checked,
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
            (RecordedOp::Copy | RecordedOp::Fill(_), _) => Err(unfit("it lacks a binding")),
        }
    }

    /// Issues one task by the backend's call for such.
    ///
    /// # Errors
    /// Why the task was refused; then it is not issued.
    #[inline]
    pub fn issue<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
        task: usize,
    ) -> Result<(), Refused> {
        let (queue, cursor) = (self.queue, self.first + task as Cursor);
        let name = &self.plan.calls[task].name;
        let place = Place {
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

    /// Issues all tasks one by one: what [`Backend::replay`] does of itself.
    ///
    /// # Errors
    /// Which of them, from 0, was refused, and why. Those before it are issued, those behind it are not.
    #[inline]
    pub fn issue_all<B: Backend + ?Sized>(
        &mut self,
        backend: &mut B,
    ) -> Result<(), (usize, Refused)> {
        (0..self.plan.tasks.len()).try_for_each(|task| {
            let issued = self.issue(backend, task);
            issued.map_err(|refused| (task, refused))
        })
    }
}

impl Plan {
    #[inline]
    fn range_of(&self, task: usize) -> std::ops::Range<usize> {
        let start = task.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[task] as usize
    }
}

/// The packed scalars of a task, with this replay's words in their slots.
#[inline]
fn patch<'a>(recorded: &'a RecordedTask, words: &[u64], patched: &'a mut Vec<u64>) -> &'a [u64] {
    if recorded.slots.is_empty() {
        return &recorded.scalars;
    }
    patched.clear();
    patched.extend_from_slice(&recorded.scalars);
    for slot in &recorded.slots {
        let place = patched.get_mut(slot.word as usize);
        // Clients give a word for each slot; a message that was made by hand may not.
        if let (Some(place), Some(word)) = (place, words.get(slot.slot as usize)) {
            *place = *word;
        }
    }
    patched
}

#[cold]
fn unfit(why: &str) -> Refused {
    Refused::Task(why.to_owned())
}
