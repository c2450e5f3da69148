//! What a call returns at once.

use millstream::Error;

/// Why a call of a fleet or a group submitted nothing, or not all of its parts.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A fleet or a group needs at least one member.
    #[error("a group needs at least one member; name the devices that belong to it")]
    Empty,
    /// A group names a device that its fleet does not have.
    #[error("device {device} does not exist, the fleet has {devices}, counted from 0")]
    NoDevice {
        /// The named device.
        device: usize,
        /// The number of devices of the fleet.
        devices: usize,
    },
    /// A group names a device twice.
    #[error("device {device} is named twice; a device is one member of a group")]
    Twice {
        /// The device.
        device: usize,
    },
    /// A call names a rank that the group does not have.
    #[error("rank {rank} does not exist, the group has {members} members, counted from 0")]
    NoMember {
        /// The named rank.
        rank: usize,
        /// The number of members.
        members: usize,
    },
    /// The calling thread is inside a call of the same fleet, which waits for room and runs a callback meanwhile.
    #[error(
        "`{call}` was called by a callback that runs inside another call of the same fleet; make the call on a thread of the application"
    )]
    Nested {
        /// The call.
        call: &'static str,
    },
    /// A list of buffers does not have one buffer for each member.
    #[error(
        "`{call}` got {got} buffers in `{list}`, expected {expected}: one for each member of this process"
    )]
    Count {
        /// The call.
        call: &'static str,
        /// The list of buffers.
        list: &'static str,
        /// The number of members.
        expected: usize,
        /// The number of buffers.
        got: usize,
    },
    /// A buffer is not of the device of its member.
    #[error(
        "`{call}` got a buffer in `{list}` that is not of the device of member {member}; pass one buffer of each member's device, in the order of the members"
    )]
    Foreign {
        /// The call.
        call: &'static str,
        /// The list of buffers.
        list: &'static str,
        /// The member.
        member: usize,
    },
    /// A buffer has another length than the call needs.
    #[error(
        "`{call}` got a buffer of {got} elements in `{list}` for member {member}, expected {expected}"
    )]
    Length {
        /// The call.
        call: &'static str,
        /// The list of buffers.
        list: &'static str,
        /// The member.
        member: usize,
        /// Elements expected.
        expected: usize,
        /// Elements of the buffer.
        got: usize,
    },
    /// The input and the output of a member overlap, and are not the same view.
    #[error(
        "`{call}` got an input and an output for member {member} that overlap; pass the same view, or separate memory"
    )]
    Overlap {
        /// The call.
        call: &'static str,
        /// The member.
        member: usize,
    },
    /// A send and the receive of the same bytes have different lengths.
    #[error(
        "the send of {sent} bytes at {sender} meets the receive of {received} bytes at {receiver}; both must have the same length"
    )]
    Unequal {
        /// Bytes that are sent.
        sent: u64,
        /// Where the sender called.
        sender: &'static std::panic::Location<'static>,
        /// Bytes that are received.
        received: u64,
        /// Where the receiver called.
        receiver: &'static std::panic::Location<'static>,
    },
    /// A buffer is of no device that the call can use.
    #[error(
        "the {which} is of no device of this process's part of the fleet or group; create it on one of them"
    )]
    Stranger {
        /// `source`, `target` or `buffer`.
        which: &'static str,
    },
    /// A device refused its part of the call. The parts of the other devices fail: what they would write is poisoned.
    #[error("member {member} refused its part of `{call}`: {source}")]
    Refused {
        /// The call.
        call: &'static str,
        /// The member.
        member: usize,
        /// Why its device refused the part.
        source: Error,
    },
}
