//! One replay as a graph of the driver. `replay` has the protocol.

use std::sync::Arc;

use millstream_protocol::{Prepared, QueueId, Refused, Replay, Step};

use super::CudaDevice;
use crate::driver::{Code, graph_api};
use crate::fill::for_each_memset;
use crate::replay::{Action, Graph, QueueStates, State, StepSink, Steps};

/// Fewest tasks of a recording for a graph. Not measured yet.
const TASKS_MIN: usize = 3;
/// Most graphs of a device (I12). Further recordings are replayed task by task.
const GRAPHS_MAX: usize = 1024;

impl CudaDevice {
    /// Launches a replay as a graph. Returns `false` if nothing was issued, so that the caller has to issue the tasks
    /// one by one.
    pub(crate) fn replay_as_graph(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<bool, Refused> {
        let tasks = replay.plan.tasks().len();
        let queue = replay.queue;
        let state = match prepared.downcast_mut::<QueueStates>() {
            Some(states) if tasks >= TASKS_MIN && !self.replay_per_task && !replay.overlap => {
                &mut states[queue.index()]
            }
            _ => return Ok(false),
        };
        match state {
            State::Unsupported => return Ok(false),
            State::New => {
                *state = State::SeenOnce;
                return Ok(false);
            }
            State::SeenOnce if Arc::strong_count(&self.replays.graphs) > GRAPHS_MAX => {
                return Ok(false);
            }
            State::SeenOnce | State::Ready(_) => {}
        }
        // Before the steps are collected: the driver encodes their tensor maps.
        let _entered = self.enter()?;
        let mut steps = std::mem::take(&mut self.replays.steps);
        steps.clear();
        let collected = (0..tasks).try_for_each(|task| self.collect(replay, &mut steps, task));
        let launched = match collected {
            // Issuing task by task names the refused task, and issues those before it.
            Err(_) => Ok(false),
            Ok(()) if steps.unsupported => {
                *state = State::Unsupported;
                Ok(false)
            }
            Ok(()) if steps.list.is_empty() => Ok(false),
            Ok(()) => {
                self.queues[queue.index()].begin();
                self.launch_graph(queue, replay, state, &mut steps)
            }
        };
        self.replays.steps = steps;
        match launched {
            Ok(true) => {
                let last = replay.first + tasks as u64 - 1;
                self.queues[queue.index()].issue_range(replay.first, last);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(code) if code.is_sticky() => Err(code.into()),
            Err(code) => {
                tracing::debug!(target: "millstream::cuda", %code, "the driver refused a graph; replaying task by task");
                *state = State::Unsupported;
                Ok(false)
            }
        }
    }

    /// Adds the steps of a task.
    fn collect(
        &mut self,
        replay: &mut Replay<'_>,
        steps: &mut Steps,
        task: usize,
    ) -> Result<(), Refused> {
        let queue = replay.queue;
        let sink = StepSink { steps, task };
        match replay.step(task)? {
            Step::Launch(launch) => self.launch_kernel(queue, &launch, Some(sink)),
            Step::Copy(source, target) => self.copy_within(queue, source, target, Some(sink)),
            Step::Fill(target, pattern) => {
                let (address, bytes) = self.range_of(target)?;
                for_each_memset(address, bytes, pattern, |memset| {
                    sink.steps.push(task, Action::Memset(memset));
                    Ok(())
                })
            }
        }
    }

    /// Launches the steps as a graph. Returns `false` if no graph has their shape, or the driver supports no graphs.
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
            // Other handles may need other calls, for example for a shorter fill. Then this replay is issued task by task.
            State::Ready(graph) => graph.replay(steps, stream),
            State::SeenOnce => {
                let (context, counted) = (self.context().clone(), self.replays.graphs.clone());
                let order = replay.plan.order();
                let graph = Graph::new(context, api, std::mem::take(steps), order, counted)?;
                graph.launch(stream)?;
                *state = State::Ready(Box::new(graph));
                Ok(true)
            }
            State::New | State::Unsupported => Ok(false),
        }
    }
}
