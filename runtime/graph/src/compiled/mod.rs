//! A schedule that runs: kernels compiled, memory planned, everything recorded, so that a run is one message.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`cache`] | kernels that were compiled before |
//! | [`plan`] | where temporaries lie |
//! | [`memory`] | which buffers there are: inputs, outputs, temporaries |
//! | [`run`] | one run: what is bound, and what comes out |

pub(crate) mod cache;
mod memory;
mod plan;
mod run;

use std::sync::{Arc, Mutex};

use millstream_core::client::{ComputeClient, KernelHandle, Recording};
use millstream_core::handle::Handle;
use millstream_core::launch::{CubeCount, bind};
use millstream_core::recording::RecordedWord;

pub use cache::{CacheStats, KernelCache};
pub use run::{Output, Outputs, Run};

use crate::compiled::memory::{Memory, Place};
use crate::error::ScheduleError;
use crate::lazy::custom::{Callee, Custom};
use crate::lazy::scalar::Scalar;
use crate::schedule::item::{Item, WordValue, Work};
use crate::schedule::{Schedule, Steps};
use crate::size::Size;

/// A schedule for one device, ready to run: any number of times, from any thread, with other inputs, scalars and lengths each time, as one
/// message. Cheap to clone.
#[derive(Clone)]
pub struct CompiledSchedule {
    shared: Arc<Compiled>,
}

struct Compiled {
    steps: Arc<Steps>,
    client: ComputeClient,
    recording: Recording,
    memory: Memory,
    /// What each parameter of the recording is.
    parameters: Vec<Place>,
    /// What each slot of the recording's words is.
    slots: Vec<Slot>,
    /// Memory for temporaries: one for each queue, so that as many runs as there are queues overlap.
    arenas: Mutex<Vec<Option<Handle<u8>>>>,
}

/// A word that each run computes.
#[derive(Clone, Debug)]
enum Slot {
    Size(Size),
    Scalar(Scalar),
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
        self.compile_with_cache(client, &KernelCache::default())
    }

    /// As [`Schedule::compile`], with kernels that were compiled before.
    ///
    /// # Errors
    /// As [`Schedule::compile`].
    pub fn compile_with_cache(
        &self,
        client: &ComputeClient,
        cache: &KernelCache,
    ) -> Result<CompiledSchedule, ScheduleError> {
        let span = tracing::debug_span!("compile_schedule", items = self.items().len());
        let _entered = span.enter();
        let memory = Memory::new(&self.shared)?;
        let mut kernels = Vec::with_capacity(self.items().len());
        for (index, item) in self.items().iter().enumerate() {
            kernels.push(match &item.work {
                Work::Program(program) => {
                    cache.kernel(client, memory.in_place(index).unwrap_or(program))?
                }
                Work::Custom(custom) => match &custom.callee {
                    Callee::Kernel(kernel) => client.kernel((**kernel).clone())?,
                    Callee::Ssa(program) => cache.kernel(client, program)?,
                },
            });
        }
        let mut recorder = Recorder {
            steps: &self.shared,
            memory: &memory,
            slots: Vec::new(),
            handles: Vec::new(),
        };
        let recording = recorder.record(client, &kernels)?;
        let Recorder { slots, handles, .. } = recorder;
        let mut parameters: Vec<Option<Place>> = vec![None; recording.parameters()];
        for (place, handle) in &handles {
            if let Some(index) = recording.parameter_of(handle) {
                parameters[index] = Some(*place);
            }
        }
        let parameters = parameters.into_iter().flatten().collect();
        let queues = client.properties().queues.max(1);
        let compiled = Compiled {
            steps: self.shared.clone(),
            client: client.clone(),
            recording,
            memory,
            parameters,
            slots,
            arenas: Mutex::new(vec![None; queues]),
        };
        Ok(CompiledSchedule {
            shared: Arc::new(compiled),
        })
    }
}

impl CompiledSchedule {
    /// How many tasks a run is.
    pub fn tasks(&self) -> usize {
        self.shared.recording.len()
    }

