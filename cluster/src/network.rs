//! How a group reaches members in other processes.
//!
//! ```text
//!  a call ──► announce: its place among the calls of the group on this rank ──► the device holds its part
//!                                                                                    │ its data is ready, or failed
//!             complete, or fail_by ◄── bytes move between the ranks ◄── begin: ticket, part
//! ```
//! A network moves bytes on threads of its own. No call of [`Network`] may block for other ranks.

use std::fmt;

use millstream::{Failure, FailureRef, Reason, stream::HostBuffer};

use crate::announcement::{Announcement, Operation};
use crate::movement::{self, NetworkMemory};
use crate::part::{NetworkAddresses, Part, fail_all, memory};
use crate::reduction::Reduction;

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
        let memory = parts.map(NetworkPart::memory);
        self.move_bytes(&mut memory.collect::<Result<Vec<_>, _>>()?)
    }

    /// Moves the bytes of all parts.
    pub(crate) fn move_bytes(&self, memory: &mut [NetworkMemory<'_>]) -> Result<(), String> {
        let moved = (self.movement)(self.operation.reduction(), memory);
        moved.map_err(|error| error.to_string())
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
/// The parts of several devices are one part to the network, so that a byte of a rank travels once:
///
/// ```text
///  device 0 ─┐                                                        ┌─► device 0
///  device 1 ─┼─ combined or put together ──► network ──► divided, ────┼─► device 1
///  device 2 ─┘                                           or copied    └─► device 2
/// ```
///
/// A drop fails the part.
pub struct NetworkPart {
    call: Announcement,
    /// Those of the devices of this rank, in their order; the root of a broadcast comes first.
    pub(crate) parts: Vec<Part>,
    /// What the network reads, if that is not the memory of the first part.
    input: HostBuffer,
    /// What the network writes, if that is not the memory of the first part.
    output: HostBuffer,
}

impl NetworkPart {
    /// Combines the inputs of the parts, or puts them together.
    ///
    /// # Errors
    /// The failure with which the parts were failed.
    pub(crate) fn new(call: Announcement, parts: Vec<Part>) -> Result<Self, FailureRef> {
        let mut joined = Self {
            call,
            parts,
            input: HostBuffer::default(),
            output: HostBuffer::default(),
        };
        match joined.gather() {
            Ok(()) => Ok(joined),
            Err(why) => Err(joined.refuse(why)),
        }
    }

    fn gather(&mut self) -> Result<(), String> {
        if self.parts.len() == 1 {
            return Ok(());
        }
        let mut parts = memory(&mut self.parts)?;
        match self.call.operation {
            Operation::AllReduce(_) => self.call.move_bytes(&mut parts),
            Operation::ReduceScatter(_) => {
                let bytes = parts.first().map_or(0, |part| part.source().len());
                self.input = zeroed(bytes)?;
                self.output = zeroed(self.call.bytes())?;
                // The movement divides the combination among the outputs: here they are the pieces of one buffer.
                let mut pieces = pieces(self.input.as_mut_slice(), bytes / parts.len());
                let members = parts.iter().map(|part| NetworkMemory {
                    input: part.input,
                    output: pieces.next(),
                });
                self.call.move_bytes(&mut members.collect::<Vec<_>>())
            }
            Operation::AllGather => {
                self.input = zeroed(self.call.bytes())?;
                let len = self.call.bytes() / parts.len();
                for (piece, part) in pieces(self.input.as_mut_slice(), len).zip(&parts) {
                    piece.copy_from_slice(part.source());
                }
                Ok(())
            }
            Operation::Broadcast { .. } | Operation::Send { .. } | Operation::Receive { .. } => {
                Ok(())
            }
        }
    }

    fn divide(&mut self) -> Result<(), String> {
        if self.parts.len() == 1 {
            return Ok(());
        }
        let mut parts = memory(&mut self.parts)?;
        match self.call.operation {
            Operation::ReduceScatter(_) => {
                let len = self.call.bytes() / parts.len();
                for (piece, part) in pieces(self.output.as_mut_slice(), len).zip(&mut parts) {
                    part.target().copy_from_slice(piece);
                }
                Ok(())
            }
            _ => {
                // From the first part: what the network has written to, or the root of a broadcast.
                for part in &mut parts {
                    part.input = part.input.filter(|_| part.output.is_none());
                }
                movement::spread(Reduction::Sum, &mut parts).map_err(|error| error.to_string())
            }
        }
    }

    /// Returns the memory of the part. It stays where it is until the part is completed or failed.
    ///
    /// # Errors
    /// Why the host cannot access it: it is memory of a device.
    pub fn memory(&mut self) -> Result<NetworkMemory<'_>, String> {
        let is_one = self.parts.len() == 1;
        let first = self.parts.first_mut().ok_or("there are no devices")?;
        Ok(match self.call.operation {
            Operation::ReduceScatter(_) if !is_one => NetworkMemory {
                input: Some(self.input.as_slice()),
                output: Some(self.output.as_mut_slice()),
            },
            Operation::AllGather if !is_one => NetworkMemory {
                input: Some(self.input.as_slice()),
                output: first.memory()?.output,
            },
            _ => first.memory()?,
        })
    }

    /// Returns the addresses of the part's memory, for a library that accesses memory of CUDA devices as well. They are valid
    /// until the part is completed or failed. Its data is complete: the library waits for no stream of the device, and the
    /// part must not be ended before all bytes are written.
    ///
    /// # Errors
    /// The backend of the device has no addresses.
    pub fn addresses(&mut self) -> Result<NetworkAddresses, String> {
        if let [part] = &mut self.parts[..]
            && let Some(addresses) = part.device_addresses()
        {
            return Ok(addresses);
        }
        let bytes = self.memory()?;
        Ok(NetworkAddresses {
            input: bytes.input.map(<[u8]>::as_ptr),
            output: bytes.output.map(<[u8]>::as_mut_ptr),
        })
    }

    /// Ends the part: its output is defined.
    pub fn complete(mut self) {
        match self.divide() {
            Ok(()) => self.parts.into_iter().for_each(Part::complete),
            Err(why) => drop(self.refuse(why)),
        }
    }

    fn refuse(self, why: String) -> FailureRef {
        let cause = Failure::not_run(&self.call.name.into(), Reason::Refused(why));
        self.fail_by(cause.clone());
        cause
    }

    /// Fails the part: its output is poisoned, with `cause` as its origin.
    pub fn fail_by(self, cause: FailureRef) {
        fail_all(self.parts, &cause);
    }
}

impl fmt::Debug for NetworkPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}

/// Divides a buffer into pieces of this length, of which an empty one has none.
fn pieces(buffer: &mut [u8], len: usize) -> std::slice::ChunksExactMut<'_, u8> {
    buffer.chunks_exact_mut(len.max(1))
}

fn zeroed(bytes: usize) -> Result<HostBuffer, String> {
    HostBuffer::zeroed(bytes).map_err(|error| error.to_string())
}
