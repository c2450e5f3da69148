//! Replays of recordings: taken down as steps, and launched as one graph of the driver.
//!
//! The first replay of a recording on a queue is issued task by task, as if there was no recording: many are replayed
//! once. The second builds a graph, and each one after it changes what is different (other handles, mostly) and
//! launches it: one call of the driver for all tasks, and one more for each that changed. There is a graph for each
//! queue, because launches of one graph wait for each other. In it, what does not conflict is not ordered (`order`): the driver runs
//! it side by side.
//!
//! Whatever the driver refuses of a graph is issued step by step instead, so that a failure names its task.

mod graph;
mod order;
mod steps;

use std::any::Any;
use std::collections::HashMap;

use graph::Graph;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::id::{Cursor, QueueId, RecordingId};
use millstream_protocol::kernel::BackendKernel;
pub(crate) use steps::Action;
use steps::Steps;

use crate::device::CudaDevice;
use crate::driver::{Class, Code, graph_api};
use crate::launch::{Parameters, Shape};
use crate::product::Multiply;

/// A recording of fewer tasks is not worth a graph. Not measured yet.
const TASKS_MIN: usize = 3;
/// Recordings of queues that are remembered, at most (I12). Others are issued task by task.
const KNOWN_MAX: usize = 1024;

/// What is known of a recording on a queue.
enum Known {
    /// It was replayed.
    Once,
    /// The next replay launches it.
    Ready(Box<Graph>),
    /// The driver takes no graph of it, or it has what graphs do not have here.
    Never,
}

/// The replay that is being taken down.
struct Taking {
    recording: RecordingId,
    first: Option<Cursor>,
    last: Cursor,
    /// Its graph is to be built: kernels are kept.
    build: bool,
    /// It has a step that no graph can have.
    unfit: bool,
    /// A task of it was refused as it was taken down: what there is is not the recording.
    cut: bool,
}

/// Recordings that were replayed.
#[derive(Default)]
pub(crate) struct Replays {
    known: HashMap<(RecordingId, QueueId), Known>,
    taking: Option<Taking>,
    steps: Steps,
    kernels: Vec<BackendKernel>,
}

impl Replays {
    /// Begins a replay of so many tasks: is it to be taken down?
    pub(crate) fn begin(&mut self, queue: QueueId, recording: RecordingId, tasks: usize) -> bool {
        if tasks < TASKS_MIN {
            return false;
        }
        let build = match self.known.get(&(recording, queue)) {
            None => {
                if self.known.len() < KNOWN_MAX {
                    self.known.insert((recording, queue), Known::Once);
                }
                return false;
            }
            Some(Known::Never) => return false,
            Some(Known::Once) => true,
            Some(Known::Ready(_)) => false,
        };
        self.steps.clear();
        self.kernels.clear();
        self.taking = Some(Taking {
            recording,
            first: None,
            last: 0,
            build,
            unfit: false,
            cut: false,
        });
        true
    }

    /// Is a replay being taken down? Then the task at this cursor is one of it; which one, from 0.
    #[inline]
    pub(crate) fn task(&mut self, cursor: Cursor) -> Option<usize> {
        let taking = self.taking.as_mut()?;
        let first = *taking.first.get_or_insert(cursor);
        taking.last = cursor;
        Some((cursor - first) as usize)
    }

    /// A task that was to be taken down was refused.
    #[cold]
    pub(crate) fn cut(&mut self) {
        if let Some(taking) = &mut self.taking {
            taking.cut = true;
        }
    }

    /// Takes a launch down.
    pub(crate) fn launch(
        &mut self,
        task: usize,
        (code, parameter_bytes): (&BackendKernel, &[usize]),
        shape: Shape,
        parameters: &Parameters,
        bindings: &[BoundSlice],
    ) {
        let launched = (shape, parameters, parameter_bytes);
        self.steps.launch(task, launched, bindings);
        if self.taking.as_ref().is_some_and(|taking| taking.build) {
            self.kernels.push(code.clone());
        }
    }

    /// Takes a product by the library down, which no graph here can have.
    pub(crate) fn multiply(&mut self, task: usize, multiply: Multiply, bindings: &[BoundSlice]) {
        self.steps.multiply(task, multiply, bindings);
        self.unfit();
    }

    /// The replay that is taken down has a step that no graph can have.
    #[cold]
    pub(crate) fn unfit(&mut self) {
        if let Some(taking) = &mut self.taking {
            taking.unfit = true;
        }
    }