    /// Bytes of memory that the temporaries of a run take: what is not needed at the same time shares bytes.
    pub fn temporary_bytes(&self) -> u64 {
        self.shared.memory.temporary_bytes()
    }

    /// Bytes of all temporaries side by side: what they would take without a plan.
    pub fn unplanned_bytes(&self) -> u64 {
        self.shared.memory.unplanned_bytes()
    }

    /// Bytes of the outputs of a run that are not bound, with every length at its greatest.
    pub fn output_bytes(&self) -> u64 {
        self.shared.memory.output_bytes()
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
    slots: Vec<Slot>,
    /// What stands for each place.
    handles: Vec<(Place, Handle<u8>)>,
}

impl Recorder<'_> {
    fn record(
        &mut self,
        client: &ComputeClient,
        kernels: &[KernelHandle],
    ) -> Result<Recording, ScheduleError> {
        let stream = client.stream();
        let recording = stream.record(|recorder| {
            for (place, bytes) in self.memory.parameters() {
                let handle = recorder.parameter::<u8>(bytes as usize)?;
                self.handles.push((place, handle));
            }
            for (item, kernel) in self.steps.items.iter().zip(kernels) {
                let handles = self.bound(item, kernel)?;
                let accesses = kernel.kernel().signature().bindings();
                let bindings: Vec<_> = handles
                    .iter()
                    .zip(accesses)
                    .map(|(handle, spec)| bind(handle, spec.access))
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

    /// What an item is bound to. A program that works in place has one buffer less than the item has bindings.
    fn bound(
        &self,
        item: &Item,
        kernel: &KernelHandle,
    ) -> Result<Vec<Handle<u8>>, millstream_core::error::Error> {
        let merged = kernel.kernel().signature().bindings().len() < item.bindings.len();
        let bound = item.bindings.iter().enumerate();
        let bound = bound.filter(|(index, _)| !(merged && *index == item.output));
        let mut handles = Vec::with_capacity(item.bindings.len());
        for (_, node) in bound {
            let (place, start, bytes) = self.memory.place(self.steps.storage(*node));
            let Some((_, whole)) = self.handles.iter().find(|(known, _)| *known == place) else {
                continue;
            };
            let end = start + bytes;
            let view = whole.slice(start as usize..end as usize);
            let view = view.map_err(|why| millstream_core::error::Error::Launch {
                task: kernel.name().clone(),
                why,
            })?;
            handles.push(view);
        }
        Ok(handles)
    }

    fn words(&mut self, item: &Item, kernel: &KernelHandle) -> Vec<RecordedWord> {
        if let Work::Custom(custom) = &item.work {
            return packed(custom, kernel);
        }
        let word = |word: &WordValue| match word {
            WordValue::Bits(bits) => RecordedWord::Value(*bits),
            WordValue::Size(size) => match size.known() {
                Some(value) => RecordedWord::Value(value as u64),
                None => self.slot(Slot::Size(size.clone())),
            },
            WordValue::Scalar(scalar) => self.slot(Slot::Scalar(scalar.clone())),
        };
        item.words.iter().map(word).collect()
    }

    fn slot(&mut self, slot: Slot) -> RecordedWord {
        let same = |known: &Slot| match (known, &slot) {
            (Slot::Size(a), Slot::Size(b)) => a == b,
            (Slot::Scalar(a), Slot::Scalar(b)) => a.key() == b.key(),
            _ => false,
        };
        let found = self.slots.iter().position(same);
        let index = found.unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        });
        RecordedWord::Slot(index as u32)
    }
}

/// The scalars of a kernel of a user as it takes them.
fn packed(custom: &Custom, kernel: &KernelHandle) -> Vec<RecordedWord> {
    let signature = kernel.kernel().signature();
    let mut words = vec![0_u64; signature.scalar_words()];
    for (spec, bits) in signature.scalars().iter().zip(&custom.scalars) {
        // Scalars do not straddle words.
        words[spec.offset / 8] |= bits << (spec.offset % 8 * 8);
    }
    words.into_iter().map(RecordedWord::Value).collect()
}
