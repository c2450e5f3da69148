//! The end of streams when their device is lost or closed: held tasks are taken out, and credits end.

use std::collections::VecDeque;

use millstream_protocol::id::{Point, StreamId};

use super::Scheduler;
use super::actor::StreamActor;
use super::task::HeldTask;
use super::turns::Turns;
use crate::pending::Pending;

/// The tasks that a stream held when its device was lost or closed.
pub(crate) struct AbandonedStream {
    /// The point of the last issued task of the stream, if there is one.
    pub(crate) last: Option<Point>,
    /// The tasks that it held, in order.
    pub(crate) held: VecDeque<Box<HeldTask>>,
}

impl Scheduler {
    /// Ends the credits of all streams, so that callers which wait for credit return.
    pub(crate) fn end_credits(&self) {
        for (_, stream) in self.streams() {
            stream.credit.end();
        }
    }

    /// Closes a stream because its device is closed: ends its credit, and takes out the tasks that it holds.
    pub(crate) fn close(&mut self, stream: u32) -> AbandonedStream {
        let queue = &mut self.queues[self.streams[stream as usize].queue.index()];
        // No other stream has a turn on the queue before this task is finished.
        queue
            .unfinished
            .take_if(|unfinished| unfinished.stream == stream);
        let actor = self.stream_mut(stream);
        actor.credit.end();
        take_held(actor)
    }

    /// Takes out the tasks of all streams because the device is lost. No stream holds a task or has a turn afterwards.
    pub(crate) fn take_all_held(&mut self) -> Vec<AbandonedStream> {
        self.held = 0;
        self.waiting_hosts = Pending::default();
        self.spare.clear();
        for queue in &mut self.queues {
            queue.held = 0;
            queue.turns = Turns::default();
            queue.unfinished = None;
        }
        let take = |(_, actor): (_, &mut StreamActor)| {
            actor.waiters.clear();
            take_held(actor)
        };
        self.streams.iter_mut().map(take).collect()
    }

    /// Returns the point of the last issued task of a stream, whose id may not be linked any more. Searches all
    /// streams.
    pub(crate) fn last_of(&self, id: StreamId) -> Option<Point> {
        let mut streams = self.streams().map(|(_, stream)| stream);
        streams.find(|stream| stream.id == id)?.last_point()
    }
}

fn take_held(actor: &mut StreamActor) -> AbandonedStream {
    AbandonedStream {
        last: actor.last_point(),
        held: std::mem::take(&mut actor.held),
    }
}
