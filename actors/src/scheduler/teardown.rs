//! The end of streams when their device is lost or closed: held tasks are taken out, and credits end.

use std::collections::VecDeque;

use millstream_protocol::{Point, StreamId, TaskExtras};

use super::Scheduler;
use super::turns::Turns;
use crate::stream_actor::held_task::HeldTask;
use millstream_state::pending::Pending;

impl Scheduler {
    /// Ends the credits of all streams, so that callers which wait for credit return (I5). No stream has a turn or waits
    /// for a point afterwards.
    pub(crate) fn end(&mut self) {
        self.waiting_hosts = Pending::default();
        for queue in &mut self.queues {
            queue.turns = Turns::default();
            let stream = queue.unfinished.take().map(|unfinished| unfinished.stream);
            let actor = stream.and_then(|stream| self.streams.get_mut(stream as usize));
            if let Some(held) = actor.and_then(|actor| actor.held.front_mut()) {
                // Its terms have counted it when it began: what is left of it must not end them again.
                held.task.extra = TaskExtras::default();
            }
        }
        for (_, stream) in &mut self.streams {
            stream.credit.end();
            stream.waiters.clear();
        }
    }

    /// Takes out the tasks that a stream holds, in order. Also returns the point of its last issued task.
    pub(crate) fn take_held(&mut self, stream: u32) -> (VecDeque<Box<HeldTask>>, Option<Point>) {
        let actor = &mut self.streams[stream as usize];
        let held = std::mem::take(&mut actor.held);
        self.held -= held.len() as u64;
        self.queues[actor.queue.index()].held -= held.len() as u64;
        (held, actor.last_point())
    }

    /// Returns the point of the last issued task of a stream, whose id may not be linked any more. Searches all
    /// streams.
    pub(crate) fn last_of(&self, id: StreamId) -> Option<Point> {
        let mut streams = self.streams().map(|(_, stream)| stream);
        streams.find(|stream| stream.id == id)?.last_point()
    }
}
