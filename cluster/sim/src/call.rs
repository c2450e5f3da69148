//! A call of simulated ranks: its parts, and their data.

use millstream::{Failure, FailureRef, Reason};
use millstream_cluster::{Announcement, NetworkPart, Operation};

use crate::rounds::Action;

/// A call of a lane, with the places that make it.
pub(crate) struct Call {
    /// The place that called first.
    pub(crate) caller: usize,
    pub(crate) places: Vec<Place>,
    pub(crate) called: usize,
    pub(crate) begun: usize,
    pub(crate) ended: usize,
    /// Why it has failed. Of a transfer: why the receiver gets no data.
    pub(crate) failure: Option<FailureRef>,
    /// The bytes of a broadcast or a transfer, once its root or sender has begun.
    sent: Vec<u8>,
}

/// A member in a call.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) call: Option<Announcement>,
    pub(crate) part: Option<NetworkPart>,
    pub(crate) has_begun: bool,
    pub(crate) has_started: bool,
    pub(crate) actions: Vec<Action>,
    /// The index of the next one.
    pub(crate) next: usize,
    /// Whether it waits for the message that it receives next.
    pub(crate) waits: bool,
    /// The tags of the messages that have arrived.
    pub(crate) arrived: u64,
}

impl Call {
    pub(crate) fn new(caller: usize, places: usize) -> Self {
        Self {
            caller,
            places: (0..places).map(|_| Place::default()).collect(),
            called: 0,
            begun: 0,
            ended: 0,
            failure: None,
            sent: Vec::new(),
        }
    }

    /// Takes the bytes of a part that has begun: moves those of a call whose parts have all begun, since no part ends
    /// before that, except in a broadcast and a transfer, which keep a copy. Returns why it cannot.
    pub(crate) fn take_data(&mut self, place: usize) -> Option<FailureRef> {
        let what = self.places[place].call?;
        let have_all_begun = self.begun == self.places.len();
        let mut parts = self.places.iter_mut().map(|state| state.part.as_mut());
        let moved = match what.operation {
            Operation::Broadcast { root } if root != place => return None,
            Operation::Receive { .. } => return None,
            Operation::Broadcast { .. } | Operation::Send { .. } => {
                let memory = parts.nth(place)??.memory();
                memory.map(|memory| self.sent = memory.input.unwrap_or_default().to_vec())
            }
            _ if have_all_begun => what.carry_out(parts.flatten()),
            _ => return None,
        };
        refused(&what, moved)
    }

    /// Writes the bytes of a broadcast or a transfer to a part that ends. Returns why that fails.
    pub(crate) fn deliver(&self, place: usize, part: &mut NetworkPart) -> Option<FailureRef> {
        let what = self.places[place].call?;
        match what.operation {
            Operation::Send { .. } => return None,
            _ if self.failure.is_some() => return self.failure.clone(),
            _ if self.sent.is_empty() => return None,
            _ => {}
        }
        let written = part.memory().map(|memory| {
            if let Some(output) = memory.output {
                output.copy_from_slice(&self.sent);
            }
        });
        refused(&what, written)
    }
}

fn refused(what: &Announcement, outcome: Result<(), String>) -> Option<FailureRef> {
    let why = outcome.err()?;
    Some(Failure::not_run(&what.name.into(), Reason::Refused(why)))
}
