//! The transfers of a group: sends and receives, and copies between two of its members.

use millstream::{Element, Handle};

use super::{Group, input, output};
use crate::ClusterError;
use crate::announcement::{Announcement, Operation};
use crate::movement;
use crate::pairs::Direction;

impl Group {
    /// Sends `buffer`, of a member of this process, to the member with rank `to`, which receives it. The sends from one
    /// member to another arrive in their order; sends to different members, and receives, do not wait for each other. A
    /// member may send to itself.
    ///
    /// # Errors
    /// [`ClusterError::NoMember`], [`ClusterError::Stranger`], [`ClusterError::Refused`]; in one process also
    /// [`ClusterError::Unequal`], if the receive has another length.
    #[track_caller]
    pub fn send<T: Element>(&self, to: usize, buffer: &Handle<T>) -> Result<(), ClusterError> {
        self.pair(Direction::Send, to, buffer)
    }

    /// Receives `buffer`, of a member of this process, from the member with rank `from`, which sends it.
    ///
    /// # Errors
    /// As [`Group::send`].
    #[track_caller]
    pub fn receive<T: Element>(&self, from: usize, buffer: &Handle<T>) -> Result<(), ClusterError> {
        self.pair(Direction::Receive, from, buffer)
    }

    #[track_caller]
    fn pair<T: Element>(
        &self,
        direction: Direction,
        peer: usize,
        buffer: &Handle<T>,
    ) -> Result<(), ClusterError> {
        self.check_rank(peer)?;
        let name = direction.call();
        let stranger = ClusterError::Stranger { which: "buffer" };
        let member = self.member_of(buffer).ok_or(stranger)?;
        let stream = self
            .in_flight
            .pairs
            .stream(direction, (member, peer), &self.streams[member]);
        let stream = match &self.token {
            Some(token) => stream.with_cancel(token),
            None => stream,
        };
        let buffers = match direction {
            Direction::Send => input(buffer),
            Direction::Receive => output(buffer),
        };
        let locals = self.local_ranks();
        let (from, to) = direction.ranks(locals.start + member, peer);
        let operation = match direction {
            Direction::Send => Operation::Send { from, to },
            Direction::Receive => Operation::Receive { from, to },
        };
        let what = Announcement::new::<T>(name, operation, movement::spread, buffer.len());
        let _order = self.order.lock(name)?;
        if let Some(network) = &self.in_flight.network
            && (self.devices() == 1 || !locals.contains(&peer))
        {
            let call = self.announced_call(network, what, 1);
            return call.submit(0, (member, &stream), &buffers);
        }
        let ranks = (from - locals.start, to - locals.start);
        let call = self.in_flight.pairs.meet(direction, ranks, &what, || {
            let call = self.local_call(what, &[ranks.0, ranks.1], 2 * buffer.size());
            self.in_flight.unfinished.add(&call);
            call
        })?;
        call.submit(direction.place(), (member, &stream), &buffers)
    }

    /// Copies between two members.
    #[track_caller]
    pub(crate) fn transfer<T: Element>(
        &self,
        (from, source): (usize, &Handle<T>),
        (to, target): (usize, &Handle<T>),
    ) -> Result<(), ClusterError> {
        const CALL: &str = "copy";
        if from == to {
            let copied = self.streams[to].copy(source, target);
            return copied.map_err(|source| ClusterError::Refused {
                call: CALL,
                member: to,
                source,
            });
        }
        let parts = [(from, input(source)), (to, output(target))];
        let (operation, movement) = (Operation::Send { from, to }, movement::spread);
        let call = Announcement::new::<T>(CALL, operation, movement, source.len());
        self.submit(call, &parts)
    }
}
