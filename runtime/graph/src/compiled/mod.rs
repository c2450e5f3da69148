//! A schedule that runs: kernels compiled, memory planned, everything recorded, so that a run is one message.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`cache`] | schedules and kernels that were compiled before |
//! | [`form`] | what schedules have in common that run by the same recording |
//! | [`held`] | schedules in two: what is made once, and what each run makes |
//! | [`report`] | what a run was made of, and how long each part took |
//! | [`run`] | one run: what is bound |
//! | [`outputs`] | and what comes out of it |
//! | [`tensor`] | the same on the host |

mod cache;
pub(crate) mod form;
mod held;
mod outputs;
mod report;
mod run;
mod tensor;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

pub use cache::{CacheStats, GraphCache};
pub use held::{CompiledHeld, Preparation, Prepared};
use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Recording};
use millstream_ir::Blocking;
use millstream_protocol::access::Access;
use millstream_protocol::kernel::Kernel;
use millstream_protocol::properties::Feature;
use millstream_protocol::recording::RecordedWord;
pub use outputs::{Output, Outputs};
pub use report::{ItemReport, Roofline, RunReport};
pub use run::Run;
use smallvec::SmallVec;
pub use tensor::Tensor;

use crate::compiled::form::Form;
use crate::error::ScheduleError;
use crate::lazy::callee::Callee;
use crate::lazy::scalar::Scalar;
use crate::memory::{Memory, Place, Root};
use crate::schedule::item::{Item, WordValue, Work};
use crate::schedule::walk::Local;
use crate::schedule::{Schedule, Steps};
use crate::size::{Size, Symbol};

/// A schedule for one device, ready to run: any number of times, from any thread, with other inputs, scalars and lengths each time, as one
/// message. Cheap to clone.
#[derive(Clone)]
pub struct CompiledSchedule {
    shared: Arc<Compiled>,
    names: Arc<Names>,
}

/// What schedules of one form share.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// Whose the memory for temporaries is.
    client: ComputeClient,
    recording: Recording,
    /// What each parameter of the recording is.
    parameters: Vec<Place>,
    temporary_bytes: u64,
    /// Memory for temporaries: one for each queue, so that as many runs as there are queues overlap.
    arenas: Mutex<Vec<Option<Handle<u8>>>>,
    /// The kernel of each item.
    kernel_names: Vec<Arc<str>>,
    /// Kernels of users, which the form names by where they lie.
    _kernels: Vec<Arc<Kernel>>,
    /// One of the kernels, to tell whose device it is.
    witness: Option<KernelHandle>,
}

/// What is a schedule's own: which buffers, scalars and lengths it names.
#[derive(Debug)]
struct Names {
    steps: Arc<Steps>,
    memory: Memory,
    slots: Slots,
}

/// The words that each run computes, in the order of the recording's slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Vec<Slot>);

/// A word that each run computes.
#[derive(Clone, Debug)]
enum Slot {
    Size(Size),
    Scalar(Scalar),
}

impl Names {
    /// Does anything of a run depend on the scalar?
    fn has_scalar(&self, scalar: &Scalar) -> bool {
        let is_it =
            |slot: &Slot| matches!(slot, Slot::Scalar(known) if known.key() == scalar.key());
        self.slots.0.iter().any(is_it)
    }

    /// Does anything of a run depend on the length: a kernel, or the shape of a root?
    fn has_length(&self, symbol: &Symbol) -> bool {
        let of_slots = self.slots.0.iter().filter_map(|slot| match slot {
            Slot::Size(size) => Some(size),
            Slot::Scalar(_) => None,
        });
        let of_roots = self.memory.roots.iter().flat_map(|root| root.shape.iter());
        of_slots
            .chain(of_roots)
            .any(|size| size.symbols().any(|known| known == symbol))
    }
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The slot of a size, a new one if there is none yet.
    pub(crate) fn size(&mut self, size: &Size) -> u32 {
        let found = self
            .0
            .iter()
            .position(|slot| matches!(slot, Slot::Size(known) if known == size));
        self.found_or(found, || Slot::Size(size.clone()))
    }

