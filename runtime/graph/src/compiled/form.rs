//! The form of a schedule: everything that determines its recording. Schedules that differ only in the identity of
//! their buffers, scalars and lengths have the same form and share one recording.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Recording};
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Access, Error, Kernel, recording::RecordedWord};
use smallvec::SmallVec;

use crate::plan::Plan;
use crate::schedule::Steps;
use crate::schedule::item::{Item, Work};
use crate::schedule::memory::{External, Region};
use crate::schedule::walk::Local;

/// A schedule without the identity of its buffers, scalars and lengths. Schedules with equal forms have the same
/// recording.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Form {
    pub(super) items: Vec<FormItem>,
    /// The parameters: the externals, and the arena if there are temporaries.
    parameters: Vec<Parameter>,
    /// Whether the last parameter is the arena: an output of its size is no arena.
    has_arena: bool,
    /// The number of slots. How their values depend on each other is up to the run, which computes them.
    slots: usize,
}

/// A launch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FormItem {
    pub(super) callee: FormCallee,
    cubes: [u32; 3],
    bindings: Vec<FormBinding>,
    words: Vec<RecordedWord>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum FormCallee {
    /// A program with its blocking.
    Program(Arc<Program>, Blocking),
    /// A kernel of a user.
    Kernel(UserKernel),
}

/// A kernel of a user, identified by its address.
#[derive(Clone, Debug)]
pub(super) struct UserKernel(pub(super) Arc<Kernel>);

impl PartialEq for UserKernel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UserKernel {}

impl Hash for UserKernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A parameter of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Parameter {
    /// The number of bytes, with every length at its maximum.
    bytes: u64,
    /// Whether a run with smaller lengths may bind fewer bytes.
    may_be_shorter: bool,
    /// Whether its content is undefined when a run begins.
    is_scratch: bool,
}

/// A binding of a launch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct FormBinding {
    region: Region,
    /// Whether the launch does not depend on the present content ([`fresh_bindings`]).
    is_fresh: bool,
}

impl Form {
    /// Returns the form of a schedule.
    pub(crate) fn new(steps: &Steps, plan: &Plan, blockings: &[Blocking]) -> Self {
        let mut touched = HashSet::new();
        let items = steps.items.iter().enumerate().map(|(index, item)| {
            let (callee, cubes) = match &item.work {
                Work::Program(program) => {
                    let callee = FormCallee::Program(program.clone(), blockings[index]);
                    (callee, [1; 3])
                }
                Work::Custom(custom) => {
                    let callee = match &custom.program {
                        Some(ssa) => FormCallee::Program(ssa.clone(), Blocking::DEFAULT),
                        None => FormCallee::Kernel(UserKernel(custom.kernel.clone())),
                    };
                    (callee, custom.cubes)
                }
            };
            let fresh = fresh_bindings(steps, item, &mut touched);
            let bindings = item.bound().map(|(binding, node)| FormBinding {
                region: steps.region(node, plan),
                is_fresh: fresh.contains(&binding),
            });
            let words = item.words.iter().map(|word| steps.slots.recorded(word));
            FormItem {
                callee,
                cubes,
                bindings: bindings.collect(),
                words: words.collect(),
            }
        });
        let items = items.collect();
        let external = |external: &External| Parameter {
            bytes: external.bytes,
            may_be_shorter: external.size.known().is_none(),
            is_scratch: !external.is_input,
        };
        // Temporaries of 0 bytes need a binding, too.
        let arena = (!plan.offsets.is_empty()).then_some(Parameter {
            bytes: plan.bytes.max(1),
            may_be_shorter: false,
            is_scratch: true,
        });
        let externals = steps.memory.externals.iter().map(external);
        Self {
            items,
            has_arena: arena.is_some(),
            parameters: externals.chain(arena).collect(),
            slots: steps.slots.all.len(),
        }
    }

