//! Typed launches of kernels.

use std::sync::Arc;

use millstream_client::arguments::{ArgumentWriter, CubeCount};
use millstream_client::handle::Handle;
use millstream_client::{KernelHandle, Recorder, Stream};
use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::{Builder, Function};
use millstream_ir::{DType, Program, ProgramError};
use millstream_protocol::{AnyCubes, Error, Kernel, KernelError, NativeKernel, Source, Stored};

pub use crate::parameter::Parameter;
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
    /// Whether devices may contract.
    const CONTRACT: bool;
    /// The number of scalars of the program; the last ones are the numbers of threads.
    const SCALARS: usize;
    /// The number of axes of a launch.
    const AXES: usize;

    /// Adds the body to a program: buffers, scalars, lengths, the number of threads, statements.
    fn trace(k: Tracer<'_>);

    /// Writes the arguments, in the order of the program's: buffers, and a word for each scalar.
    ///
    /// # Errors
    /// A handle of another device, or overlapping buffers.
    fn write<'h>(
        &'h self,
        threads: Threads,
        writer: &mut ArgumentWriter<'_, 'h>,
    ) -> Result<(), Box<Error>>;

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

/// Returns the length of a buffer as the program has it: in words.
#[inline(always)]
pub fn length<T: Stored>(buffer: &Handle<T>) -> u64 {
    buffer.size() / T::WORD.size() as u64
}

/// Returns the program of a kernel.
///
/// # Errors
/// The program is invalid, such as a barrier that only some threads may reach.
pub fn program<D: Definition>() -> Result<Function, ProgramError> {
    Text::of::<D>().program()
}

/// What a definition says, without its type: one function makes the kernels of all.
struct Text {
    name: &'static str,
    file: &'static str,
    threads: [u32; 3],
    checked: bool,
    contract: bool,
    trace: fn(Tracer<'_>),
    native: fn() -> Option<Native>,
}

impl Text {
    fn of<D: Definition>() -> Self {
        Self {
            name: D::NAME,
            file: D::FILE,
            threads: D::THREADS,
            checked: D::CHECKED,
            contract: D::CONTRACT,
            trace: D::trace,
            native: D::native,
        }
    }

    fn program(&self) -> Result<Function, ProgramError> {
        let builder = Builder::new(self.name, self.threads);
        builder.file(self.file);
        if self.checked {
            builder.check_bounds();
        }
        if self.contract {
            builder.contract();
        }
        crate::traced::trace(&builder, self.trace);
        builder.build()
    }
}

/// Returns the kernel: the program, and before it plain Rust if the kernel has that form, which the CPU takes.
fn kernel(text: &Text) -> Result<Kernel, Error> {
    let refused = |error: ProgramError| KernelError::Compile {
        kernel: text.name.into(),
        log: error.to_string(),
    };
    let program = Arc::new(Program::Ssa(text.program().map_err(refused)?));
    let buffers = program.buffers();
    let kernel = Kernel::from_program(text.name, program).map_err(refused)?;
    Ok(match (text.native)() {
        // What threads print only the program knows.
        Some(native) if native.bindings == buffers && !kernel.prints() => {
            let native = Source::Native(native.kernel);
            kernel.exclusive().prefer(native).with(AnyCubes)
        }
        _ => kernel.exclusive(),
    })
}

/// The most threads of a cube.
const THREADS_MAX: u64 = 1024;

/// Returns the threads of a cube along x, y and z, as the attribute has them.
///
/// # Panics
/// No device has such cubes.
pub const fn cube([x, y, z]: [u64; 3]) -> [u32; 3] {
    let some = x > 0 && y > 0 && z > 0;
    let few = x <= THREADS_MAX && y <= THREADS_MAX && z <= THREADS_MAX && x * y * z <= THREADS_MAX;
    assert!(some && few, "a cube has 1 to 1024 threads");
    [x as u32, y as u32, z as u32]
}

/// The number of threads of a launch along its axes, the slowest first.
#[derive(Clone, Copy)]
pub struct Threads {
    counts: [usize; 3],
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
        Self { counts }
    }
}

impl Threads {
    /// Returns the number along an axis.
    #[inline(always)]
    pub fn along(&self, axis: usize) -> u64 {
        self.counts[axis] as u64
    }

    /// Returns the number of cubes of a launch.
    #[inline]
    fn cubes<D: Definition>(self) -> CubeCount {
        let mut cubes = [1; 3];
        let counts = self.counts[..D::AXES].iter().rev();
        for ((cubes, count), threads) in cubes.iter_mut().zip(counts).zip(D::THREADS) {
            // A device refuses more.
            *cubes = u32::try_from(count.div_ceil(threads as usize)).unwrap_or(u32::MAX);
        }
        cubes.into()
    }
}

/// Writes the words of a launch. Their number is a constant, so they need no loop.
///
/// # Errors
/// The kernel has another number of words.
#[inline(always)]
pub fn write_words<D: Definition>(
    writer: &mut ArgumentWriter<'_, '_>,
    fill: impl FnOnce(&mut [u64]),
) -> Result<(), Box<Error>> {
    match writer.words_in_place() {
        Some(room) if room.len() == D::SCALARS => {
            fill(room);
            Ok(())
        }
        _ => write_further::<D>(writer, fill),
    }
}

/// Writes the words of a launch that has more of them than its message.
#[cold]
fn write_further<D: Definition>(
    writer: &mut ArgumentWriter<'_, '_>,
    fill: impl FnOnce(&mut [u64]),
) -> Result<(), Box<Error>> {
    let mut few = [0; 64];
    if let Some(words) = few.get_mut(..D::SCALARS) {
        fill(words);
        return writer.words(words);
    }
    let mut words = vec![0; D::SCALARS];
    fill(&mut words);
    writer.words(&words)
}

/// Launches a kernel with this number of threads.
///
/// # Errors
/// Those of [`Stream::launch`], and of preparing the kernel the first time.
#[inline]
pub fn launch<D: Definition>(call: &D, stream: &Stream, threads: Threads) -> Result<(), Error> {
    let launched = stream.launch_with(prepared::<D>(stream)?, threads.cubes::<D>(), |writer| {
        call.write(threads, writer)?;
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
    let kernel = prepare::<D>(recorder.stream())?;
    recorder.launch_with(&kernel, threads.cubes::<D>(), |writer| {
        call.write(threads, writer)
    })
}

/// Returns the kernel on the stream's device, which is compiled the first time.
///
/// # Errors
/// Those of [`ComputeClient::kernel`](millstream_client::ComputeClient::kernel).
pub fn prepare<D: Definition>(stream: &Stream) -> Result<KernelHandle, Error> {
    prepared::<D>(stream).cloned()
}

#[inline]
fn prepared<D: Definition>(stream: &Stream) -> Result<&KernelHandle, Error> {
    stream.prepared::<D::Key>(|| kernel(&Text::of::<D::Key>()))
}
