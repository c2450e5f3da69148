//! Compiled schedules: kernels are compiled, memory is planned and the launches are recorded, so that a run is one
//! message.
//!
//! | module | contents |
//! | --- | --- |
//! | [`cache`] | the cache of schedules and kernels |
//! | [`form`] | a schedule without the identity of its buffers: the key of a recording, which it records |
//! | [`report`] | the items of a run with their times |
//! | [`run`] | one run: bindings, checks and submission |
//! | [`tensor`] | the outputs of a run, on the device and on the host |
//!
//! # Compiling
//! ```text
//!  Schedule ──Steps::plan──► offsets ──Form::new──► form ──lookup──► hit: shared recording
//!                                                         └──► miss: kernels, Form::record ──► cached
//! ```
//! A [`CompiledSchedule`] has two halves. [`Compiled`] belongs to the form: recording, parameters, memory for
//! temporaries; schedules with equal forms share it. [`Steps`] belongs to the schedule: which buffers, scalars and
//! lengths fill the parameters and slots. The form has the words of the items by slot, so the slots of every schedule
//! fit the shared recording.
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
mod report;
mod run;
mod tensor;

use std::sync::{Arc, Mutex};

pub use cache::{CacheStats, GraphCache};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Recording};
use millstream_protocol::Feature;
pub use report::{ItemReport, Roofline, RunReport};
pub use run::Run;
pub use tensor::Tensor;
pub use tensor::{Output, Outputs};

use crate::compiled::form::{Form, FormCallee, FormItem};
use crate::error::ScheduleError;
use crate::schedule::walk::WalkNode;
use crate::schedule::{Schedule, Steps};

/// A schedule that is compiled for one device. Any thread may run it any number of times, each time with other inputs,
/// scalars and lengths; a run is one message. Cheap to clone.
#[derive(Clone)]
pub struct CompiledSchedule {
    shared: Arc<Compiled>,
    steps: Arc<Steps>,
}

/// The part that schedules of one form share.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The client that owns the memory of temporaries.
    client: ComputeClient,
    recording: Recording,
    /// The external that each parameter of the recording is, or behind them the arena
    /// ([`Region`](crate::schedule::memory::Region)).
    parameters: Vec<usize>,
    temporary_bytes: u64,
    /// The memory of temporaries: one allocation for each queue, so that runs on different queues overlap. Allocated at
    /// the first use.
    arenas: Mutex<Vec<Option<Handle<u8>>>>,
    /// The name of each item's kernel.
    kernel_names: Vec<Arc<str>>,
    /// One of the kernels, which identifies the device and its epoch.
    witness: Option<KernelHandle>,
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
        self.check_device(client)?;
        let steps = self.shared.clone();
        // A driver that replays a recording as a graph runs independent items at the same time.
        let plan = steps.plan(client.properties().has(Feature::ConcurrentReplay))?;
        let form = Form::new(&steps, &plan, &cache.blockings(client, &steps)?);
        let shared = match cache.schedule(client, &form) {
            Some(shared) => shared,
            None => {
                let shared = Arc::new(Compiled::new(client, cache, &form, plan.bytes)?);
                cache.insert(form, shared.clone());
                shared
            }
        };
        Ok(CompiledSchedule { shared, steps })
    }

    /// Checks that the buffers of the graph are of the device of a client.
    pub(crate) fn check_device(&self, client: &ComputeClient) -> Result<(), ScheduleError> {
        match self.shared.nodes.iter().find_map(WalkNode::handle) {
            Some(handle) if !client.owns(handle) => Err(ScheduleError::ForeignDevice {
                slice: handle.id(),
                client: client.name().into(),
            }),
            _ => Ok(()),
        }
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
    /// Returns the number of tasks of a run.
    pub fn tasks(&self) -> usize {
        self.shared.recording.len()
    }

    /// Returns the number of bytes of the temporaries of a run. Temporaries that are not live at the same time share
    /// bytes.
    pub fn temporary_bytes(&self) -> u64 {
        self.shared.temporary_bytes
    }

    /// Returns the number of bytes of all temporaries without sharing.
    pub fn unplanned_bytes(&self) -> u64 {
        self.steps.memory.unplanned_bytes
    }

    /// Returns the number of bytes of the outputs that a run allocates if none is bound, with every length at its
    /// maximum.
    pub fn output_bytes(&self) -> u64 {
        let externals = self.steps.memory.externals.iter();
        let outputs = externals.filter(|external| !external.is_input);
        outputs.map(|output| output.bytes).sum()
    }

    /// Returns the most device memory that a run needs in addition to its inputs: temporaries and outputs.
    pub fn peak_bytes(&self) -> u64 {
        self.temporary_bytes() + self.output_bytes()
    }
}
