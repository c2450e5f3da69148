//! Compiled schedules: kernels are compiled, memory is planned and the launches are recorded, so that a run is one
//! message.
//!
//! | module | contents |
//! | --- | --- |
//! | [`cache`] | the cache of schedules and kernels |
//! | [`form`] | a schedule without the identity of its buffers: the key of a recording, which it records |
//! | [`report`] | the items of a run with their times |
//! | [`run`] | one run: bindings, checks and submission |
//! | [`outputs`] | the outputs of a run |
//! | [`tensor`] | outputs on the host |
//!
//! # Compiling
//! ```text
//!  Schedule ──Memory::new──► places ──Form::new──► form, slots ──lookup──► hit: shared recording
//!                                                                    └──► miss: kernels, Form::record ──► cached
//! ```
//! A [`CompiledSchedule`] has two halves. [`Compiled`] belongs to the form: recording, parameters, memory for
//! temporaries; schedules with equal forms share it. [`Names`] belongs to the schedule: which buffers, scalars and
//! lengths fill the parameters and slots. `Form::new` assigns slots and `Form::record` records its words, so the slots
//! of every schedule fit the shared recording.
//!
//! # A run
//! [`Run::submit`](run::Run::submit) computes the values of the slots, allocates outputs that are not bound, checks
//! inputs and overlaps, takes an arena for the temporaries, and replays the recording. A failed check replays nothing.
//! There is one arena for each queue of the device, and a stream always uses the same one, so runs of different streams
//! overlap as far as arenas and hazards allow:
//!
//! ```text
//!  2 queues    stream 0 (arena 0)        stream 1 (arena 1)        stream 2 (arena 0)
//!              replay(x0, y0, arena 0)   replay(x1, y1, arena 1)
//!                                                                  replay(x2, y2, arena 0)
//!              runs at once              runs at once: no byte     runs after the replay of stream 0: both
//!                                        in common                 write arena 0 (I2)
//! ```
//! The first item that uses a temporary or an output writes it as undefined memory (`form::fresh_bindings`), so
//! neither the data nor the failures of an earlier run reach a later one (I7). `tests/graph` (`running`, `failures`)
//! and `tests/graph-fuzz` (`modes`, `failing`) run schedules from several threads and after failures.

mod cache;
pub(crate) mod form;
mod outputs;
mod report;
mod run;
mod tensor;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub use cache::{CacheStats, GraphCache};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Recording};
use millstream_protocol::Feature;
pub use outputs::{Output, Outputs};
pub use report::{ItemReport, Roofline, RunReport};
pub use run::Run;
pub use tensor::Tensor;

use crate::compiled::form::{Form, FormCallee, FormItem};
use crate::error::ScheduleError;
use crate::lazy::scalar::Scalar;
use crate::memory::{Memory, ParameterRole, Root};
use crate::schedule::{Schedule, Steps, handles};
use crate::size::{Size, Symbol};

/// A schedule that is compiled for one device. Any thread may run it any number of times, each time with other inputs,
/// scalars and lengths; a run is one message. Cheap to clone.
#[derive(Clone)]
pub struct CompiledSchedule {
    shared: Arc<Compiled>,
    names: Arc<Names>,
}

/// The part that schedules of one form share.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The client that owns the memory of temporaries.
    client: ComputeClient,
    recording: Recording,
    /// The place of each parameter of the recording.
    parameters: Vec<ParameterRole>,
    temporary_bytes: u64,
    /// The memory of temporaries: one allocation for each queue, so that runs on different queues overlap. Allocated at
    /// the first use.
    arenas: Mutex<Vec<Option<Handle<u8>>>>,
    /// The name of each item's kernel.
    kernel_names: Vec<Arc<str>>,
    /// One of the kernels, which identifies the device and its epoch.
    witness: Option<KernelHandle>,
}

/// The part that belongs to one schedule: the buffers, scalars and lengths that it names.
#[derive(Debug)]
struct Names {
    steps: Arc<Steps>,
    memory: Memory,
    slots: Slots,
}

/// The words that each run computes, in the order of the recording's slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    of_sizes: HashMap<Size, u32>,
    /// By the keys of scalars.
    of_scalars: HashMap<usize, u32>,
}

/// A word that each run computes.
#[derive(Clone, Debug)]
enum Slot {
    Size(Size),
    Scalar(Scalar),
}

impl Names {
    /// Returns the lengths that a run depends on, by a kernel or the shape of a root, each as often as it occurs.
    fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        let of_slots = self.slots.all.iter().filter_map(|slot| match slot {
            Slot::Size(size) => Some(size),
            Slot::Scalar(_) => None,
        });
        let of_roots = self.memory.roots.iter().flat_map(|root| root.shape.iter());
        of_slots.chain(of_roots).flat_map(Size::symbols)
    }
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the slot of a size; adds one if there is none.
    pub(crate) fn size(&mut self, size: &Size) -> u32 {
        let known = self.of_sizes.entry(size.clone());
        *known.or_insert_with(|| {
            self.all.push(Slot::Size(size.clone()));
            (self.all.len() - 1) as u32
        })
    }

    /// Returns the slot of a scalar; adds one if there is none.
    pub(crate) fn scalar(&mut self, scalar: &Scalar) -> u32 {
        let known = self.of_scalars.entry(scalar.key());
        *known.or_insert_with(|| {
            self.all.push(Slot::Scalar(scalar.clone()));
            (self.all.len() - 1) as u32
        })
    }
}