    /// Takes a copy or a part of a fill down.
    pub(crate) fn push<'a>(
        &mut self,
        task: usize,
        action: Action,
        bindings: impl IntoIterator<Item = &'a BoundSlice>,
    ) {
        self.steps.push(task, action, bindings);
    }

    /// What the recording has on any queue.
    pub(crate) fn release(&mut self, recording: RecordingId) -> Option<Box<dyn Any + Send>> {
        let of_it = self.known.extract_if(|(of, _), _| *of == recording);
        let graphs: Vec<_> = of_it
            .filter_map(|(_, known)| match known {
                Known::Ready(graph) => Some(graph),
                Known::Once | Known::Never => None,
            })
            .collect();
        (!graphs.is_empty()).then(|| Box::new(graphs) as Box<dyn Any + Send>)
    }
}

impl CudaDevice {
    /// Issues what was taken down.
    pub(crate) fn end_taking(&mut self, queue: QueueId) -> Result<(), (usize, Refused)> {
        let Some(taking) = self.replays.taking.take() else {
            return Ok(());
        };
        let Some(first) = taking.first else {
            return Ok(());
        };
        self.enter().map_err(|refused| (0, refused))?;
        self.queues[queue.index()].begin();
        match self.launch_graph(queue, &taking) {
            Ok(true) => {}
            Ok(false) => self.issue_steps(queue, first)?,
            Err(code) if code.class() == Class::Sticky => {
                return Err((0, self.refusal("cuGraphLaunch", code)));
            }
            Err(code) => {
                tracing::debug!(target: "millstream::cuda", %code, "the driver takes no graph of a recording");
                let known = (taking.recording, queue);
                self.replays.known.insert(known, Known::Never);
                self.issue_steps(queue, first)?;
            }
        }
        self.queues[queue.index()].issue_all(first, taking.last);
        Ok(())
    }

    /// Launches the steps as a graph; false, if there is none that could.
    fn launch_graph(&mut self, queue: QueueId, taking: &Taking) -> Result<bool, Code> {
        let stream = self.stream(queue);
        let context = self.context().clone();
        let Some(api) = graph_api() else {
            return Ok(false);
        };
        let replays = &mut self.replays;
        if taking.unfit {
            let known = (taking.recording, queue);
            replays.known.insert(known, Known::Never);
        }
        if taking.unfit || taking.cut || replays.steps.list.is_empty() {
            return Ok(false);
        }
        let Some(known) = replays.known.get_mut(&(taking.recording, queue)) else {
            return Ok(false);
        };
        match known {
            Known::Ready(graph) if graph.fits(&replays.steps) => {
                graph.change(&replays.steps)?;
                graph.launch(stream)?;
                graph.changed(&mut replays.steps);
            }
            Known::Once if taking.build => {
                let steps = std::mem::take(&mut replays.steps);
                let kernels = std::mem::take(&mut replays.kernels);
                let graph = match Graph::new(&context, api, steps, kernels) {
                    Ok(graph) => graph,
                    Err(refused) => {
                        let (code, steps) = *refused;
                        replays.steps = steps;
                        return Err(code);
                    }
                };
                if let Err(code) = graph.launch(stream) {
                    replays.steps = graph.into_steps();
                    return Err(code);
                }
                *known = Known::Ready(Box::new(graph));
            }
            // Other handles may need other calls (a fill of a shorter one), or another order (two of them overlap
            // that did not). That replay goes step by step.
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Issues the steps one by one.
    fn issue_steps(&mut self, queue: QueueId, first: Cursor) -> Result<(), (usize, Refused)> {
        let stream = self.stream(queue);
        let steps = std::mem::take(&mut self.replays.steps);
        let mut begun = None;
        let issued = steps.list.iter().try_for_each(|step| {
            // SAFETY: addresses were resolved as the steps were taken down; the recording keeps its kernels.
            let issued = unsafe { steps.issue(step, self.api(), stream) };
            issued.map_err(|(call, code)| (step.task, call, code))?;
            begun = Some(step.task);
            Ok(())
        });
        self.replays.steps = steps;
        issued.map_err(|(task, call, code)| {
            if task > 0 {
                self.queues[queue.index()].issue_all(first, first + task as Cursor - 1);
            }
            let refused = self.refusal(call, code);
            (task, self.cut_short(begun == Some(task), refused))
        })
    }
}
