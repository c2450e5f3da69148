//! Scheduling: which streams there are, what they hold, and which of them goes next on which queue.
//!
//! | module | what it is |
//! | --- | --- |
//! | `actor` | a logical stream: the tasks that it holds, and why its first one cannot go yet |
//! | `task` | a task that a stream holds |
//! | `queue` | a physical queue: how far it was issued, and how far it is |
//! | `turns` | whose turn it is among the streams of one queue |
//! | `holding` | how a task enters its stream, and how it leaves it |
//! | `goes` | when a stream is in its queue's turn, and how many tasks it may issue then |
//! | `cursors` | which cursor the next task of a queue takes, how far the device has come, and whether there is room |
//! | `covers` | which tasks of a stream the token of a profile covers |
//! | `host_turns` | host functions: which waits for what, and which run |
//! | `parking` | reservations that wait for memory |
//! | `seats` | on which queue a stream sits |
//! | `remains` | what is left of streams when their device goes away |
//! | `waits` | which held tasks come after which, and what becomes of that as they are issued |
//!
//! [`Scheduler`] owns them: each change of a stream or a queue is one of its methods, named after the step, and the conductor
//! sees both through questions. A [`HeldTask`] is what the two pass to each other. The scheduler calls no backend and knows no
//! bytes: what conflicts is told by the hazards, and what a task does is the conductor's.

mod actor;
mod covers;
mod cursors;
mod goes;
mod holding;
mod host_turns;
mod parking;
mod queue;
mod remains;
mod seats;
mod task;
mod turns;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millstream_protocol::id::{ClientId, QueueId};
use millstream_protocol::options::{Settings, Strategy};
use millstream_sync::timeline::Timeline;
use slab::Slab;

use actor::StreamActor;
pub(crate) use holding::First;
pub(crate) use host_turns::{HostEnd, HostTurn};
pub(crate) use queue::QueueState;
pub(crate) use seats::NewStream;
pub(crate) use task::{HeldTask, joins};

/// The streams and queues of a device.
pub(crate) struct Scheduler {
    streams: Slab<StreamActor>,
    queues: Vec<QueueState>,
    /// Tasks that streams hold.
    held: u64,
    /// Blocks of tasks that are not in use: a held task costs no allocation.
    #[allow(
        clippy::vec_box,
        reason = "blocks move between streams without being copied"
    )]
    spare: Vec<Box<HeldTask>>,
    /// Streams whose first task is a host function that waits for its predecessors.
    host_turns: Vec<u32>,
    /// Names of the host functions that run, by stream.
    host_names: HashMap<u32, Arc<str>>,
    streams_made: u64,
    strategy: Strategy,
    /// Tasks of one batch.
    batch: usize,
    /// Tasks that a queue has in flight at most.
    depth: u64,
    /// The same where nothing needs it to be less.
    depth_max: u64,
}

impl Scheduler {
    /// No streams, on these queues.
    pub(crate) fn new(settings: &Settings, queues: Vec<QueueState>) -> Self {
        Self {
            streams: Slab::new(),
            queues,
            held: 0,
            spare: Vec::new(),
            host_turns: Vec::new(),
            host_names: HashMap::new(),
            streams_made: 0,
            strategy: settings.strategy,
            batch: settings.max_tasks,
            depth: settings.max_in_flight as u64,
            depth_max: settings.max_in_flight as u64,
        }
    }

    /// The stream with this key.
    #[inline(always)]
    pub(crate) fn stream(&self, key: u32) -> &StreamActor {
        &self.streams[key as usize]
    }

    /// The same, to be changed.
    #[inline(always)]
    fn stream_mut(&mut self, key: u32) -> &mut StreamActor {
        &mut self.streams[key as usize]
    }

    /// The stream with this key, unless it is gone.
    #[inline]
    fn get(&self, key: u32) -> Option<&StreamActor> {
        self.streams.get(key as usize)
    }

    /// The same, to be changed.
    #[inline]
    fn get_mut(&mut self, key: u32) -> Option<&mut StreamActor> {
        self.streams.get_mut(key as usize)
    }

    /// Is the stream there? One that was dropped is gone with its last task.
    #[inline]
    pub(crate) fn contains(&self, key: u32) -> bool {
        self.streams.contains(key as usize)
    }

    /// Every stream, with its key.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (u32, &StreamActor)> {
        self.streams
            .iter()
            .map(|(key, stream)| (key as u32, stream))
    }

    /// The keys of a client's streams.
    pub(crate) fn streams_of_client(&self, client: ClientId) -> Vec<u32> {
        let streams = self.streams();
        let own = streams.filter(|(_, stream)| stream.client == client);
        own.map(|(key, _)| key).collect()
    }

    /// The numbers of the streams that have handles.
    pub(crate) fn live_numbers(&self) -> HashSet<u64> {
        let live = self.streams().filter(|(_, stream)| !stream.dropped);
        live.map(|(_, stream)| stream.number).collect()
    }

    /// How many streams there are.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The keys of all streams.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.streams().map(|(key, _)| key).collect()
    }

    /// The queue on which a stream sits.
    #[inline(always)]
    pub(crate) fn queue_of(&self, stream: u32) -> QueueId {
        self.stream(stream).queue
    }

    /// A queue.
    #[inline(always)]
    pub(crate) fn queue(&self, queue: QueueId) -> &QueueState {
        &self.queues[queue.index()]
    }

    /// The ids of the queues, in their order.
    pub(crate) fn queue_ids(&self) -> impl Iterator<Item = QueueId> + Clone + use<> {
        (0..self.queues.len()).map(|index| QueueId(index as u8))
    }

    /// The queues with their ids, in the order of these.
    pub(crate) fn numbered_queues(&self) -> impl Iterator<Item = (QueueId, &QueueState)> {
        let numbered = self.queues.iter().enumerate();
        numbered.map(|(index, queue)| (QueueId(index as u8), queue))
    }

    /// The timeline of a queue.
    #[inline]
    pub(crate) fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.queues[queue.index()].timeline
    }

    /// Tasks that streams hold.
    #[inline(always)]
    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}
