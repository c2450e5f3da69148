//! A group as `millstream-cluster` sees it: messages to the engine.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millstream::FailureRef;
use millstream_cluster::{Announcement, Network, NetworkPart};

use crate::aware::{Way, way};
use crate::engine::Command;
use crate::link::Link;

thread_local! {
    /// The group and the ticket of the last call that this thread has announced.
    static ANNOUNCED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The ranks of a group.
pub(crate) struct MpiNetwork {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) group: u64,
    pub(crate) next: AtomicU64,
    pub(crate) engine: Arc<Link>,
    /// Whether threads that wait for the device of the group help.
    pub(crate) is_helped: AtomicBool,
}

impl MpiNetwork {
    /// Sends a command. Leaves the engine's thread asleep if the caller is expected to help soon.
    fn send(&self, command: Command, is_help_expected: bool) {
        // Relaxed: a guess.
        if is_help_expected && self.is_helped.load(Ordering::Relaxed) {
            self.engine.send_quietly(command);
        } else {
            self.engine.send(command);
        }
    }
}

impl Network for MpiNetwork {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn takes_device_memory(&self, call: &Announcement) -> bool {
        way(call, self.size) != Way::ByHost
    }

    fn announce(&self, call: Announcement) -> u64 {
        // Relaxed: the caller serializes announcements, so that tickets and messages have one order.
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        ANNOUNCED.set((self.group, ticket));
        // What can be done before the part begins has time.
        self.send(Command::Announce(self.group, ticket, call), true);
        ticket
    }

    fn begin(&self, ticket: u64, part: Result<NetworkPart, FailureRef>) {
        // The thread that announced the call has stepped in at its device, since it is expected to wait there.
        let is_caller = ANNOUNCED.get() == (self.group, ticket);
        self.send(Command::Begin(self.group, ticket, part), is_caller);
    }

    /// It is one message to the engine.
    fn begins_at_once(&self) -> bool {
        true
    }

    fn waiters_help(&self) {
        // Relaxed: a guess.
        self.is_helped
            .store(self.engine.may_be_helped(), Ordering::Relaxed);
    }

    fn help(&self, done: &mut dyn FnMut() -> bool) {
        if self.engine.may_be_helped() {
            self.engine.help(done);
        }
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
        self.send(Command::Close(self.group), false);
    }
}
