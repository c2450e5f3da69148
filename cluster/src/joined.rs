//! The parts of several devices of one rank, which are one part to a network.
//!
//! ```text
//!  device 0 ─┐                                                        ┌─► device 0
//!  device 1 ─┼─ combined or put together ──► network ──► divided, ────┼─► device 1
//!  device 2 ─┘                                           or copied    └─► device 2
//! ```
//! So a byte of a rank travels once, however many devices the rank has.

use millstream::{Failure, FailureRef, Reason, stream::HostBuffer};

use crate::Reduction;
use crate::announcement::{Announcement, Operation};
use crate::movement::{self, Bytes};
use crate::part::Part;

/// The parts of the devices of this rank, in their order; the root of a broadcast comes first.
pub(crate) struct Joined {
    call: Announcement,
    parts: Vec<Part>,
    /// What the network reads, if that is not the memory of the first part.
    input: HostBuffer,
    /// What the network writes, if that is not the memory of the first part.
    output: HostBuffer,
}

impl Joined {
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
            Err(why) => {
                let cause = Failure::not_run(&call.name.into(), Reason::Refused(why));
                joined.fail_by(cause.clone());
                Err(cause)
            }
        }
    }

    fn gather(&mut self) -> Result<(), String> {
        let mut parts = memory(&mut self.parts)?;
        match self.call.operation {
            Operation::AllReduce(reduction) => move_by(self.call, reduction, &mut parts),
            Operation::ReduceScatter(reduction) => {
                let bytes = parts.first().map_or(0, |part| part.source().len());
                self.input = zeroed(bytes)?;
                self.output = zeroed(self.call.bytes())?;
                // The movement divides the combination among the outputs: here they are the pieces of one buffer.
                let piece = (bytes / parts.len()).max(1);
                let pieces = self.input.as_mut_slice().chunks_exact_mut(piece);
                let inputs = parts.iter().map(|part| part.input);
                let inputs = inputs.zip(pieces.map(Some).chain(std::iter::repeat_with(|| None)));
                let mut inputs: Vec<_> = inputs
                    .map(|(input, output)| Bytes { input, output })
                    .collect();
                move_by(self.call, reduction, &mut inputs)
            }
            Operation::AllGather => {
                let inputs: Vec<_> = parts.iter().filter_map(|part| part.input).collect();
                self.input = zeroed(inputs.iter().map(|input| input.len()).sum())?;
                let mut rest = self.input.as_mut_slice();
                for input in inputs {
                    let (piece, others) = rest.split_at_mut(input.len());
                    piece.copy_from_slice(input);
                    rest = others;
                }
                Ok(())
            }
            Operation::Broadcast { .. } | Operation::Send { .. } | Operation::Receive { .. } => {
                Ok(())
            }
        }
    }

    /// Returns the memory that the network reads and writes.
    pub(crate) fn memory(&mut self) -> Result<Bytes<'_>, String> {
        let first = self.parts.first_mut().ok_or("there are no devices")?;
        Ok(match self.call.operation {
            Operation::ReduceScatter(_) => Bytes {
                input: Some(self.input.as_slice()),
                output: Some(self.output.as_mut_slice()),
            },
            Operation::AllGather => Bytes {
                input: Some(self.input.as_slice()),
                output: first.memory()?.output,
            },
            _ => first.memory()?,
        })
    }

    /// Gives each device its result, and ends all parts.
    pub(crate) fn complete(mut self) {
        match self.divide() {
            Ok(()) => self.parts.into_iter().for_each(Part::complete),
            Err(why) => {
                let cause = Failure::not_run(&self.call.name.into(), Reason::Refused(why));
                self.fail_by(cause);
            }
        }
    }

    fn divide(&mut self) -> Result<(), String> {
        let mut parts = memory(&mut self.parts)?;
        match self.call.operation {
            Operation::ReduceScatter(_) => {
                let mut rest = self.output.as_slice();
                for part in &mut parts {
                    let target = part.target();
                    let (piece, others) = rest.split_at(target.len());
                    target.copy_from_slice(piece);
                    rest = others;
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

    /// Fails all parts.
    pub(crate) fn fail_by(self, cause: FailureRef) {
        for part in self.parts {
            part.fail_by(cause.clone());
        }
    }
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}

fn memory(parts: &mut [Part]) -> Result<Vec<Bytes<'_>>, String> {
    parts.iter_mut().map(Part::memory).collect()
}

fn move_by(
    call: Announcement,
    reduction: Reduction,
    parts: &mut [Bytes<'_>],
) -> Result<(), String> {
    (call.movement)(reduction, parts).map_err(|error| error.to_string())
}

fn zeroed(bytes: usize) -> Result<HostBuffer, String> {
    HostBuffer::zeroed(bytes).map_err(|error| error.to_string())
}
