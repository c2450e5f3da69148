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
//! Programs that swap two buffers from replay to replay have two. If one is replaced after fewer than [`WORTHWHILE`]
//! replays, those of its recording become patient: twice as many replays with the same arguments precede the next one.
//!
//! # Fallback
//! All replays record their tasks, so that an error names its task, in these cases:
//!
//! - The recording has fewer than [`TASKS_MIN`] tasks, or a cube count that the device writes: its checked copy, in the
//!   command buffer's memory, belongs to one replay.
//! - Spans are recorded, since each task has its own times.
//! - The secondary command buffers of the device keep [`RECORDED_BYTES_MAX`] bytes.
//! - A task is refused, or the driver refuses the secondary command buffer. It is not tried again with these arguments.
//!
//! # What a secondary command buffer refers to
//! Its pages have not been freed since: a [`Place`] has the serial number of its page. The plan keeps its pipelines. The
//! command buffers that execute it keep it until their submissions have completed.

use std::sync::{Arc, Weak};

use millstream_gpu::Place;
use millstream_protocol::{
    Access, BoundSlice, Cursor, Plan, Prepared, Refused, Replay, recording::RecordedTask,
};
use millstream_sync::facade::{Mutex, lock};

use super::VulkanDevice;
use super::launching::covered_by_descriptor;
use crate::driver::Code;
use crate::pages::Pages;
use crate::queue::Recorded;

/// The fewest tasks of a recording for a secondary command buffer. On lavapipe the driver takes 0.5 us to execute one, and
/// 0.3 us to record a launch (`benches/RESULTS.md`).
const TASKS_MIN: usize = 4;
/// The most sets of arguments of a recording and queue.
const VARIANTS_MAX: usize = 4;
/// The most bytes that the secondary command buffers of a device keep (I12): their parameters, and an estimate for their
/// commands.
pub(super) const RECORDED_BYTES_MAX: u64 = 64 << 20;
/// The estimate for the commands of a task.
const TASK_BYTES: u64 = 256;
/// The replays after which a secondary command buffer has saved more than it cost.
const WORTHWHILE: u32 = 8;
/// The most replays before a secondary command buffer is recorded.
const PATIENCE_MAX: u32 = 1 << 16;

/// The states of all recordings, which `Backend::prepare` returns. Its drop empties them: after a loss such values are never
/// dropped, and would keep the logical device.
#[derive(Default)]
pub(super) struct Recordings(Vec<Weak<Mutex<Variants>>>);

impl Drop for Recordings {
    fn drop(&mut self) {
        let states = self.0.iter().filter_map(Weak::upgrade);
        states.for_each(|state| lock(&state).lists = Box::default());
    }
}

/// The state of a recording for its replays.
struct Variants {
    /// How the tasks access each parameter.
    accesses: Box<[Access]>,
    /// The number of replays with the same arguments that precede a secondary command buffer.
    patience: u32,
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
    /// The number of replays with these arguments so far.
    Seen(u32),
    /// The secondary command buffer, and the number of its replays.
    Recorded(Recorded, u32),
    /// A secondary command buffer was refused.
    Refused,
}

impl Variant {
    fn has(&self, replay: &Replay<'_>, pages: &Pages) -> bool {
        let here = self.parameters.iter().map(|(place, _)| *place);
        let there = replay.parameters().iter().map(|part| pages.place(part));
        self.words == replay.words() && here.eq(there)
    }

    /// Replaces the arguments.
    fn set(&mut self, replay: &Replay<'_>, pages: &Pages, (accesses, alignment): (&[Access], u64)) {
        self.state = State::Seen(1);
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
                state: State::Seen(0),
            });
        }
        let at = known.unwrap_or(list.len() - 1);
        list[..=at].rotate_right(1);
        let front = list.first_mut()?;
        if known.is_none() {
            if let State::Recorded(_, ..WORTHWHILE) = front.state {
                self.patience = PATIENCE_MAX.min(2 * self.patience);
            }
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
    pub(super) fn prepare_replays(&mut self, plan: &Plan) -> Prepared {
        let is_supported = plan.tasks().len() >= TASKS_MIN;
        if !is_supported || plan.tasks().iter().any(RecordedTask::is_dynamic) {
            return Box::new(());
        }
        let lists = self.queues.iter().map(|_| Vec::with_capacity(VARIANTS_MAX));
        let state = Variants {
            accesses: accesses_of(plan),
            patience: 1,
            lists: lists.collect(),
        };
        let state = Arc::new(Mutex::new(state));
        let states = &mut self.recordings.0;
        if states.len() == states.capacity() {
            states.retain(|state| state.strong_count() > 0);
            // Room for as many as there are, so that not each further recording looks at all of them.
            states.reserve(states.len() + 1);
        }
        states.push(Arc::downgrade(&state));
        Box::new(state)
    }

    /// Executes the secondary command buffer of a replay, and records it first if needed. Returns `false` if there is
    /// none; then nothing was issued.
    pub(super) fn replay_recorded(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &Prepared,
    ) -> Result<bool, Refused> {
        match prepared.downcast_ref::<Arc<Mutex<Variants>>>() {
            Some(state) if self.queues[replay.queue.index()].tracer.is_none() => {
                self.replay_with(replay, &mut lock(state))
            }
            _ => Ok(false),
        }
    }

    fn replay_with(
        &mut self,
        replay: &mut Replay<'_>,
        variants: &mut Variants,
    ) -> Result<bool, Refused> {
        let patience = variants.patience;
        let Some(variant) = variants.find(replay, &self.pages, self.descriptor_alignment) else {
            return Ok(false);
        };
        if let State::Seen(replays) = &mut variant.state {
            if *replays < patience {
                *replays += 1;
                return Ok(false);
            }
            variant.state = match self.record(replay) {
                Ok(Some(recorded)) => State::Recorded(recorded, 0),
                Ok(None) => State::Refused,
                Err(code) => {
                    tracing::debug!(target: "millstream::vulkan", %code, "a secondary command buffer was refused");
                    State::Refused
                }
            };
        }
        let State::Recorded(recorded, replays) = &mut variant.state else {
            return Ok(false);
        };
        *replays = replays.saturating_add(1);
        self.enter()?;
        let queue = &mut self.queues[replay.queue.index()];
        let parameters = variant.parameters.iter().map(|(_, bound)| bound);
        queue.execute(recorded, parameters)?;
        let last = replay.first + replay.plan.tasks().len() as Cursor - 1;
        queue.issue(last);
        Ok(true)
    }

    /// Records the tasks of a replay to a secondary command buffer. Returns `None` if a task is refused, or if secondary
    /// command buffers keep too many bytes.
    fn record(&mut self, replay: &mut Replay<'_>) -> Result<Option<Recorded>, Code> {
        let queue = replay.queue.index();
        let bytes = TASK_BYTES * replay.plan.tasks().len() as u64;
        if self.recorded.in_use() + bytes > self.recorded.limit() {
            return Ok(None);
        }
        self.queues[queue].begin_recorded()?;
        let part = std::mem::replace(&mut replay.part, 0..replay.plan.tasks().len());
        let issued = replay.issue_part(self);
        replay.part = part;
        let recorded = self.queues[queue].end_recorded(&self.recorded, bytes)?;
        Ok(recorded.filter(|_| issued.is_ok()))
    }
}