    /// The slot of a scalar, a new one if there is none yet.
    pub(crate) fn scalar(&mut self, scalar: &Scalar) -> u32 {
        let same = |slot: &Slot| matches!(slot, Slot::Scalar(known) if known.key() == scalar.key());
        let found = self.0.iter().position(same);
        self.found_or(found, || Slot::Scalar(scalar.clone()))
    }

    fn found_or(&mut self, found: Option<usize>, make: impl FnOnce() -> Slot) -> u32 {
        let index = found.unwrap_or_else(|| {
            self.0.push(make());
            self.0.len() - 1
        });
        index as u32
    }
}

impl Compiled {
    /// Was it compiled for the device of this client, in the epoch that it is in?
    pub(crate) fn is_for(&self, client: &ComputeClient) -> bool {
        self.witness
            .as_ref()
            .is_none_or(|kernel| client.knows(kernel))
    }
}

impl Schedule {
    /// Compiles everything for the device of a client, and plans and records a run.
    ///
    /// May take long, and may wait for room in the mailbox.
    ///
    /// # Errors
    /// [`ScheduleError::Kernel`] where a kernel does not compile, [`ScheduleError::Device`],
    /// [`ScheduleError::ForeignDevice`] where the schedule uses buffers of another device.
    pub fn compile(&self, client: &ComputeClient) -> Result<CompiledSchedule, ScheduleError> {
        // For the kernels that it has more than once.
        self.compile_with_cache(client, &GraphCache::default())
    }

    /// As [`Schedule::compile`], with what was compiled before: the whole schedule if one of its form was, or the kernels that were.
    /// With a cache that has a tuner, programs are cut up as that says.
    ///
    /// # Errors
    /// As [`Schedule::compile`]; [`ScheduleError::Tuning`] where the cache has a tuner that is frozen.
    pub fn compile_with_cache(
        &self,
        client: &ComputeClient,
        cache: &GraphCache,
    ) -> Result<CompiledSchedule, ScheduleError> {
        let span = tracing::debug_span!("compile_schedule", items = self.items().len());
        let _entered = span.enter();
        let memory = self.memory(client)?;
        let blockings = cache.blockings(client, &self.shared, &memory)?;
        let mut slots = Slots::default();
        let form = Form::new(&self.shared, &memory, &blockings, &mut slots);
        let mut names = Names {
            steps: self.shared.clone(),
            memory,
            slots,
        };
        let shared = match cache.schedule(client, &form) {
            Some(shared) => shared,
            None => {
                let shared = Arc::new(names.record(client, cache, &blockings)?);
                cache.keep(form, shared.clone());
                shared
            }
        };
        let names = Arc::new(names);
        Ok(CompiledSchedule { shared, names })
    }

    /// Its buffers on the device of a client.
    pub(crate) fn memory(&self, client: &ComputeClient) -> Result<Memory, ScheduleError> {
        if let Some(handle) = self.shared.handles().next()
            && !client.owns(handle)
        {
            return Err(ScheduleError::ForeignDevice);
        }
        // Where the driver replays a recording as a graph, it runs side by side what is independent.
        let overlaps = client.properties().has(Feature::Capture);
        Memory::new(&self.shared, overlaps)
    }
}

