//! What is left of streams when their device goes away: the tasks that they hold, and callers that wait for room.

use std::collections::VecDeque;

use millstream_protocol::id::{Point, StreamId};

use super::Scheduler;
use super::actor::StreamActor;
use super::task::HeldTask;
use super::turns::Turns;

/// What a stream held when its device went away.
pub(crate) struct Remains {
    /// Where the issued tasks of the stream end, if it has issued any.
    pub(crate) last: Option<Point>,
    /// The tasks that it held, in order.
    pub(crate) held: VecDeque<Box<HeldTask>>,
}

impl Scheduler {
    /// Callers that wait for room in streams wait no longer.
    pub(crate) fn end_credits(&self) {
        for (_, stream) in self.streams() {
            stream.credit.end();
        }
    }

    /// The device is closed: callers that wait for room in a stream wait no longer, and what it holds is taken out.
    pub(crate) fn close(&mut self, stream: u32) -> Remains {
        let actor = self.stream_mut(stream);
        actor.credit.end();
        take_held(actor)
    }

    /// The device is lost: nothing is held any more, and nothing has a turn. Returns what the streams held.
    pub(crate) fn lose(&mut self) -> Vec<Remains> {
        self.held = 0;
        self.host_turns.clear();
        self.spare.clear();
        for queue in &mut self.queues {
            queue.held = 0;
            queue.turn = Turns::default();
        }
        let lose = |(_, actor): (_, &mut StreamActor)| {
            actor.waiters.clear();
            take_held(actor)
        };
        self.streams.iter_mut().map(lose).collect()
    }

    /// Where the issued tasks of a stream end that its id may lead to no more. Looks through all streams.
    pub(crate) fn last_of(&self, id: StreamId) -> Option<Point> {
        let mut streams = self.streams().map(|(_, stream)| stream);
        streams.find(|stream| stream.id == id)?.last_point()
    }
}

fn take_held(actor: &mut StreamActor) -> Remains {
    Remains {
        last: actor.last_point(),
        held: std::mem::take(&mut actor.held),
    }
}
