//! The communicators of a group, which its first collective creates.

use millstream::backend::Refused;
use millstream::cuda::{Communicators, Lane};

/// The communicators of a group.
#[derive(Default)]
pub(super) struct GroupCommunicators(Option<Communicators>);

impl GroupCommunicators {
    /// Returns the communicators of the members with these lanes. Creates them at first, and after an abort.
    pub(super) fn get(&mut self, lanes: &[&Lane]) -> Result<&Communicators, Refused> {
        match &mut self.0 {
            Some(communicators) => Ok(communicators),
            none => Ok(none.insert(Communicators::new(lanes)?)),
        }
    }

    /// Returns an error that a collective met after its launch.
    pub(super) fn asynchronous_error(&self) -> Option<Refused> {
        match &self.0 {
            Some(communicators) => communicators.asynchronous_error(),
            None => Some(Refused::Task(
                "the failure of another call ended its communicators".to_owned(),
            )),
        }
    }

    /// Ends the collectives that run.
    pub(super) fn abort(&mut self) {
        if let Some(communicators) = self.0.take() {
            communicators.abort();
        }
    }
}