impl Names {
    /// Compiles the kernels and takes down the launches.
    fn record(
        &mut self,
        client: &ComputeClient,
        cache: &GraphCache,
        blockings: &[Blocking],
    ) -> Result<Compiled, ScheduleError> {
        let mut kernels = Vec::with_capacity(self.steps.items.len());
        let mut users = Vec::new();
        for (index, item) in self.steps.items.iter().enumerate() {
            kernels.push(match &item.work {
                Work::Program(program) => {
                    let program = self.memory.program(index, program);
                    cache.kernel(client, program, blockings[index])?
                }
                Work::Custom(custom) => match &custom.callee {
                    Callee::Kernel(kernel) => {
                        users.push(kernel.clone());
                        client.kernel((**kernel).clone())?
                    }
                    Callee::Ssa(program) => cache.kernel(client, program, Blocking::USUAL)?,
                },
            });
        }
        let mut recorder = Recorder {
            steps: &self.steps,
            memory: &self.memory,
            slots: &mut self.slots,
            handles: Vec::new(),
        };
        let recording = recorder.record(client, &kernels)?;
        let handles = recorder.handles;
        let mut parameters: Vec<Option<Place>> = vec![None; recording.parameters()];
        for (place, handle) in &handles {
            if let Some(index) = recording.parameter_of(handle) {
                parameters[index] = Some(*place);
            }
        }
        let queues = client.properties().queues.max(1);
        Ok(Compiled {
            client: client.clone(),
            recording,
            parameters: parameters.into_iter().flatten().collect(),
            temporary_bytes: self.memory.temporary_bytes(),
            arenas: Mutex::new(vec![None; queues]),
            kernel_names: kernels.iter().map(|kernel| kernel.name().clone()).collect(),
            _kernels: users,
            witness: kernels.into_iter().next(),
        })
    }
}

impl CompiledSchedule {
    /// The root that is computed into an output.
    fn root_of(&self, output: usize) -> usize {
        let is_it = |root: &Root| root.place == Place::Output(output);
        let mut roots = self.names.memory.roots.iter();
        roots.position(is_it).unwrap_or(output)
    }

    /// How many tasks a run is.
    pub fn tasks(&self) -> usize {
        self.shared.recording.len()
    }

    /// Bytes of memory that the temporaries of a run take: what is not needed at the same time shares bytes.
    pub fn temporary_bytes(&self) -> u64 {
        self.names.memory.temporary_bytes()
    }

    /// Bytes of all temporaries side by side: what they would take without a plan.
    pub fn unplanned_bytes(&self) -> u64 {
        self.names.memory.unplanned_bytes()
    }

    /// Bytes of the outputs of a run that are not bound, with every length at its greatest.
    pub fn output_bytes(&self) -> u64 {
        self.names.memory.output_bytes()
    }

    /// The most device memory that a run needs beside its inputs: temporaries and outputs.
    pub fn peak_bytes(&self) -> u64 {
        self.temporary_bytes() + self.output_bytes()
    }
}

/// Takes down the launches of a schedule.
struct Recorder<'a> {
    steps: &'a Steps,
    memory: &'a Memory,
    slots: &'a mut Slots,
    /// What stands for each place.
    handles: Vec<(Place, Handle<u8>)>,
}

