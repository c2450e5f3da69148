//! The writer of the submission log of a program without the feature `journal`: there is none.

use millstream_protocol::{Reason, Settings, Task, journal::SubmissionLog};

/// The submission log of a device, which no device has.
pub enum LogWriter {}

impl LogWriter {
    /// Returns `None`: without the feature no option enables the log.
    pub fn open(_: &'static str, _: &Settings) -> Option<Box<Self>> {
        None
    }

    /// Takes the entries since the last call.
    pub fn take(&mut self) -> SubmissionLog {
        match *self {}
    }

    /// Writes the entry of a message that is about to be admitted.
    pub fn note(&mut self, _: &mut Task) {
        match *self {}
    }

    /// Writes that a task was withdrawn.
    pub fn note_withdrawn(&mut self, _: &Task, _: &Reason) {
        match *self {}
    }

    /// Writes that an object was dropped.
    pub fn note_dropped(&mut self, _: u32) {
        match *self {}
    }
}
