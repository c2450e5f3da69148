//! The results that a program must compute: its messages, one after the other, in the order in which they were sent,
//! without a device.
//!
//! The oracle takes two facts from the run: which slices got memory, and what is refused. It computes everything else:
//! the contents, and which bytes are poisoned (I7).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::{
    Access, Binding, SliceId,
    recording::{RecordedOp, RecordedTask},
};

use super::bytes::compute;
use super::ledger::Ledger;

/// A message, as the oracle needs it.
pub(super) enum Sent {
    Reserve {
        slice: SliceId,
        bytes: u64,
        point: bool,
    },
    /// A launch, a fill, a custom task or a host function, and whether it is refused or fails.
    Run {
        number: u64,
        bindings: Vec<Binding>,
        fails: bool,
        /// Whether the bytes that it overwrites are data afterwards. They need not be if the count is read on the
        /// device.
        heals: bool,
    },
    /// A host function over these bindings that answers the request with this index when it begins.
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
    /// A read that is the request with this index.
    CopyOut {
        answer: usize,
        sources: Vec<Binding>,
    },
    Replay {
        tasks: Arc<[RecordedTask]>,
        parameters: Vec<Binding>,
    },
}

/// The contents of a slice, and which bytes are poisoned.
struct Contents {
    bytes: Vec<u8>,
    failed: Vec<bool>,
    /// Whether it has no memory and never will.
    no_memory: bool,
    /// Whether it depends on a slice that got memory only when a task overwrote it. The oracle does not know when that
    /// was.
    unknown: bool,
}

/// The expected answer to a request.
pub(super) enum Expected {
    /// Bytes, or a failure.
    Known(Option<Vec<Vec<u8>>>),
    /// The oracle does not know it.
    Unknown,
}

/// The expected answers, by the index of the request.
pub(super) type Answers = HashMap<usize, Expected>;

/// The state after the messages so far.
struct Oracle<'a> {
    /// The source of which slices got memory and what is refused.
    ledger: &'a Ledger,
    reserved_again: &'a HashSet<SliceId>,
    slices: HashMap<SliceId, Contents>,
    answers: Answers,
}

/// Returns the expected answers to these messages. Syncs have no failures and are not among them.
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

    /// Returns `true` if a task can use the binding: its slice has memory, and no byte that the task reads is poisoned.
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
