//! One replay as a graph of the driver, where it can be one: see `replay`.

use std::sync::Arc;

use millstream_protocol::backend::{Prepared, Replay, Step};
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;

use super::CudaDevice;
use crate::driver::{Class, Code, graph_api};
use crate::fill::sets;
use crate::replay::{Action, Graph, Known, State, Steps, Taking};

/// A recording of fewer tasks is not worth a graph. Not measured yet.
const TASKS_MIN: usize = 3;
/// Graphs of a device, at most (I12). Further recordings are issued task by task.
const GRAPHS_MAX: usize = 1024;

impl CudaDevice {
    /// Runs a replay as a graph, if it can be one. False: nothing was issued.
    pub(crate) fn replay_as_graph(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<bool, Refused> {
        let tasks = replay.plan.tasks().len();
        let queue = replay.queue;
        let state = match prepared.downcast_mut::<Known>() {
            Some(known) if tasks >= TASKS_MIN && !self.one_by_one && !replay.overlap => {
                &mut known.0[queue.index()]
            }
            _ => return Ok(false),
        };
        match state {
            State::Never => return Ok(false),
            State::New => {
                *state = State::Once;
                return Ok(false);
            }
            State::Once if Arc::strong_count(&self.replays.graphs) > GRAPHS_MAX => {
                return Ok(false);
            }
            State::Once | State::Ready(_) => {}
        }
        let mut steps = std::mem::take(&mut self.replays.steps);
        steps.clear();
        let taken = (0..tasks).try_for_each(|task| self.take_down(replay, &mut steps, task));
        let launched = match taken {
            // Task by task it is refused by name, and what comes before it is issued.
            Err(_) => Ok(false),
            Ok(()) if steps.is_unfit => {
                *state = State::Never;
                Ok(false)
            }
            Ok(()) if steps.list.is_empty() => Ok(false),
            Ok(()) => {
                self.enter()?;
                self.queues[queue.index()].begin();
                self.launch_graph(queue, replay, state, &mut steps)
            }
        };
        self.replays.steps = steps;
        match launched {
            Ok(true) => {
                let last = replay.first + tasks as u64 - 1;
                self.queues[queue.index()].issue_all(replay.first, last);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(code) if code.class() == Class::Sticky => Err(self.refusal("cuGraphLaunch", code)),
            Err(code) => {
                tracing::debug!(target: "millstream::cuda", %code, "the driver takes no graph of a recording");
                *state = State::Never;
                Ok(false)
            }
        }
    }

    /// Adds what a task does to the steps.
    fn take_down(
        &mut self,
        replay: &mut Replay<'_>,
        steps: &mut Steps,
        task: usize,
    ) -> Result<(), Refused> {
        let queue = replay.queue;
        let taking = Taking { steps, task };
        match replay.step(task)? {
            Step::Launch(launch) => self.launch_kernel(queue, &launch, Some(taking)),
            Step::Copy(source, target) => self.move_bytes(queue, source, target, Some(taking)),
            Step::Fill(target, pattern) => {
                let (address, bytes) = self.place_of(target)?;
                sets(address, bytes, pattern, |set| {
                    taking.steps.push(task, Action::Set(set));
                    Ok(())
                })
            }
        }
    }

    /// Launches the steps as a graph; false, if there is none that could.
    fn launch_graph(
        &mut self,
        queue: QueueId,
        replay: &Replay<'_>,
        state: &mut State,
        steps: &mut Steps,
    ) -> Result<bool, Code> {
        let stream = self.stream(queue);
        let Some(api) = graph_api() else {
            return Ok(false);
        };
        match state {
            State::Ready(graph) if graph.fits(steps) => {
                graph.change(steps)?;
                graph.launch(stream)?;
                graph.changed(steps);
            }
            State::Once => {
                let (context, counted) = (self.context().clone(), self.replays.graphs.clone());
                let order = replay.plan.order();
                let graph = Graph::new(context, api, std::mem::take(steps), order, counted)?;
                graph.launch(stream)?;
                *state = State::Ready(Box::new(graph));
            }
            // Other handles may need other calls: a fill of a shorter one. That replay goes task by task.
            _ => return Ok(false),
        }
        Ok(true)
    }
}
