//! What happens in the calls of a cluster, at some time.

use millstream::FailureRef;
use millstream_cluster::NetworkPart;

/// A part that has begun, or why it cannot.
pub(crate) type Outcome = Result<NetworkPart, FailureRef>;

/// Which lane of a group: that of its collectives, or of the transfers from one member to another.
pub(crate) type Kind = Option<(usize, usize)>;

/// What happens at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Happening {
    /// Something of a call.
    Of(Event),
    /// A part begins, by its number.
    Begins(usize),
    /// The head of a message comes to its next link.
    Hops(usize),
    /// A rank ends.
    Ends(usize),
    /// The other ranks learn of it.
    IsKnown(usize),
}

impl Happening {
    /// Whether it is an end of a rank, or becomes known as one. That is no work: nothing waits for it alone.
    pub(crate) fn is_plan(self) -> bool {
        matches!(self, Self::Ends(_) | Self::IsKnown(_))
    }
}

/// What happens at a place of a call, which is known by its group, its lane and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Event {
    pub(crate) group: usize,
    pub(crate) lane: Kind,
    pub(crate) number: u64,
    pub(crate) place: usize,
    pub(crate) step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Step {
    /// It goes on with its actions.
    Goes,
    /// It sends bytes to another place, with a tag.
    Sends(usize, u64, u32),
    /// A message with this tag arrives.
    Arrives(u32),
    /// Its part ends.
    Ends,
}

impl Event {
    /// Returns what happens next at the same place.
    pub(crate) fn then(self, step: Step) -> Happening {
        Happening::Of(Self { step, ..self })
    }
}
