//! Random kernels in Rust, each compared on any device with an interpreter of its own.
//!
//! [`KERNELS`] has a few, or those that `MILLSTREAM_RANDOM_KERNELS=first+count` names while this is compiled.

use millstream::__kernel::call::{Definition, launch, program};
use millstream::__kernel::number::Scalar;
use millstream::ir::Program;
use millstream::prelude::*;
use millstream::{ComputeClient, CubeCount, Element, Error, Kernel, KernelHandle};
use millstream_random_kernel_macros::random_kernels;
use millstream_random_kernel_trees::dice::Dice;
use millstream_random_kernel_trees::run::{self, Arguments};
use millstream_random_kernel_trees::tree::{self, ELEMENTS_MIN, Mode};

mod kernels {
    #![allow(
        clippy::all,
        clippy::pedantic,
        missing_docs,
        unused,
        reason = "random text"
    )]

    use super::{Error, On, RandomKernel, random_kernels};
    use millstream::prelude::*;

    random_kernels!(1, 24);
}

pub use kernels::KERNELS;

/// A random kernel.
pub struct RandomKernel {
    /// Its seed.
    pub seed: u64,
    /// Launches it, and returns what the buffers have then, as bits.
    call: fn(&On<'_>) -> Result<Vec<Vec<u64>>, Error>,
}

/// Where a kernel runs, and its arguments.
pub struct On<'a> {
    stream: &'a Stream,
    /// Set if the kernel runs as a program, on a device that would run it as plain Rust.
    client: Option<&'a ComputeClient>,
    arguments: &'a Arguments,
}

impl On<'_> {
    fn scalar<T: Scalar>(&self, index: usize) -> T {
        T::of_bits(self.arguments.scalars[index])
    }

    fn buffer<T: Scalar + Element>(&self, index: usize) -> Result<Handle<T>, Error> {
        let bits = &self.arguments.buffers[index];
        let values: Vec<T> = bits.iter().map(|bits| T::of_bits(*bits)).collect();
        self.stream.create(&values)
    }

    fn read<T: Scalar + Element>(&self, buffer: &Handle<T>) -> Result<Vec<u64>, Error> {
        let values = self.stream.read(buffer).wait()?;
        Ok(values.iter().map(|value| value.bits()).collect())
    }

    fn launch<D: Definition>(&self, call: &D) -> Result<(), Error> {
        let threads = self.arguments.threads;
        let Some(client) = self.client else {
            return launch(call, self.stream, threads.into());
        };
        let kernel = program::<D::Key>()
            .and_then(|program| Kernel::from_program(D::NAME, Program::Ssa(program).into()));
        let kernel = kernel.unwrap_or_else(|why| panic!("`{}`: {why}", D::NAME));
        let kernel: KernelHandle = client.kernel(kernel.exclusive())?;
        let cubes = threads.div_ceil(D::THREADS[0] as usize) as u32;
        let launched = self
            .stream
            .launch_with(&kernel, CubeCount::d1(cubes), |writer| {
                call.write(threads.into(), writer)?;
                Ok(true)
            });
        launched.map(drop)
    }
}

/// Runs all kernels on a device, and returns what is wrong, which is nothing.
pub fn wrong_on(device: &Device, as_program: bool) -> String {
    let wrong = KERNELS.iter().filter_map(|kernel| {
        let why = check(kernel, device, as_program).err()?;
        Some(format!("seed {}: {why}\n", kernel.seed))
    });
    wrong.collect()
}

/// Runs a kernel, and compares its results with the interpreter's. `as_program`: as a program, also on the CPU.
///
/// # Errors
/// They differ: the message has the first difference and the text of the kernel.
fn check(kernel: &RandomKernel, device: &Device, as_program: bool) -> Result<(), String> {
    let tree = millstream_random_kernel_trees::kernel(kernel.seed);
    let client = device.new_client();
    let stream = client.new_stream();
    for case in 0..2 {
        let mut arguments = arguments(&tree, kernel.seed ^ case << 32);
        let given = (kernel.call)(&On {
            stream: &stream,
            client: as_program.then_some(&client),
            arguments: &arguments,
        });
        let text = || millstream_random_kernel_trees::text::text(&tree);
        let given = given.map_err(|why| format!("{why}\n{}", text()))?;
        let (scalars, before) = (arguments.scalars.clone(), arguments.buffers.clone());
        run::launch(&tree, &mut arguments);
        for (index, buffer) in tree.buffers.iter().enumerate() {
            let expected = &arguments.buffers[index];
            let differs = |at: &usize| !buffer.of.agree(given[index][*at], expected[*at]);
            if let Some(at) = (0..expected.len()).find(differs) {
                let (a, b) = (given[index][at], expected[at]);
                return Err(format!(
                    "buffer {index}, element {at}: {a:#x}, expected {b:#x}\nscalars {scalars:x?}\nbuffers {before:x?}\n{}",
                    text()
                ));
            }
        }
    }
    Ok(())
}

/// Returns random arguments.
fn arguments(kernel: &tree::Kernel, seed: u64) -> Arguments {
    let mut dice = Dice::new(seed ^ 0xA5A5);
    let threads = ELEMENTS_MIN + dice.below(24);
    let scalars = kernel
        .scalars
        .iter()
        .map(|of| of.random(&mut dice))
        .collect();
    let buffers = kernel.buffers.iter().map(|buffer| {
        let len = match buffer.mode {
            Mode::Read => ELEMENTS_MIN + dice.below(9),
            _ => threads,
        };
        (0..len).map(|_| buffer.of.random(&mut dice)).collect()
    });
    Arguments {
        threads,
        scalars,
        buffers: buffers.collect(),
    }
}
