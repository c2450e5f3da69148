//! The transfers of a group: sends and receives, and copies between two of its members.

use millstream::{Element, Handle};

use super::Group;
use crate::ClusterError;
use crate::announcement::{Announcement, Operation};
use crate::movement::spread;
use crate::part::Buffers;

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
        self.check_rank(to)?;
        let (member, from) = self.own(buffer)?;
        self.pair(member, (from, to), Operation::Send { from, to }, buffer)
    }

    /// Receives `buffer`, of a member of this process, from the member with rank `from`, which sends it.
    ///
    /// # Errors
    /// As [`Group::send`].
    #[track_caller]
    pub fn receive<T: Element>(&self, from: usize, buffer: &Handle<T>) -> Result<(), ClusterError> {
        self.check_rank(from)?;
        let (member, to) = self.own(buffer)?;
        self.pair(member, (from, to), Operation::Receive { from, to }, buffer)
    }

    /// Returns the member of this process on whose device a buffer is, and its rank.
    fn own<T: Element>(&self, buffer: &Handle<T>) -> Result<(usize, usize), ClusterError> {
        let stranger = ClusterError::Stranger { which: "buffer" };
        let member = self.member_of(buffer).ok_or(stranger)?;
        Ok((member, self.local_ranks().start + member))
    }

    #[track_caller]
    fn pair<T: Element>(
        &self,
        member: usize,
        (from, to): (usize, usize),
        operation: Operation,
        buffer: &Handle<T>,
    ) -> Result<(), ClusterError> {
        // The movement copies from the first of the two.
        let (name, place, buffers) = match operation {
            Operation::Receive { .. } => ("receive", 1, Buffers::output(buffer)),
            _ => ("send", 0, Buffers::input(buffer)),
        };
        let pairs = &self.in_flight.pairs;
        let stream = pairs.stream(operation, &self.streams[member]);
        let stream = match &self.token {
            Some(token) => stream.with_cancel(token),
            None => stream,
        };
        let what = Announcement::new::<T>(name, operation, spread, buffer.len());
        let _order = self.order.lock(name)?;
        let locals = self.local_ranks();
        if let Some(network) = &self.in_flight.network
            && (self.devices() == 1 || !locals.contains(&from) || !locals.contains(&to))
        {
            let call = self.announced_call(network, what, 1);
            return call.submit(0, (member, &stream), &buffers);
        }
        let call = pairs.meet((from, to), &what, || {
            let members = [from - locals.start, to - locals.start];
            let call = self.local_call(what, &members, 2 * buffer.size());
            self.in_flight.unfinished.add(&call);
            call
        })?;
        call.submit(place, (member, &stream), &buffers)
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
            return self.alone(CALL, to, &Buffers::both(source, target));
        }
        let parts = [
            (from, Buffers::input(source)),
            (to, Buffers::output(target)),
        ];
        let (operation, movement) = (Operation::Send { from, to }, spread);
        let call = Announcement::new::<T>(CALL, operation, movement, source.len());
        self.submit(call, &parts)
    }
}
