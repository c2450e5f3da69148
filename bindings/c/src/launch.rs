//! Launches: the arguments of a call are checked, and written straight to the places that the kernel declares.

use millstream::{Access, CubeCount, Error, Handle, Metadata, kernel::ArgumentWriter};

use crate::argument::{
    Layout, MS_PARAMETER, OURS, ScalarRun, bits_of, head_of, ms_argument, ms_value,
};
use crate::buffer::{buffer_of, ms_buffer};
use crate::handles::{find, get};
use crate::kernel::ms_kernel;
use crate::metadata::{metadata_of, ms_tensor};
use crate::replay::{Parameter, parameter_of};
use crate::sized::read_array;
use crate::status::{Answer, Fault, ensure, exports};
use crate::stream::ms_stream;
use crate::types::{dtype_of, known_access};

/// A number of cubes along x, y and z.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_cubes {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

exports! {
    /// Runs a kernel with this number of cubes along each axis. The arguments are the declared buffers, in order, and
    /// then the declared scalars. They may be reused, and the handles in them destroyed, when this returns.
    ///
    /// Errors: `INVALID_ARGUMENT` if the arguments do not fit what the kernel declares; `INVALID_HANDLE`, `BUSY`,
    /// `CLOSED`, `LOST`. If the task fails later, what it would have written is poisoned.
    fn ms_launch(
        stream: *const ms_stream, kernel: *const ms_kernel, cubes: ms_cubes,
        arguments: *const ms_argument, count: usize,
    ) {
        let cubes = move || CubeCount::Static(cubes.x, cubes.y, cubes.z);
        launch(stream, kernel, cubes, arguments, count)
    }

    /// As `ms_launch`, with a number of cubes that an earlier task computes: three `uint32_t`, x, y, z, in a buffer of
    /// 12 bytes, which the kernel does not write.
    fn ms_launch_indirect(
        stream: *const ms_stream, kernel: *const ms_kernel, cubes: *const ms_buffer,
        arguments: *const ms_argument, count: usize,
    ) {
        let cubes = get(cubes)?.0.cast::<u32>()?;
        let cubes = move || CubeCount::Dynamic(cubes.clone());
        launch(stream, kernel, cubes, arguments, count)
    }

    /// As `ms_launch`, with metadata: the shapes and strides of tensors. A C function gets them as
    /// `ms_launch_args.metadata`, a kernel for a GPU as `ms_kernel_desc.metadata_words` says.
    fn ms_launch_with_metadata(
        stream: *const ms_stream, kernel: *const ms_kernel, cubes: ms_cubes,
        arguments: *const ms_argument, count: usize, tensors: *const ms_tensor, tensor_count: usize,
    ) {
        let cubes = move || CubeCount::Static(cubes.x, cubes.y, cubes.z);
        let metadata = metadata_of(tensors, tensor_count)?;
        launch_checked(stream, kernel, &cubes, (arguments, count), Some(&metadata))
    }
}

