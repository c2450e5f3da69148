//! Replays of recordings.
//!
//! # Protocol
//! The device keeps the last [`VARIANTS_MAX`] sets of arguments of each recording and queue: where the parameters lie,
//! and the words.
//!
//! ```text
//!  a replay with other arguments        records its tasks; the arguments are kept, in place of those used longest ago
//!  the next with these arguments        records its tasks to a secondary command buffer, and executes that
//!  each later one with these            executes it: one call
//! ```
//! So a recording that is replayed once, or whose words change with each replay, never has a secondary command buffer.
//! Programs that swap two buffers from replay to replay have two.
//!
//! # Fallback
//! All replays record their tasks, so that an error names its task, in these cases:
//!
//! - The recording has fewer than [`TASKS_MIN`] tasks, or a cube count that the device writes: its checked copy, in the
//!   command buffer's memory, belongs to one replay.
//! - Spans are recorded, since each task has its own times.
//! - The device has [`RECORDED_MAX`] secondary command buffers.
//! - A task is refused, or the driver refuses the secondary command buffer.
//!
//! # What a secondary command buffer refers to
//! Its pages have not been freed since: a [`Place`] has the serial number of its page. The plan keeps its pipelines. The
//! command buffers that execute it keep it until their submissions have completed.

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::backend::{BoundSlice, Plan, Prepared, Replay};
use millstream_protocol::error::Refused;
use millstream_protocol::id::Cursor;
use millstream_protocol::recording::RecordedTask;

use super::VulkanDevice;
use super::launching::covered_by_descriptor;
use crate::driver::Code;
use crate::pages::{Pages, Place};
use crate::queue::Recorded;

/// The fewest tasks of a recording for a secondary command buffer. On lavapipe the driver takes 0.5 us to execute one, and
/// 0.3 us to record a launch (`benches/RESULTS.md`).
const TASKS_MIN: usize = 4;
/// The most sets of arguments of a recording and queue.
const VARIANTS_MAX: usize = 4;
/// The most secondary command buffers of a device (I12).
const RECORDED_MAX: usize = 1024;

/// The device's state for the replays of a recording.
struct Variants {
    /// How the tasks access each parameter.
    accesses: Box<[Access]>,
    /// The sets of arguments, by queue. Each list begins with the set that was used last.
    lists: Box<[Vec<Variant>]>,
}

/// A set of arguments.
struct Variant {
    /// The parameters, with the accesses of the tasks.
    parameters: Vec<(Place, BoundSlice)>,
    words: Vec<u64>,
    state: State,
}

enum State {
    /// One replay had these arguments.
    SeenOnce,
    Recorded {
        recorded: Recorded,
        _counted: Counted,
    },
    /// A secondary command buffer was refused.
    Refused,
}

/// Counts the secondary command buffers of a device: it and they each have a clone.
type Counted = Arc<()>;

impl Variant {
    fn has(&self, replay: &Replay<'_>, pages: &Pages) -> bool {
        let here = self.parameters.iter().map(|(place, _)| *place);
        let there = replay.parameters().iter().map(|part| pages.place(part));
        self.words == replay.words() && here.eq(there)
    }

    /// Replaces the arguments.
    fn set(&mut self, replay: &Replay<'_>, pages: &Pages, (accesses, alignment): (&[Access], u64)) {
        self.state = State::SeenOnce;
        self.words.clear();
        self.words.extend_from_slice(replay.words());
        // No task uses parameters beyond the list.
        let accesses = accesses.iter().chain(std::iter::repeat(&Access::Read));
        let pairs = replay.parameters().iter().zip(accesses);
        let bound = pairs.map(|(part, access)| {
            let bound = BoundSlice {
                access: *access,
                ..*part
            };
            // As if all kernels had descriptors: few parameters begin elsewhere.
            (pages.place(part), covered_by_descriptor(&bound, alignment))
        });
        self.parameters.clear();
        self.parameters.extend(bound);
    }
}

