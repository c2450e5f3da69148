//! What a program must compute: its messages, one after the other, in the order in which they were
//! sent, with no device at all.
//!
//! The oracle learns from the run only which slices got memory, and from the script what is refused; all
//! else it works out: contents, and which bytes have failed (I7).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::id::SliceId;
use millstream_protocol::recording::{RecordedOp, RecordedTask};

use super::bytes::compute;
use super::ledger::Ledger;

/// A message, as the oracle needs it.
pub(super) enum Sent {
    Reserve {
        slice: SliceId,
        bytes: u64,
        point: bool,
    },
    /// A launch, a fill, a custom task or a host function, and whether it is refused or fails by itself.
    Run {
        number: u64,
        bindings: Vec<Binding>,
        fails: bool,
        /// Is what it writes whole known to be data afterwards? Not with a count that is read on the device.
        heals: bool,
    },
    /// A host function over these bindings tells the answer with this index that it has begun.
    Begins {
        answer: usize,
        bindings: Vec<Binding>,
    },
    Copy {
        source: Binding,
        target: Binding,
    },
    CopyIn {
        bytes: Vec<u8>,
        target: Binding,
    },
    /// The answer with this index.
    CopyOut {
        answer: usize,
        sources: Vec<Binding>,
    },
    Replay {
        tasks: Arc<[RecordedTask]>,
        parameters: Vec<Binding>,
    },
}

/// The contents of a slice, and which bytes have failed.
struct Contents {
    bytes: Vec<u8>,
    failed: Vec<bool>,
    /// It has no memory and never will.
    no_memory: bool,
    /// It depends on a slice that got memory only when some task defined it anew; when that was, the oracle does not know.
    unknown: bool,
}

/// What an answer must be.
pub(super) enum Expected {
    /// Bytes, or a failure.
    Known(Option<Vec<Vec<u8>>>),
    /// The oracle does not know.
    Unknown,
}

/// What the answers must be.
pub(super) type Answers = HashMap<usize, Expected>;

/// What has been sent so far, worked out.
struct Oracle<'a> {
    /// Which slices got memory, and what is refused.
    ledger: &'a Ledger,
    reserved_again: &'a HashSet<SliceId>,
    slices: HashMap<SliceId, Contents>,
    answers: Answers,
}

/// What the answers to these messages must be. Syncs are not among them: they have no failures.
pub(super) fn answers(
    sent: &[Sent],
    ledger: &Ledger,
    reserved_again: &HashSet<SliceId>,
) -> Answers {
    let mut oracle = Oracle {
        ledger,
        reserved_again,
        slices: HashMap::new(),
        answers: HashMap::new(),
    };
    sent.iter().for_each(|message| oracle.take(message));
    oracle.answers
}

fn range(binding: &Binding) -> Range<usize> {
    binding.offset as usize..(binding.offset + binding.len) as usize
}

/// As [`Ledger::refuses_copy_of`] takes it.
fn part(binding: &Binding) -> (SliceId, u64, u64) {
    (binding.slice, binding.offset, binding.len)
}