/// Launches, if there is nothing unusual, without a look at what could be wrong: all handles are valid, and all arguments
/// have our size, the declared kinds, and room in a task. The arguments go straight to their places. Otherwise
/// [`launch_checked`] finds out.
///
/// # Safety
/// `arguments` is NULL or points to `count` arguments, whose handles the caller keeps.
#[inline(always)]
unsafe fn launch(
    stream: *const ms_stream,
    kernel: *const ms_kernel,
    cubes: impl Fn() -> CubeCount,
    arguments: *const ms_argument,
    count: usize,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    if let Some(stream) = unsafe { find(stream) }
        // SAFETY: as above.
        && let Some(kernel) = unsafe { find(kernel) }
        && count == kernel.layout.arguments()
        && !arguments.is_null()
        && arguments.is_aligned()
    {
        let launched = stream.nowait.launch_with(&kernel.handle, cubes(), |to| {
            // SAFETY: the caller's promise. Each argument is read only if those before it have our size, so all that is
            // read lies in the caller's array.
            unsafe { pack(&kernel.layout, arguments, to) }
        });
        match launched {
            Ok(true) => return Ok(()),
            Err(error) if !(stream.blocks && matches!(error, Error::Busy { .. })) => {
                return Err(error.into());
            }
            // Unusual, or without room.
            Ok(false) | Err(_) => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe { launch_checked(stream, kernel, &cubes, (arguments, count), None) }
}

/// Writes the arguments. Returns `false` if any of them is not as it should be.
///
/// # Safety
/// `arguments` points to as many arguments as the layout says, whose sizes are theirs, and whose handles the caller
/// keeps. `to` is for a kernel of this layout.
#[inline(always)]
unsafe fn pack(
    layout: &Layout,
    arguments: *const ms_argument,
    to: &mut ArgumentWriter<'_, '_>,
) -> Result<bool, Box<Error>> {
    let mut next = arguments;
    for _ in 0..layout.bindings {
        // SAFETY: the caller's promise; those before have our size, so this one lies where it should.
        let argument = unsafe { &*next };
        if argument.size != OURS {
            return Ok(false);
        }
        // SAFETY: the kind says that the value is a handle. A handle is a number, so any bits may be looked up.
        let Some(buffer) = (unsafe { find(argument.value.buffer) }) else {
            return Ok(false);
        };
        let Some(access) = known_access(argument.kind) else {
            return Ok(false);
        };
        to.bytes(&buffer.0, access)?;
        // SAFETY: at most one past the last.
        next = unsafe { next.add(1) };
    }
    let Some(words) = to.words_in_place() else {
        return Ok(false);
    };
    let words = words.as_mut_ptr().cast::<u8>();
    for run in &*layout.runs {
        let (at, bytes) = (run.offset as usize, run.bytes);
        // SAFETY: the signature places the scalars within the words, aligned, and the kind names the union's field. The
        // common sizes first.
        let copied = unsafe {
            if bytes == 8 {
                copy_run(run, &mut next, words.add(at).cast(), |value| value.u64)
            } else if bytes == 4 {
                copy_run(run, &mut next, words.add(at).cast(), |value| value.u32)
            } else if bytes == 2 {
                copy_run(run, &mut next, words.add(at).cast(), |value| value.u16)
            } else {
                copy_run(run, &mut next, words.add(at), |value| value.u8)
            }
        };
        if !copied {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies scalars of one type to their words, and moves `next` behind them. Returns `false` if one has another kind or
/// size.
///
/// # Safety
/// `next` points to the arguments of the run, each of which is read only if those before it have our size; `to` has room
/// for them.
#[inline(always)]
unsafe fn copy_run<T>(
    run: &ScalarRun,
    next: &mut *const ms_argument,
    to: *mut T,
    value: impl Fn(&ms_value) -> T,
) -> bool {
    for index in 0..run.count as usize {
        // SAFETY: the caller's promise.
        let argument = unsafe { &**next };
        // One comparison of 8 bytes instead of two.
        if head_of(argument.size, argument.kind) != run.head {
            return false;
        }
        // SAFETY: as above; `next` is at most one past the last.
        unsafe {
            to.add(index).write(value(&argument.value));
            *next = next.add(1);
        }
    }
    true
}

/// Launches with arguments of any size and number, and finds out what is wrong with them. May block for room.
///
/// # Safety
/// As [`launch`].
#[cold]
unsafe fn launch_checked(
    stream: *const ms_stream,
    kernel: *const ms_kernel,
    cubes: &dyn Fn() -> CubeCount,
    (arguments, count): (*const ms_argument, usize),
    metadata: Option<&Metadata>,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    let (stream, kernel) = unsafe { (get(stream)?, get(kernel)?) };
    // SAFETY: as above.
    let arguments = unsafe { Checked::read(kernel, arguments, count, &[])? };
    let (stream, kernel) = (stream.stream.clone(), kernel.handle.clone());
    stream.launch_with(&kernel, cubes(), |to| {
        arguments.write(to, metadata).map(|()| true)
    })?;
    Ok(())
}

/// The arguments of a launch, which fit what the kernel declares.
pub(crate) struct Checked<'a> {
    /// Clones, because callbacks, which may destroy handles, may run on this thread while it waits for room.
    buffers: Vec<(Handle<u8>, Access)>,
    scalars: Vec<Scalar<'a>>,
}

enum Scalar<'a> {
    Bits(u64),
    Parameter(&'a Parameter),
}

impl<'a> Checked<'a> {
    /// Reads as many arguments as the kernel takes. Any other count is an error before the memory is read.
    ///
    /// # Safety
    /// `arguments` is NULL or points to `count` arguments, whose handles the caller keeps.
    pub(crate) unsafe fn read(
        kernel: &ms_kernel,
        arguments: *const ms_argument,
        count: usize,
        parameters: &'a [Parameter],
    ) -> Answer<Self> {
        let (layout, kernel) = (&kernel.layout, &kernel.handle);
        let (name, signature) = (kernel.name(), kernel.kernel().signature());
        ensure!(
            count == layout.arguments(),
            "kernel `{name}` takes {} buffers and {} scalars, got {count} arguments",
            signature.bindings().len(),
            signature.scalars().len()
        );
        // SAFETY: the caller's promise.
        let given = unsafe { read_array(arguments, count)? };
        let (given_buffers, given_scalars) = given.split_at(layout.bindings);
        let mut buffers = Vec::with_capacity(given_buffers.len());
        for (index, ms_argument { kind, value, .. }) in given_buffers.iter().enumerate() {
            let wrong = || {
                Fault::argument(format!(
                    "argument {index} of kernel `{name}` is a buffer with an `ms_access`, got kind {kind}"
                ))
            };
            let access = known_access(*kind).ok_or_else(wrong)?;
            // SAFETY: the kind says that the value is a handle. A handle is a number, so any bits may be looked up.
            buffers.push((unsafe { buffer_of(value.buffer)? }, access));
        }
        let mut scalars = Vec::with_capacity(given_scalars.len());
        for (ms_argument { kind, value, .. }, spec) in given_scalars.iter().zip(signature.scalars())
        {
            let parameter = match *kind {
                // SAFETY: the kind says that the value is a number.
                MS_PARAMETER => Some(parameter_of(parameters, unsafe { value.u64 })?),
                _ => None,
            };
            let dtype = parameter.map_or(dtype_of(*kind), |parameter| Some(parameter.dtype));
            ensure!(
                dtype == Some(spec.dtype),
                "scalar `{}` of kernel `{name}` is declared as {}, got {}",
                spec.name,
                spec.dtype,
                dtype.map_or(format!("kind {kind}"), |dtype| dtype.to_string())
            );
            scalars.push(match parameter {
                Some(parameter) => Scalar::Parameter(parameter),
                None => Scalar::Bits(bits_of(value, spec.dtype)),
            });
        }
        Ok(Self { buffers, scalars })
    }

    /// Writes the arguments to a task.
    pub(crate) fn write<'h>(
        &'h self,
        to: &mut ArgumentWriter<'_, 'h>,
        metadata: Option<&Metadata>,
    ) -> Result<(), Box<Error>> {
        for (buffer, access) in &self.buffers {
            to.bytes(buffer, *access)?;
        }
        for scalar in &self.scalars {
            match scalar {
                Scalar::Bits(bits) => to.scalar_bits(*bits)?,
                Scalar::Parameter(parameter) => to.scalar_parameter_bits(&parameter.scalar)?,
            }
        }
        if let Some(metadata) = metadata {
            to.metadata(metadata);
        }
        Ok(())
    }
}
