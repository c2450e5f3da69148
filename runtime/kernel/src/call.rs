//! Typed launches of kernels.

use std::sync::Arc;

use millstream_client::arguments::{Argument, ArgumentWriter, CubeCount};
use millstream_client::{KernelHandle, Recorder, Stream};
use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::{Builder, Function};
use millstream_ir::{DType, Program, ProgramError};
use millstream_protocol::{
    DeviceProperties, Error, Kernel, KernelError, NativeArgs, NativeKernel, Source, bf16, f16,
};

use crate::number::Scalar;
use crate::plain::{self, View};
use crate::traced::Tracer;

/// A kernel that `#[kernel]` made, with the arguments of a launch.
pub trait Definition {
    /// The type for all lifetimes of the arguments, which identifies the kernel and its instance.
    type Key: Definition + 'static;
    /// The name.
    const NAME: &'static str;
    /// The source file.
    const FILE: &'static str;
    /// The threads of a cube along each axis, on devices that run the program.
    const THREADS: [u32; 3];
    /// Whether accesses are checked.
    const CHECKED: bool;
    /// Whether the kernel has the form of plain Rust.
    const PLAIN: bool;
    /// The number of scalars of the program; the last ones are the numbers of threads.
    const SCALARS: usize;
    /// The number of axes of a launch.
    const AXES: usize;

