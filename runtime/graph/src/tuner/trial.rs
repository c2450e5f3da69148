//! A trial: runs a program on separate memory, as a schedule would run it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Stream};
use millstream_ir::{Blocking, Program};
use millstream_protocol::error::Error;
use millstream_protocol::kernel::Kernel;
use millstream_tune::Failure;

use crate::kernel_name::kernel_name;
use crate::memory::Memory;
use crate::schedule::Steps;
use crate::schedule::item::WordValue;

/// The byte that fills float buffers, so that they hold normal numbers of every type: 0.75 as `f32`.
pub(crate) const FILL_BYTE: u8 = 0x3f;

/// A program with the arguments of its launch.
#[derive(Clone)]
pub(super) struct Trial(Arc<TrialInner>);

struct TrialInner {
    program: Arc<Program>,
    /// The number of bytes and the fill byte of each buffer.
    buffers: Vec<(u64, u8)>,
    /// The buffer of each binding.
    bindings: Vec<usize>,
    words: Vec<u64>,
}

/// The memory that candidates run on, or the error of its allocation.
#[derive(Clone)]
pub(super) struct Scratch(Result<Arc<ScratchBuffers>, Failure>);

struct ScratchBuffers {
    stream: Stream,
    buffers: Vec<Handle<u8>>,
}

impl Scratch {
    /// Returns the placeholder before memory is allocated.
    pub(super) fn none() -> Self {
        Self(Err(Failure::new("no memory was prepared for the trial")))
    }
}

impl Trial {
    /// Returns `None` if a length overflows.
    pub(super) fn new(
        program: &Arc<Program>,
        steps: &Steps,
        memory: &Memory,
        index: usize,
    ) -> Option<Self> {
        let types = program.buffers();
        let mut known = HashMap::new();
        let mut buffers = Vec::new();
        let bound = memory.bound(steps, index).zip(types);
        let bindings = bound.map(|(place, (dtype, _))| {
            *known.entry(place).or_insert_with(|| {
                // Index 0 is always valid.
                let fill = if dtype.is_float() { FILL_BYTE } else { 0 };
                buffers.push((place.2, fill));
                buffers.len() - 1
            })
        });
        let bindings = bindings.collect();
        let words = steps.items[index].words.iter().map(|word| match word {
            WordValue::Bits(bits) => Some(*bits),
            WordValue::Size(size) => size.max().map(|size| size as u64),
            WordValue::Scalar(scalar) => Some(scalar.bits()),
        });
        Some(Self(Arc::new(TrialInner {
            program: program.clone(),
            words: words.collect::<Option<_>>()?,
            buffers,
            bindings,
        })))
    }

    /// Allocates and fills the memory of a trial.
    pub(super) fn scratch(&self, stream: &Stream) -> Scratch {
        let buffer = |(bytes, fill): &(u64, u8)| {
            let buffer = stream.empty::<u8>(*bytes as usize)?;
            stream.fill(&buffer, *fill)?;
            Ok(buffer)
        };
        let buffers: Result<Vec<_>, Error> = self.0.buffers.iter().map(buffer).collect();
        let made = buffers.map(|buffers| {
            let stream = stream.clone();
            Arc::new(ScratchBuffers { stream, buffers })
        });
        Scratch(made.map_err(Failure::new))
    }

    /// Returns a function that launches the program with a blocking. The first call compiles it.
    pub(super) fn run(
        &self,
        client: &ComputeClient,
        blocking: Blocking,
    ) -> impl Fn(Scratch) -> Result<(), Failure> + Send + Sync + 'static {
        let (parts, client) = (self.0.clone(), client.clone());
        let compiled: OnceLock<Result<KernelHandle, Failure>> = OnceLock::new();
        move |Scratch(scratch)| {
            let scratch = scratch?;
            let compile = || {
                let program = parts.program.clone();
                let kernel = Kernel::from_program(kernel_name(&program), program);
                let kernel = kernel.map_err(Failure::new)?.with(blocking);
                client.kernel(kernel).map_err(Failure::new)
            };
            let kernel = compiled.get_or_init(compile).clone()?;
            let accesses = kernel.kernel().signature().bindings();
            let bindings: Vec<_> = parts
                .bindings
                .iter()
                .zip(accesses)
                .map(|(buffer, spec)| bind(&scratch.buffers[*buffer], spec.access))
                .collect();
            let launched =
                scratch
                    .stream
                    .launch_words(&kernel, CubeCount::single(), &bindings, &parts.words);
            launched.map_err(Failure::new)
        }
    }
}
