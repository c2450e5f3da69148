//! A simulated rank as `millstream-cluster` sees it.

use millstream::sim::Clock;
use millstream::{Failure, FailureRef, Reason};
use millstream_cluster::{Announcement, Network, NetworkPart};

use crate::traffic::{Shared, lock};

/// A member of a group.
pub(crate) struct SimNetwork {
    pub(crate) traffic: Shared,
    pub(crate) group: usize,
    pub(crate) member: usize,
    pub(crate) size: usize,
    /// Of the member's device.
    pub(crate) clock: Clock,
}

impl Network for SimNetwork {
    fn rank(&self) -> usize {
        self.member
    }

    fn size(&self) -> usize {
        self.size
    }

    fn announce(&self, call: Announcement) -> u64 {
        let traffic = &mut *lock(&self.traffic);
        traffic.groups[self.group].announce(&mut traffic.wires, self.member, call)
    }

    fn begin(&self, ticket: u64, part: Result<NetworkPart, FailureRef>) {
        let at_ns = self.clock.now_ns();
        let traffic = &mut *lock(&self.traffic);
        traffic.begin(at_ns, (self.group, self.member, ticket, part));
    }

    /// The cluster is dropped: its ranks make no further calls.
    fn end(&self) {
        let ends = {
            let traffic = &mut *lock(&self.traffic);
            let closed = Failure::not_run(&"collective".into(), Reason::Closed);
            traffic.close(self.group, &closed);
            traffic.wires.take_ends()
        };
        for end in ends {
            if let Some(cause) = end.failure {
                end.part.fail_by(cause);
            }
        }
    }
}
