//! A trial: runs a program on separate memory, as a schedule would run it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{KernelHandle, Stream};
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
    /// The memory that candidates run on, or the error of its allocation. Allocated by the first candidate that runs.
    memory: OnceLock<Result<Vec<Handle<u8>>, Failure>>,
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
            memory: OnceLock::new(),
        })))
    }

    /// Returns a function that launches the program with a blocking. The first call compiles it.
    pub(super) fn run(
        &self,
        stream: &Stream,
        blocking: Blocking,
    ) -> impl Fn(()) -> Result<(), Failure> + Send + Sync + 'static {
        let (parts, stream) = (self.0.clone(), stream.clone());
        let compiled: OnceLock<Result<KernelHandle, Failure>> = OnceLock::new();
        move |()| {
            let allocate = || filled(&stream, &parts.buffers).map_err(Failure::new);
            let buffers = parts.memory.get_or_init(allocate).as_ref();
            let buffers = buffers.map_err(Clone::clone)?;
            let compile = || {
                let program = parts.program.clone();
                let kernel = Kernel::from_program(kernel_name(&program), program);
                let kernel = kernel.map_err(Failure::new)?.with(blocking);
                stream.client().kernel(kernel).map_err(Failure::new)
            };
            let kernel = compiled.get_or_init(compile).clone()?;
            let accesses = kernel.kernel().signature().bindings();
            let bindings = parts.bindings.iter().zip(accesses);
            let bindings: Vec<_> = bindings
                .map(|(buffer, spec)| bind(&buffers[*buffer], spec.access))
                .collect();
            let launched =
                stream.launch_words(&kernel, CubeCount::single(), &bindings, &parts.words);
            launched.map_err(Failure::new)
        }
    }
}

/// Allocates buffers of these numbers of bytes, and fills each with its byte.
pub(crate) fn filled(stream: &Stream, buffers: &[(u64, u8)]) -> Result<Vec<Handle<u8>>, Error> {
    let buffer = |(bytes, fill): &(u64, u8)| {
        let buffer = stream.empty::<u8>(*bytes as usize)?;
        stream.fill(&buffer, *fill)?;
        Ok(buffer)
    };
    buffers.iter().map(buffer).collect()
}