impl Recorder<'_> {
    fn record(
        &mut self,
        client: &ComputeClient,
        kernels: &[KernelHandle],
    ) -> Result<Recording, ScheduleError> {
        let stream = client.new_stream();
        let recording = stream.record(|recorder| {
            for parameter in self.memory.parameters() {
                let bytes = parameter.bytes as usize;
                let handle = match parameter.place {
                    Place::Input(_) => recorder.parameter::<u8>(bytes)?,
                    Place::Output(_) | Place::Arena => recorder.scratch::<u8>(bytes)?,
                };
                if parameter.may_be_shorter {
                    // SAFETY: a run checks that the handle has all bytes of its lengths, and its words tell these lengths to the
                    // programs. No kernel of a user takes it.
                    unsafe { recorder.allow_shorter(&handle) };
                }
                self.handles.push((parameter.place, handle));
            }
            let mut touched = HashSet::new();
            for (index, (item, kernel)) in self.steps.items.iter().zip(kernels).enumerate() {
                let handles = self.bound(index, kernel)?;
                let fresh = self.fresh(index, &mut touched);
                let accesses = kernel.kernel().signature().bindings().iter().enumerate();
                let bindings: Vec<_> = handles
                    .iter()
                    .zip(accesses)
                    .map(|(handle, (binding, spec))| match fresh.contains(&binding) {
                        true => bind(handle, Access::Write),
                        false => bind(handle, spec.access),
                    })
                    .collect();
                let words = self.words(item, kernel);
                let count = match &item.work {
                    Work::Program(_) => CubeCount::single(),
                    Work::Custom(custom) => {
                        let [x, y, z] = custom.cubes;
                        CubeCount::Static(x, y, z)
                    }
                };
                recorder.launch_words(kernel, count, &bindings, &words)?;
            }
            Ok(())
        })?;
        Ok(recording)
    }

    /// The bindings of an item's program that need nothing of what their buffers hold: the first use of the buffer in a run, which
    /// holds what is of an earlier run or of another temporary then, or one that overwrites it. Its failures are not those of the
    /// item (I7). Inputs are the caller's: of those, what a run leaves alone keeps its failures.
    fn fresh(&self, index: usize, touched: &mut HashSet<Local>) -> SmallVec<[usize; 1]> {
        let item = &self.steps.items[index];
        let merged = self.memory.in_place(index).map(|merged| merged.output);
        let mut fresh = SmallVec::new();
        for written in &item.writes {
            let output = self.steps.storage(written.node);
            let is_first = touched.insert(output);
            let is_input = matches!(self.memory.place(output).0, Place::Input(_));
            let is_fresh = is_first || written.overwrites;
            if is_fresh && !is_input && merged != Some(written.binding) {
                // The program has no binding for the one that lies in the place of an input.
                let before = merged.is_some_and(|merged| merged < written.binding);
                fresh.push(written.binding - usize::from(before));
            }
        }
        touched.extend(item.bindings.iter().map(|node| self.steps.storage(*node)));
        fresh
    }

    /// What an item is bound to.
    fn bound(
        &self,
        index: usize,
        kernel: &KernelHandle,
    ) -> Result<Vec<Handle<u8>>, millstream_protocol::error::Error> {
        let mut handles = Vec::new();
        for (place, start, bytes) in self.memory.bound(self.steps, index) {
            let Some((_, whole)) = self.handles.iter().find(|(known, _)| *known == place) else {
                continue;
            };
            let end = start + bytes;
            let view = whole.slice(start as usize..end as usize);
            let view = view.map_err(|why| millstream_protocol::error::Error::Launch {
                task: kernel.name().clone(),
                why,
            })?;
            handles.push(view);
        }
        Ok(handles)
    }

    fn words(&mut self, item: &Item, kernel: &KernelHandle) -> Vec<RecordedWord> {
        let words = item.words.iter().map(|word| match word {
            WordValue::Bits(bits) => RecordedWord::Value(*bits),
            WordValue::Size(size) => match size.known() {
                Some(value) => RecordedWord::Value(value as u64),
                None => RecordedWord::Slot(self.slots.size(size)),
            },
            WordValue::Scalar(scalar) => RecordedWord::Slot(self.slots.scalar(scalar)),
        });
        match &item.work {
            Work::Program(_) => words.collect(),
            Work::Custom(_) => packed(words, kernel),
        }
    }
}

/// The scalars of a kernel of a user as it takes them: several of them in a word, of those that are the same in each run.
fn packed(scalars: impl Iterator<Item = RecordedWord>, kernel: &KernelHandle) -> Vec<RecordedWord> {
    let signature = kernel.kernel().signature();
    let mut words = vec![RecordedWord::Value(0); signature.scalar_words()];
    for (spec, scalar) in signature.scalars().iter().zip(scalars) {
        let place = &mut words[spec.offset / 8];
        // Scalars do not straddle words.
        *place = match (*place, scalar) {
            (RecordedWord::Value(others), RecordedWord::Value(bits)) => {
                RecordedWord::Value(others | bits << (spec.offset % 8 * 8))
            }
            (_, scalar) => scalar,
        };
    }
    words
}