impl Compiled {
    /// Returns `true` if it was compiled for the device of this client, in its present epoch.
    pub(crate) fn is_for(&self, client: &ComputeClient) -> bool {
        let witness = self.witness.as_ref();
        witness.is_none_or(|kernel| client.knows(kernel))
    }
}

impl Schedule {
    /// Compiles all kernels for the device of a client, plans the memory and records a run.
    ///
    /// May take long, and may block on a full mailbox.
    ///
    /// # Errors
    /// [`ScheduleError::Kernel`] if a kernel does not compile, [`ScheduleError::Device`],
    /// [`ScheduleError::ForeignDevice`] if the schedule uses buffers of another device.
    pub fn compile(&self, client: &ComputeClient) -> Result<CompiledSchedule, ScheduleError> {
        // The cache serves kernels that occur more than once.
        self.compile_with_cache(client, &GraphCache::default())
    }

    /// As [`Schedule::compile`], with a cache: reuses a recording of the same form, or at least kernels. If the cache
    /// has a tuner, programs use the blockings that it chooses.
    ///
    /// # Errors
    /// As [`Schedule::compile`]; [`ScheduleError::Tuning`] if the cache has a frozen tuner that does not know a
    /// program.
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
        let shared = match cache.schedule(client, &form) {
            Some(shared) => shared,
            None => {
                let bytes = memory.temporary_bytes;
                let shared = Arc::new(Compiled::new(client, cache, &form, bytes)?);
                cache.insert(form, shared.clone());
                shared
            }
        };
        let steps = self.shared.clone();
        let names = Arc::new(Names {
            steps,
            memory,
            slots,
        });
        Ok(CompiledSchedule { shared, names })
    }

    /// Assigns the buffers for the device of a client.
    pub(crate) fn memory(&self, client: &ComputeClient) -> Result<Memory, ScheduleError> {
        if let Some(handle) = handles(&self.shared.nodes).next()
            && !client.owns(handle)
        {
            return Err(ScheduleError::ForeignDevice {
                slice: handle.id(),
                client: client.name().into(),
            });
        }
        // A driver that replays a recording as a graph runs independent items at the same time.
        let overlaps = client.properties().has(Feature::ConcurrentReplay);
        Memory::new(&self.shared, overlaps)
    }
}

impl Compiled {
    /// Compiles the kernels of a form and records the launches.
    fn new(
        client: &ComputeClient,
        cache: &GraphCache,
        form: &Form,
        temporary_bytes: u64,
    ) -> Result<Self, ScheduleError> {
        let kernel = |item: &FormItem| match &item.callee {
            FormCallee::Program(program, blocking) => cache.kernel(client, program, *blocking),
            FormCallee::Kernel(kernel) => Ok(client.kernel((*kernel.0).clone())?),
        };
        let kernels = form.items.iter().map(kernel);
        let kernels = kernels.collect::<Result<Vec<KernelHandle>, _>>()?;
        let (recording, parameters) = form.record(client, &kernels)?;
        let queues = client.properties().queues.max(1);
        Ok(Self {
            client: client.clone(),
            recording,
            parameters,
            temporary_bytes,
            arenas: Mutex::new(vec![None; queues]),
            kernel_names: kernels.iter().map(|kernel| kernel.name().clone()).collect(),
            witness: kernels.into_iter().next(),
        })
    }
}

impl CompiledSchedule {
    /// Returns the root that is computed into an output.
    fn root_of(&self, output: usize) -> usize {
        let is_it = |root: &Root| root.place == ParameterRole::Output(output);
        let mut roots = self.names.memory.roots.iter();
        roots.position(is_it).unwrap_or(output)
    }

    /// Returns the number of tasks of a run.
    pub fn tasks(&self) -> usize {
        self.shared.recording.len()
    }

    /// Returns the number of bytes of the temporaries of a run. Temporaries that are not live at the same time share
    /// bytes.
    pub fn temporary_bytes(&self) -> u64 {
        self.names.memory.temporary_bytes
    }

    /// Returns the number of bytes of all temporaries without sharing.
    pub fn unplanned_bytes(&self) -> u64 {
        self.names.memory.unplanned_bytes
    }

    /// Returns the number of bytes of the outputs that a run allocates if none is bound, with every length at its
    /// maximum.
    pub fn output_bytes(&self) -> u64 {
        let outputs = self.names.memory.outputs.iter();
        outputs.map(|extent| extent.bytes).sum()
    }

    /// Returns the most device memory that a run needs in addition to its inputs: temporaries and outputs.
    pub fn peak_bytes(&self) -> u64 {
        self.temporary_bytes() + self.output_bytes()
    }
}
