//! What a call is, as its network and the devices of a rank see it.

use std::fmt;
use std::panic::Location;

use millstream::{DType, Element};

use crate::Reduction;
use crate::movement::Movement;

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Combines the buffers of all ranks, in place.
    AllReduce(Reduction),
    /// Combines the inputs of all ranks. Each gets its part.
    ReduceScatter(Reduction),
    /// Copies the inputs of all ranks, in the order of the ranks, to the output of each.
    AllGather,
    /// Copies the input of a rank to the outputs of all others.
    Broadcast {
        /// The rank whose buffer is copied.
        root: usize,
    },
    /// Sends the input of a member of this rank. The members are counted over all ranks, each with
    /// [as many devices](Announcement::devices).
    Send {
        /// The member that sends.
        from: usize,
        /// The member that receives.
        to: usize,
    },
    /// Receives the output of a member of this rank.
    Receive {
        /// The member that sends.
        from: usize,
        /// The member that receives.
        to: usize,
    },
}

impl Operation {
    /// Returns how it combines elements; for one that does not, any.
    pub(crate) fn reduction(self) -> Reduction {
        match self {
            Self::AllReduce(reduction) | Self::ReduceScatter(reduction) => reduction,
            _ => Reduction::Sum,
        }
    }
}

/// A call of a group as its network sees it.
#[derive(Clone, Copy, Debug)]
pub struct Announcement {
    /// The name of the call, for failures.
    pub name: &'static str,
    /// What it does.
    pub operation: Operation,
    /// The type of its elements.
    pub dtype: DType,
    /// The number of elements: of the buffer, or, for gather and scatter, of the part of one rank.
    pub elements: usize,
    /// The number of devices of each rank.
    pub devices: usize,
    /// Whether the part of this rank will have memory of a CUDA device. It may differ between the ranks of a call. Always
    /// false unless the network asked for it: [`Network::takes_device_memory`](crate::Network::takes_device_memory).
    pub on_device: bool,
    /// Where the caller called.
    pub place: &'static Location<'static>,
    pub(crate) movement: Movement,
}

impl Announcement {
    /// Describes a call at the place of the caller.
    #[track_caller]
    pub(crate) fn new<T: Element>(
        name: &'static str,
        operation: Operation,
        movement: Movement,
        elements: usize,
    ) -> Self {
        Self {
            name,
            operation,
            dtype: T::DTYPE,
            elements,
            devices: 1,
            on_device: false,
            place: Location::caller(),
            movement,
        }
    }

    /// Returns the bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.elements * self.dtype.size()
    }
}

impl fmt::Display for Announcement {
    /// What the call does, in words: the same on all ranks that called the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            elements,
            dtype,
            ..
        } = self;
        match self.operation {
            Operation::AllReduce(reduction) => {
                write!(f, "`{name}` ({reduction}) of {elements} {dtype}")
            }
            Operation::ReduceScatter(reduction) => {
                write!(f, "`{name}` ({reduction}) to {elements} {dtype} each")
            }
            Operation::AllGather => write!(f, "`{name}` of {elements} {dtype} each"),
            Operation::Broadcast { root } => {
                write!(f, "`{name}` from rank {root} of {elements} {dtype}")
            }
            Operation::Send { .. } | Operation::Receive { .. } => write!(f, "{elements} {dtype}"),
        }?;
        match self.devices {
            1 => Ok(()),
            devices => write!(f, " with {devices} devices of each rank"),
        }
    }
}
