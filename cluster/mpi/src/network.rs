//! A group as `millstream-cluster` sees it: messages to the engine.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Sender;
use millstream::FailureRef;
use millstream_cluster::{Announcement, Network, NetworkPart};

use crate::engine::Command;

/// The ranks of a group.
pub(crate) struct MpiNetwork {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) group: u64,
    pub(crate) next: AtomicU64,
    pub(crate) engine: Sender<Command>,
}

impl MpiNetwork {
    /// Sends a command. An engine that has ended drops it, which fails its part.
    fn send(&self, command: Command) {
        let _ = self.engine.send(command);
    }
}

impl Network for MpiNetwork {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn announce(&self, call: Announcement) -> u64 {
        // Relaxed: the caller serializes announcements, so that tickets and messages have one order.
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(Command::Announce(self.group, ticket, call));
        ticket
    }

    fn begin(&self, ticket: u64, part: Result<NetworkPart, FailureRef>) {
        self.send(Command::Begin(self.group, ticket, part));
    }

    /// It is one message to the engine.
    fn begins_at_once(&self) -> bool {
        true
    }

    /// The devices wait for the other ranks to join the calls of this one, as MPI's own end does. After a panic they may
    /// never come to them.
    fn end(&self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Drop for MpiNetwork {
    fn drop(&mut self) {
        self.send(Command::Close(self.group));
    }
}