impl Oracle<'_> {
    fn take(&mut self, sent: &Sent) {
        match sent {
            Sent::Reserve {
                slice,
                bytes,
                point,
            } => {
                let contents = Contents {
                    bytes: vec![0; *bytes as usize],
                    failed: vec![false; *bytes as usize],
                    no_memory: *bytes > 0 && !point && !self.ledger.memory.reserved.contains(slice),
                    unknown: self.reserved_again.contains(slice),
                };
                self.slices.insert(*slice, contents);
            }
            Sent::Run {
                number,
                bindings,
                fails,
                heals,
            } => self.compute(*number, bindings, *fails, *heals),
            Sent::Begins { answer, bindings } => {
                let good = bindings.iter().all(|binding| self.is_good(binding));
                self.expect(*answer, bindings, good.then(Vec::new));
            }
            Sent::Copy { source, target } => self.copy(source, target),
            Sent::CopyIn { bytes, target } => {
                let refused = self.ledger.refuses_copy_of([part(target)]);
                self.task(&[*target], refused, true, |slices| {
                    slices.get_mut(&target.slice).unwrap().bytes[range(target)]
                        .copy_from_slice(bytes);
                });
            }
            Sent::CopyOut { answer, sources } => {
                let good = sources.iter().all(|source| {
                    self.is_good(source) && !self.ledger.refuses_copy_of([part(source)])
                });
                let bytes = good.then(|| {
                    sources
                        .iter()
                        .map(|source| self.slices[&source.slice].bytes[range(source)].to_vec())
                        .collect()
                });
                self.expect(*answer, sources, bytes);
            }
            Sent::Replay { tasks, parameters } => self.replay(tasks, parameters),
        }
    }

    fn expect(&mut self, answer: usize, bindings: &[Binding], bytes: Option<Vec<Vec<u8>>>) {
        let expected = match self.is_unknown(bindings) {
            true => Expected::Unknown,
            false => Expected::Known(bytes),
        };
        self.answers.insert(answer, expected);
    }

    fn is_unknown(&self, bindings: &[Binding]) -> bool {
        let mut slices = bindings.iter().map(|binding| &self.slices[&binding.slice]);
        slices.any(|slice| slice.unknown)
    }

    /// Can the binding be used: is there memory, and has nothing of what is read failed?
    fn is_good(&self, binding: &Binding) -> bool {
        if binding.len == 0 {
            return true;
        }
        let slice = &self.slices[&binding.slice];
        let failed = binding.access.reads() && slice.failed[range(binding)].contains(&true);
        !failed && !slice.no_memory
    }

    fn task(
        &mut self,
        bindings: &[Binding],
        fails: bool,
        heals: bool,
        run: impl FnOnce(&mut HashMap<SliceId, Contents>),
    ) {
        let unknown = self.is_unknown(bindings);
        let good = !fails && bindings.iter().all(|binding| self.is_good(binding));
        if good {
            run(&mut self.slices);
        }
        for binding in bindings.iter().filter(|binding| binding.access.writes()) {
            self.slices.get_mut(&binding.slice).unwrap().unknown |= unknown;
            if good && (binding.access != Access::Write || !heals) {
                continue;
            }
            let slice = self.slices.get_mut(&binding.slice).unwrap();
            slice.failed[range(binding)].fill(!good);
        }
    }

    fn copy(&mut self, source: &Binding, target: &Binding) {
        let refused = self.ledger.refuses_copy_of([part(source), part(target)]);
        let bytes = self.slices[&source.slice].bytes[range(source)].to_vec();
        self.task(&[*source, *target], refused, true, |slices| {
            slices.get_mut(&target.slice).unwrap().bytes[range(target)].copy_from_slice(&bytes);
        });
    }

    fn compute(&mut self, number: u64, bindings: &[Binding], fails: bool, heals: bool) {
        self.task(bindings, fails, heals, |slices| {
            let mut views: Vec<_> = bindings
                .iter()
                .map(|binding| {
                    (
                        binding.access,
                        slices[&binding.slice].bytes[range(binding)].to_vec(),
                    )
                })
                .collect();
            compute(number, &mut views);
            for (binding, (access, bytes)) in bindings.iter().zip(views) {
                if access.writes() {
                    slices.get_mut(&binding.slice).unwrap().bytes[range(binding)]
                        .copy_from_slice(&bytes);
                }
            }
        });
    }

    fn replay(&mut self, tasks: &[RecordedTask], parameters: &[Binding]) {
        for task in tasks {
            let bindings: Vec<Binding> = task
                .bindings
                .iter()
                .map(|binding| {
                    let parameter = &parameters[binding.parameter as usize];
                    Binding::new(
                        parameter.slice,
                        parameter.offset + binding.offset,
                        binding.len,
                        binding.access,
                    )
                })
                .collect();
            let number = match (task.op, bindings.as_slice()) {
                (RecordedOp::Copy, [source, target]) => {
                    self.copy(source, target);
                    continue;
                }
                (RecordedOp::Fill(pattern), _) => pattern.value,
                _ => task.scalars[0],
            };
            let fails = self.ledger.refused.contains(&number);
            self.compute(number, &bindings, fails, !task.is_dynamic());
        }
    }
}
