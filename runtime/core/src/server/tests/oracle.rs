//! What a program must compute: its messages, one after the other, in the order in which they were
//! sent, with no device at all.
//!
//! The oracle learns from the run only which slices got memory; all else it works out: contents, and
//! which bytes have failed (I7).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::access::Access;
use crate::handle::Binding;
use crate::id::SliceId;
use crate::recording::RecordedTask;

use super::bytes::compute;

/// A message, as the oracle needs it.
pub(super) enum Sent {
    Reserve {
        slice: SliceId,
        bytes: u64,
        point: bool,
    },
    /// A launch, a fill, or a host function, and whether it is refused or fails by itself.
    Run {
        number: u64,
        bindings: Vec<Binding>,
        fails: bool,
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
}

/// What the answers must be.
pub(super) struct Oracle {
    slices: HashMap<SliceId, Contents>,
    pub(super) answers: HashMap<usize, Option<Vec<Vec<u8>>>>,
}

fn range(binding: &Binding) -> Range<usize> {
    binding.offset as usize..(binding.offset + binding.len) as usize
}

impl Oracle {
    pub(super) fn run(sent: &[Sent], reserved: &HashSet<SliceId>, refused: &HashSet<u64>) -> Self {
        let mut oracle = Self {
            slices: HashMap::new(),
            answers: HashMap::new(),
        };
        for message in sent {
            oracle.take(message, reserved, refused);
        }
        oracle
    }

    fn take(&mut self, sent: &Sent, reserved: &HashSet<SliceId>, refused: &HashSet<u64>) {
        match sent {
            Sent::Reserve {
                slice,
                bytes,
                point,
            } => {
                let contents = Contents {
                    bytes: vec![0; *bytes as usize],
                    failed: vec![false; *bytes as usize],
                    no_memory: *bytes > 0 && !point && !reserved.contains(slice),
                };
                self.slices.insert(*slice, contents);
            }
            Sent::Run {
                number,
                bindings,
                fails,
            } => self.compute(*number, bindings, *fails),
            Sent::Copy { source, target } => {
                let bytes = self.slices[&source.slice].bytes[range(source)].to_vec();
                self.task(&[*source, *target], false, |slices| {
                    slices
                        .get_mut(&target.slice)
                        .unwrap()
                        .bytes
                        .splice(range(target), bytes)
                        .for_each(drop);
                });
            }
            Sent::CopyIn { bytes, target } => self.task(&[*target], false, |slices| {
                slices.get_mut(&target.slice).unwrap().bytes[range(target)].copy_from_slice(bytes);
            }),
            Sent::CopyOut { answer, sources } => {
                let good = sources.iter().all(|source| self.is_good(source));
                let bytes = good.then(|| {
                    sources
                        .iter()
                        .map(|source| self.slices[&source.slice].bytes[range(source)].to_vec())
                        .collect()
                });
                self.answers.insert(*answer, bytes);
            }
            Sent::Replay { tasks, parameters } => self.replay(tasks, parameters, refused),
        }
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
        run: impl FnOnce(&mut HashMap<SliceId, Contents>),
    ) {
        let good = !fails && bindings.iter().all(|binding| self.is_good(binding));
        if good {
            run(&mut self.slices);
        }
        for binding in bindings.iter().filter(|binding| binding.access.writes()) {
            if good && binding.access != Access::Write {
                continue;
            }
            let slice = self.slices.get_mut(&binding.slice).unwrap();
            slice.failed[range(binding)].fill(!good);
        }
    }

    fn compute(&mut self, number: u64, bindings: &[Binding], fails: bool) {
        self.task(bindings, fails, |slices| {
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

    /// Task by task; but where a parameter has no memory none of them runs.
    fn replay(&mut self, tasks: &[RecordedTask], parameters: &[Binding], refused: &HashSet<u64>) {
        if parameters
            .iter()
            .any(|parameter| self.slices[&parameter.slice].no_memory)
        {
            return self.task(parameters, true, |_| {});
        }
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
            let number = task.scalars[0];
            self.compute(number, &bindings, refused.contains(&number));
        }
    }
}