impl Variants {
    /// Moves the set with the arguments of a replay to the front of its list, and returns it. If there is none, replaces
    /// the set that was used longest ago, and returns `None`.
    fn find(&mut self, replay: &Replay<'_>, pages: &Pages, alignment: u64) -> Option<&mut Variant> {
        let list = &mut self.lists[replay.queue.index()];
        let known = list.iter().position(|variant| variant.has(replay, pages));
        if known.is_none() && list.len() < VARIANTS_MAX {
            list.push(Variant {
                parameters: Vec::new(),
                words: Vec::new(),
                state: State::SeenOnce,
            });
        }
        let at = known.unwrap_or(list.len() - 1);
        list[..=at].rotate_right(1);
        let front = list.first_mut()?;
        if known.is_none() {
            front.set(replay, pages, (&self.accesses, alignment));
            return None;
        }
        Some(front)
    }
}

/// Returns how the tasks of a plan access each parameter.
fn accesses_of(plan: &Plan) -> Box<[Access]> {
    let mut accesses = Vec::new();
    for binding in plan.tasks().iter().flat_map(|task| &task.bindings) {
        let index = binding.parameter as usize;
        accesses.resize(accesses.len().max(index + 1), Access::Read);
        if binding.access.writes() {
            accesses[index] = Access::Write;
        }
    }
    accesses.into()
}

impl VulkanDevice {
    /// Returns the state for the replays of a plan.
    pub(super) fn prepare_replays(&self, plan: &Plan) -> Prepared {
        let is_supported = plan.tasks().len() >= TASKS_MIN;
        if !is_supported || plan.tasks().iter().any(RecordedTask::is_dynamic) {
            return Box::new(());
        }
        let lists = self.queues.iter().map(|_| Vec::with_capacity(VARIANTS_MAX));
        Box::new(Variants {
            accesses: accesses_of(plan),
            lists: lists.collect(),
        })
    }

    /// Executes the secondary command buffer of a replay, and records it first if needed. Returns `false` if there is
    /// none; then nothing was issued.
    pub(super) fn replay_recorded(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> Result<bool, Refused> {
        let queue = replay.queue.index();
        let Some(variants) = prepared.downcast_mut::<Variants>() else {
            return Ok(false);
        };
        if self.queues[queue].tracer.is_some() {
            return Ok(false);
        }
        let Some(variant) = variants.find(replay, &self.pages, self.descriptor_alignment) else {
            return Ok(false);
        };
        if let State::SeenOnce = variant.state
            && Arc::strong_count(&self.recorded) <= RECORDED_MAX
        {
            variant.state = match self.record(replay) {
                Ok(Some(recorded)) => State::Recorded {
                    recorded,
                    _counted: self.recorded.clone(),
                },
                Ok(None) => State::Refused,
                Err(code) => {
                    tracing::debug!(target: "millstream::vulkan", %code, "a secondary command buffer was refused");
                    State::Refused
                }
            };
        }
        let State::Recorded { recorded, .. } = &variant.state else {
            return Ok(false);
        };
        self.enter()?;
        let queue = &mut self.queues[queue];
        let parameters = variant.parameters.iter().map(|(_, bound)| bound);
        queue.execute(recorded, parameters)?;
        let last = replay.first + replay.plan.tasks().len() as Cursor - 1;
        queue.issue(last);
        Ok(true)
    }

    /// Records the tasks of a replay to a secondary command buffer. Returns `None` if a task is refused.
    fn record(&mut self, replay: &mut Replay<'_>) -> Result<Option<Recorded>, Code> {
        let queue = replay.queue.index();
        self.queues[queue].begin_recorded()?;
        let issued = replay.issue_all(self);
        let recorded = self.queues[queue].end_recorded()?;
        Ok(recorded.filter(|_| issued.is_ok()))
    }
}