    /// Adds the body to a program: buffers, scalars, lengths, the number of threads, statements.
    fn trace(k: Tracer<'_>);

    /// Writes the arguments up to the number of threads, in the order of the program's.
    ///
    /// # Errors
    /// A handle of another device, or overlapping buffers.
    fn write<'h>(&'h self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>;

    /// Returns the kernel as plain Rust, if it has this form.
    fn native() -> Option<Native>;
}

/// A kernel as plain Rust, with the types and modes of its bindings.
pub struct Native {
    kernel: Arc<NativeKernel>,
    bindings: Vec<(DType, BufferMode)>,
}

/// Returns a kernel as plain Rust.
pub fn native<B: plain::Body + Definition>() -> Native {
    let mut bindings = Vec::new();
    <B::Views<'static>>::add_bindings(&mut bindings);
    Native {
        // SAFETY: `kernel` compares the bindings with the signature. It is exclusive, so a launch with bindings that
        // overlap is refused. `NativeArgs` exist once for each cube.
        kernel: Arc::new(move |cube, arguments| unsafe {
            let counts = B::SCALARS - B::AXES;
            match B::AXES {
                1 => plain::run::<B, 1>(cube, arguments, counts),
                2 => plain::run::<B, 2>(cube, arguments, counts),
                _ => plain::run::<B, 3>(cube, arguments, counts),
            }
        }),
        bindings,
    }
}

/// Reads a scalar of a launch.
#[inline(always)]
pub fn scalar<T: ScalarArgument>(arguments: &NativeArgs<'_>, index: usize) -> T {
    T::of(arguments, index)
}

/// A scalar that a launch passes.
pub trait ScalarArgument: Scalar + Argument {
    /// Reads it.
    #[doc(hidden)]
    fn of(arguments: &NativeArgs<'_>, index: usize) -> Self;
}

macro_rules! scalar_arguments {
    ($($t:ty as $passed:ty: $of:expr),*) => {$(
        impl ScalarArgument for $t {
            #[inline(always)]
            fn of(arguments: &NativeArgs<'_>, index: usize) -> Self {
                let of: fn($passed) -> $t = $of;
                of(arguments.scalar::<$passed>(index))
            }
        }
    )*};
}

scalar_arguments! {
    f64 as f64: |it| it, i64 as i64: |it| it, u64 as u64: |it| it, f32 as f32: |it| it, i32 as i32: |it| it,
    u32 as u32: |it| it, f16 as f16: |it| it, bf16 as bf16: |it| it, i16 as i16: |it| it, u16 as u16: |it| it,
    i8 as i8: |it| it, u8 as u8: |it| it, usize as u64: |it| it as usize, isize as i64: |it| it as isize,
    bool as u8: |it| it != 0
}

/// Returns the program of a kernel.
///
/// # Errors
/// The program is invalid, such as a barrier that only some threads may reach.
pub fn program<D: Definition>() -> Result<Function, ProgramError> {
    let builder = Builder::new(D::NAME, D::THREADS);
    builder.file(D::FILE);
    if D::CHECKED {
        builder.check_bounds();
    }
    crate::traced::trace(&builder, D::trace);
    builder.build()
}

/// Returns the kernel for a device: on the CPU plain Rust if the kernel has that form, elsewhere the program.
fn kernel<D: Definition>(device: &DeviceProperties) -> Result<Kernel, KernelError> {
    let refused = |error: ProgramError| KernelError::Compile {
        kernel: D::NAME.into(),
        log: error.to_string(),
    };
    let program = Arc::new(Program::Ssa(program::<D>().map_err(refused)?));
    let buffers = program.buffers();
    let kernel = Kernel::from_program(D::NAME, program)
        .map_err(refused)?
        .exclusive();
    match D::native() {
        Some(native) if device.backend == "cpu" && native.bindings == buffers => {
            Ok(kernel.only(Source::Native(native.kernel)))
        }
        _ => Ok(kernel),
    }
}

/// The number of threads of a launch along its axes, the slowest first.
#[derive(Clone, Copy)]
pub struct Threads {
    counts: [usize; 3],
    axes: usize,
}

impl From<usize> for Threads {
    #[inline]
    fn from(threads: usize) -> Self {
        [threads].into()
    }
}

impl<const AXES: usize> From<[usize; AXES]> for Threads {
    #[inline]
    fn from(threads: [usize; AXES]) -> Self {
        let mut counts = [1; 3];
        counts[..AXES].copy_from_slice(&threads);
        Self { counts, axes: AXES }
    }
}

impl Threads {
    fn along(&self) -> &[usize] {
        &self.counts[..self.axes]
    }
}

/// Launches a kernel with this number of threads.
///
/// # Errors
/// Those of [`Stream::launch`], and of preparing the kernel the first time.
#[inline]
pub fn launch<D: Definition>(call: &D, stream: &Stream, threads: Threads) -> Result<(), Error> {
    let prepared = prepared::<D>(stream)?;
    let count = cubes::<D>(stream, &threads);
    let launched = stream.launch_with(prepared, count, |writer| {
        call.write(writer)?;
        threads
            .along()
            .iter()
            .try_for_each(|count| count.write(writer))?;
        Ok(true)
    });
    launched.map(drop)
}

/// Records a launch of a kernel with this number of threads.
///
/// # Errors
/// Those of [`Recorder::launch`], and of preparing the kernel the first time.
pub fn record<D: Definition>(
    call: &D,
    recorder: &mut Recorder<'_>,
    threads: Threads,
) -> Result<(), Error> {
    let prepared = prepared::<D>(recorder.stream())?.clone();
    let count = cubes::<D>(recorder.stream(), &threads);
    recorder.launch_with(&prepared, count, |writer| {
        call.write(writer)?;
        threads
            .along()
            .iter()
            .try_for_each(|count| count.write(writer))
    })
}

/// Returns the kernel on the stream's device, which is compiled the first time.
#[inline]
fn prepared<D: Definition>(stream: &Stream) -> Result<&KernelHandle, Error> {
    stream.prepared::<D::Key>(|device| kernel::<D::Key>(device).map_err(Error::from))
}

/// The fewest threads that are worth a cube of their own on the CPU.
const THREADS_MIN: usize = 256;
/// The cubes for each worker of the CPU: so many that a worker that begins late has its part.
const CUBES_PER_WORKER: usize = 8;

/// Returns the number of cubes of a launch.
#[inline]
fn cubes<D: Definition>(stream: &Stream, threads: &Threads) -> CubeCount {
    let device = stream.properties();
    if D::PLAIN && device.backend == "cpu" {
        let all = threads
            .along()
            .iter()
            .fold(1, |all: usize, axis| all.saturating_mul(*axis));
        let most = device.compute_units * CUBES_PER_WORKER;
        let cubes = Ord::min(all.div_ceil(THREADS_MIN), most);
        return CubeCount::d1(cubes as u32);
    }
    let mut cubes = [1; 3];
    for (axis, count) in threads.along().iter().rev().enumerate() {
        let of = count.div_ceil(D::THREADS[axis] as usize);
        // A device refuses more.
        cubes[axis] = u32::try_from(of).unwrap_or(u32::MAX);
    }
    cubes.into()
}