    /// Records the launches, with the kernel of each item. Returns which parameter of the form each of the
    /// recording is, too.
    pub(super) fn record(
        &self,
        client: &ComputeClient,
        kernels: &[KernelHandle],
    ) -> Result<(Recording, Vec<usize>), Error> {
        // The handle that stands for each parameter while recording.
        let mut handles: Vec<Handle<u8>> = Vec::with_capacity(self.parameters.len());
        let stream = client.new_stream();
        let recording = stream.record(|recorder| {
            for parameter in &self.parameters {
                let bytes = parameter.bytes as usize;
                let handle = match parameter.is_scratch {
                    true => recorder.scratch::<u8>(bytes)?,
                    false => recorder.parameter::<u8>(bytes)?,
                };
                if parameter.may_be_shorter {
                    // SAFETY: a run checks that the handle has all bytes for its lengths, and its words pass these
                    // lengths to the programs. No kernel of a user uses it (`Memory::add_use`).
                    unsafe { recorder.allow_shorter(&handle) };
                }
                handles.push(handle);
            }
            for (item, kernel) in self.items.iter().zip(kernels) {
                let view = |binding: &FormBinding| {
                    let Region {
                        parameter,
                        start,
                        bytes,
                    } = binding.region;
                    let view = handles[parameter].slice(start as usize..(start + bytes) as usize);
                    view.map_err(|why| Error::from(why.of(kernel.name().clone())))
                };
                let views = item.bindings.iter().map(view);
                let views = views.collect::<Result<Vec<Handle<u8>>, Error>>()?;
                let specs = kernel.kernel().signature().bindings();
                let bindings = views.iter().zip(specs).zip(&item.bindings);
                let bindings: Vec<_> = bindings
                    .map(|((view, spec), binding)| match binding.is_fresh {
                        true => bind(view, Access::Write),
                        false => bind(view, spec.access),
                    })
                    .collect();
                let [x, y, z] = item.cubes;
                let (count, words) = (CubeCount::Static(x, y, z), packed(&item.words, kernel));
                recorder.launch_words(kernel, count, &bindings, &words)?;
            }
            Ok(())
        })?;
        let mut parameters = vec![None; recording.parameters()];
        for (parameter, handle) in handles.iter().enumerate() {
            if let Some(index) = recording.parameter_of(handle) {
                parameters[index] = Some(parameter);
            }
        }
        Ok((recording, parameters.into_iter().flatten().collect()))
    }
}

/// Returns the bindings of an item that do not depend on the present content of their buffers, so that failures of that
/// content are not failures of the item (I7): the first use of a buffer in a run, when it holds data of an earlier run
/// or of another temporary, and a use that overwrites it. Inputs belong to the caller: bytes that a run does not write
/// keep their failures. A use that overwrites an input writes all bytes that the run binds
/// ([`Run::issue`](super::run::Run::issue)).
fn fresh_bindings(
    steps: &Steps,
    item: &Item,
    touched: &mut HashSet<Local>,
) -> SmallVec<[usize; 1]> {
    let fresh = item.writes.iter().filter(|written| {
        let output = steps.storage(written.node);
        let is_first = touched.insert(output);
        is_first && !steps.node(output).is_buffer() || written.overwrites
    });
    let fresh = fresh.map(|written| written.binding).collect();
    touched.extend(item.bindings.iter().map(|node| steps.storage(*node)));
    fresh
}

/// Packs the scalars of a launch as the kernel's signature lays them out: several constant ones of a user's kernel may
/// share a word.
fn packed(scalars: &[RecordedWord], kernel: &KernelHandle) -> Vec<RecordedWord> {
    let signature = kernel.kernel().signature();
    let mut words = vec![RecordedWord::Value(0); signature.scalar_words()];
    for (spec, scalar) in signature.scalars().iter().zip(scalars) {
        let place = &mut words[spec.offset / 8];
        // Scalars do not straddle words.
        *place = match (*place, *scalar) {
            (RecordedWord::Value(others), RecordedWord::Value(bits)) => {
                RecordedWord::Value(others | bits << (spec.offset % 8 * 8))
            }
            (_, scalar) => scalar,
        };
    }
    words
}
