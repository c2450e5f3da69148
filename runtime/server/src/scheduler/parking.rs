//! Parking for memory: the first task of a stream is a reservation that finds none.
//!
//! Host functions park their streams as well, which `host_turns` has.

use super::Scheduler;
use super::actor::Parked;

impl Scheduler {
    /// The first task of a stream waits for memory.
    pub(crate) fn park_for_memory(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::Memory;
    }

    /// Does the first task of a stream wait for memory?
    pub(crate) fn waits_for_memory(&self, stream: u32) -> bool {
        self.stream(stream).parked == Parked::Memory
    }

    /// The first task of a stream can be tried again, or has ended in software. The stream is in its queue's turn only from
    /// [`Scheduler::resume`] on.
    pub(crate) fn unpark(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::No;
    }
}
