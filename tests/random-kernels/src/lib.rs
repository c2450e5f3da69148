//! Random kernels in Rust, each compared on any device with an interpreter of its own.
//!
//! [`KERNELS`] has a few, or those that `MILLSTREAM_RANDOM_KERNELS=first+count` names while this is compiled.

use millstream::__kernel::Stored;
use millstream::__kernel::call::{Definition, launch, program};
use millstream::__kernel::number::Scalar;
use millstream::ir::Program;
use millstream::prelude::*;
use millstream::{ComputeClient, CubeCount, Error, Kernel, KernelHandle};
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

    use super::{Error, Numbers, On, RandomKernel, random_kernels};
    use millstream::prelude::*;

    random_kernels!();
}

pub use kernels::KERNELS;

/// A random kernel.
pub struct RandomKernel {
    /// Its seed.
    pub seed: u64,
    /// Launches it, and returns what the buffers have then, as bits.
    call: fn(&On<'_>) -> Result<Vec<Vec<u64>>, Error>,
}

/// A value as the bits of its numbers.
trait Numbers: Sized {
    /// Takes the next numbers.
    fn of(bits: &mut dyn Iterator<Item = u64>) -> Self;
    /// Adds the numbers.
    fn add_to(self, bits: &mut Vec<u64>);
}

macro_rules! scalars {
    ($($of:ident)*) => {$(
        impl Numbers for $of {
            fn of(bits: &mut dyn Iterator<Item = u64>) -> Self {
                Self::of_bits(bits.next().expect("a number"))
            }

            fn add_to(self, bits: &mut Vec<u64>) {
                bits.push(self.bits());
            }
        }
    )*};
}

scalars!(i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 bool);

impl<T: Numbers, const N: usize> Numbers for [T; N] {
    fn of(bits: &mut dyn Iterator<Item = u64>) -> Self {
        std::array::from_fn(|_| T::of(bits))
    }

    fn add_to(self, bits: &mut Vec<u64>) {
        self.into_iter().for_each(|it| it.add_to(bits));
    }
}

impl<A: Numbers, B: Numbers> Numbers for (A, B) {
    fn of(bits: &mut dyn Iterator<Item = u64>) -> Self {
        (A::of(bits), B::of(bits))
    }

    fn add_to(self, bits: &mut Vec<u64>) {
        self.0.add_to(bits);
        self.1.add_to(bits);
    }
}

/// Where a kernel runs, and its arguments.
pub struct On<'a> {
    stream: &'a Stream,
    /// Set if the kernel runs as a program, on a device that would run it as plain Rust.
    client: Option<&'a ComputeClient>,
    arguments: &'a Arguments,
}

impl On<'_> {
    fn scalar<T: Numbers>(&self, index: usize) -> T {
        T::of(&mut self.arguments.scalars[index].iter().copied())
    }

    fn buffer<T: Numbers + Stored>(&self, index: usize) -> Result<Handle<T>, Error> {
        let mut bits = self.arguments.buffers[index].iter().copied().peekable();
        let mut values = Vec::new();
        while bits.peek().is_some() {
            values.push(T::of(&mut bits));
        }
        self.stream.create(&values)
    }

    fn read<T: Numbers + Stored>(&self, buffer: &Handle<T>) -> Result<Vec<u64>, Error> {
        let mut bits = Vec::new();
        for value in self.stream.read(buffer).wait()? {
            value.add_to(&mut bits);
        }
        Ok(bits)
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
            let numbers = buffer.of.numbers(&tree.structs);
            let differs = |at: &usize| {
                let of = numbers[at % numbers.len()];
                !of.agree(given[index][*at], expected[*at])
            };
            if let Some(at) = (0..expected.len()).find(differs) {
                let (a, b) = (given[index][at], expected[at]);
                let (at, number) = (at / numbers.len(), at % numbers.len());
                return Err(format!(
                    "buffer {index}, element {at}, number {number}: {a:#x}, expected {b:#x}\nscalars {scalars:x?}\nbuffers {before:x?}\n{}",
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
    let threads = match kernel.cube {
        // Whole cubes run, and each thread has its elements.
        Some(cube) => cube.next_multiple_of(ELEMENTS_MIN) * (1 + dice.below(3)),
        None => ELEMENTS_MIN + dice.below(24),
    };
    let read = ELEMENTS_MIN + dice.below(9);
    let mut random = |of: &tree::Shape, len: usize| -> Vec<u64> {
        let numbers = of.numbers(&kernel.structs).repeat(len).into_iter();
        numbers.map(|of| of.random(&mut dice)).collect()
    };
    let scalars = kernel.scalars.iter().map(|of| random(of, 1)).collect();
    let buffers = kernel.buffers.iter().map(|buffer| {
        let len = match buffer.mode {
            Mode::Read | Mode::Atomic(_) => read,
            _ => threads,
        };
        random(&buffer.of, len)
    });
    Arguments {
        threads,
        scalars,
        buffers: buffers.collect(),
    }
}
