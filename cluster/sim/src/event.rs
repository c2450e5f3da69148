//! What happens in the calls of a cluster, at some time.

use millstream::FailureRef;
use millstream_cluster::NetworkPart;

/// A part that has begun, or why it cannot.
pub(crate) type Outcome = Result<NetworkPart, FailureRef>;

/// What happens at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Happening {
    /// Something of a group.
    Of(usize, Event),
    /// A part begins, by its number.
    Begins(u64),
    /// The head of a message comes to its next link.
    Hops(usize),
    /// A rank ends.
    Ends(usize),
    /// The other ranks learn of it.
    IsKnown(usize),
}

/// What happens in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Event {
    /// A member of a collective, by its number.
    Collective(u64, usize, Step),
    /// A transfer.
    Transfer(Id, Leg),
}

/// What happens to the member of a collective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Step {
    /// It goes on with its actions.
    Goes,
    /// It sends bytes to another member, with a tag.
    Sends(usize, u64, u32),
    /// A message with this tag arrives.
    Arrives(u32),
    /// Its part ends.
    Ends,
}

/// A transfer: its sender, its receiver, and its number among theirs.
pub(crate) type Id = (usize, usize, u64);

/// What happens to a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Leg {
    /// The sender's thread turns to it.
    Leaves,
    /// Its message is sent.
    Goes,
    /// Its bytes are there.
    Arrives,
    /// A part ends.
    Ends(Side),
}

/// The sides of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Side {
    Sender,
    Receiver,
}
