//! Parking for memory: the first task of a stream is a reservation that finds no memory.
//!
//! Host functions park their streams, too; see `host_functions`.

use super::Scheduler;
use super::actor::Parked;

impl Scheduler {
    /// Parks a stream: its first task waits for memory.
    pub(crate) fn park_for_memory(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::Memory;
    }

    /// Returns `true` if the first task of the stream waits for memory.
    pub(crate) fn waits_for_memory(&self, stream: u32) -> bool {
        self.stream(stream).parked == Parked::Memory
    }

    /// Unparks a stream: its first task can be tried again, or was finished in software. The stream joins the turns of
    /// its queue only in [`Scheduler::resume`].
    pub(crate) fn unpark(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::No;
    }
}
