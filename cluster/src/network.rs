//! How a group reaches members in other processes.
//!
//! ```text
//!  a call ──► announce: its place among the calls of the group on this rank ──► the device holds its part
//!                                                                                    │ its data is ready, or failed
//!             complete, or fail_by ◄── bytes move between the ranks ◄── begin: ticket, part
//! ```
//! A network moves bytes on threads of its own. No call of [`Network`] may block for other ranks.

use millstream::FailureRef;

use crate::announcement::Announcement;
use crate::joined::Joined;
use crate::movement::Bytes;
use crate::part::{NetworkAddresses, Part};

impl Announcement {
    /// Moves the bytes of a call all of whose parts are in this process, as a [`Group`](crate::Group) without a network
    /// does. `parts` are those of the ranks in their order; the root of a broadcast, and the sender, come first. Does
    /// not end them.
    ///
    /// # Errors
    /// Why the host cannot access a part.
    pub fn carry_out<'a>(
        &self,
        parts: impl Iterator<Item = &'a mut NetworkPart>,
    ) -> Result<(), String> {
        let memory = parts.map(NetworkPart::bytes);
        let mut memory: Vec<Bytes<'_>> = memory.collect::<Result<_, _>>()?;
        (self.movement)(self.operation.reduction(), &mut memory).map_err(|error| error.to_string())
    }
}

/// The ranks of a group, in other processes or on other hosts. The devices of a rank are one part to the network.
pub trait Network: Send + Sync {
    /// Returns the rank of this process.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Takes note of a call, in the order of the calls of the group on this rank. Returns its ticket. The `n`-th
    /// collectives of all ranks belong together, and so do the `n`-th send from a member to another and its `n`-th receive.
    /// Transfers between two devices of one rank are not announced.
    fn announce(&self, call: Announcement) -> u64;

    /// Whether the part of this rank in a call may have memory of its CUDA device, as [`NetworkPart::addresses`] returns it.
    /// Asked before the call is announced, with the outcome in [`Announcement::on_device`]. Otherwise the device copies its
    /// data to memory of the host before the part begins, and from there after its end.
    fn takes_device_memory(&self, _call: &Announcement) -> bool {
        false
    }

    /// Begins a call: its data is ready, or this rank's part has failed. In that case the other ranks fail with the same
    /// cause. Called once for each ticket, in any order.
    fn begin(&self, ticket: u64, part: Result<NetworkPart, FailureRef>);

    /// Whether [`Network::begin`] only hands the part to another thread. It is then called on the thread that turns the
    /// device, with no other thread woken for it: it must not block, nor take a lock that is held while a device is called,
    /// or while a part is ended. Otherwise it is called on the device's threads for user code.
    fn begins_at_once(&self) -> bool {
        false
    }

    /// From now on threads that wait for the device of the group call [`Network::help`].
    fn waiters_help(&self) {}

    /// Goes on with calls in flight, on a thread that waits for the device of the group, until `done`. May return early;
    /// the thread sleeps then. May not block.
    fn help(&self, _done: &mut dyn FnMut() -> bool) {}

    /// The fleet of the group is dropped, and its devices wait for all parts. A network fails those whose ranks will never
    /// make the same calls, as far as it can know.
    fn end(&self);
}

/// The part of this rank in a call: memory that the network may access until the part is completed or failed. The host can
/// access it too, unless the call is [`Announcement::on_device`].
///
/// A drop fails the part.
#[derive(Debug)]
pub struct NetworkPart(pub(crate) Inside);

/// The parts of the devices of this rank.
#[derive(Debug)]
pub(crate) enum Inside {
    One(Part),
    Several(Box<Joined>),
}

/// The memory of a part. A call that replaces its input has an output only; so has a receive, and the root of a broadcast has
/// an input only.
pub struct NetworkMemory<'a> {
    /// The bytes to read.
    pub input: Option<&'a [u8]>,
    /// The bytes to write.
    pub output: Option<&'a mut [u8]>,
}

impl NetworkPart {
    /// Returns the memory of the part. It stays where it is until the part is completed or failed.
    ///
    /// # Errors
    /// Why the host cannot access it: it is memory of a device.
    pub fn memory(&mut self) -> Result<NetworkMemory<'_>, String> {
        let bytes = self.bytes()?;
        Ok(NetworkMemory {
            input: bytes.input,
            output: bytes.output,
        })
    }

    /// Returns the addresses of the part's memory, for a library that accesses memory of CUDA devices as well. They are valid
    /// until the part is completed or failed. Its data is complete: the library waits for no stream of the device, and the
    /// part must not be ended before all bytes are written.
    ///
    /// # Errors
    /// The backend of the device has no addresses.
    pub fn addresses(&mut self) -> Result<NetworkAddresses, String> {
        if let Inside::One(part) = &mut self.0
            && let Some(addresses) = part.device_addresses()
        {
            return Ok(addresses);
        }
        let bytes = self.bytes()?;
        Ok(NetworkAddresses {
            input: bytes.input.map(<[u8]>::as_ptr),
            output: bytes.output.map(<[u8]>::as_mut_ptr),
        })
    }

    fn bytes(&mut self) -> Result<Bytes<'_>, String> {
        match &mut self.0 {
            Inside::One(part) => part.memory(),
            Inside::Several(joined) => joined.memory(),
        }
    }

    /// Ends the part: its output is defined.
    pub fn complete(self) {
        match self.0 {
            Inside::One(part) => part.complete(),
            Inside::Several(joined) => joined.complete(),
        }
    }

    /// Fails the part: its output is poisoned, with `cause` as its origin.
    pub fn fail_by(self, cause: FailureRef) {
        match self.0 {
            Inside::One(part) => part.fail_by(cause),
            Inside::Several(joined) => joined.fail_by(cause),
        }
    }
}
