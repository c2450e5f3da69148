//! Launches: the arguments of a call are checked on the caller's stack.

use millstream::{Access, Bound, CubeCount, DType, Error, Handle, KernelHandle, bind};
use smallvec::SmallVec;

use crate::buffer::ms_buffer;
use crate::handles::get;
use crate::kernel::{access_of, dtype_of, ms_kernel};
use crate::sized::{Sized32, read_array};
use crate::status::{Answer, Fault, entry, ms_status};
use crate::stream::ms_stream;

/// A value of an argument: the field of its kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ms_value {
    /// `MS_ACCESS_..`.
    pub buffer: *const ms_buffer,
    /// `MS_TYPE_F64`.
    pub f64: f64,
    /// `MS_TYPE_I64`.
    pub i64: i64,
    /// `MS_TYPE_U64`, and the number of a scalar parameter (`MS_PARAMETER`).
    pub u64: u64,
    /// `MS_TYPE_F32`.
    pub f32: f32,
    /// `MS_TYPE_I32`.
    pub i32: i32,
    /// `MS_TYPE_U32`.
    pub u32: u32,
    /// `MS_TYPE_I16`.
    pub i16: i16,
    /// `MS_TYPE_U16`, and the bits of `MS_TYPE_F16` and `MS_TYPE_BF16`.
    pub u16: u16,
    /// `MS_TYPE_I8`.
    pub i8: i8,
    /// `MS_TYPE_U8`.
    pub u8: u8,
}

/// An argument of a launch: a buffer with an access, or a scalar. The functions `ms_arg_..` make them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_argument {
    /// `sizeof(ms_argument)`.
    pub size: u32,
    /// An `ms_access`, an `ms_type`, or `MS_PARAMETER`.
    pub kind: u32,
    /// The value.
    pub value: ms_value,
}

/// The kind of an argument that is a scalar parameter of a recording.
pub const MS_PARAMETER: u32 = 201;

// SAFETY: `repr(C)` integers and a union of plain data, with the size first.
unsafe impl Sized32 for ms_argument {
    const NAME: &'static str = "ms_argument";
    const SIZE_MIN: usize = 16;
}

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

/// Runs a kernel with so many cubes. The arguments are the declared buffers, in order, and then the declared scalars.
/// They may be reused, and the handles in them destroyed, when this returns.
///
/// Errors: `INVALID_ARGUMENT` if the arguments do not fit what the kernel declares; `INVALID_HANDLE`, `BUSY`, `CLOSED`,
/// `LOST`. If the task fails later, what it would have written is poisoned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_launch(
    stream: *const ms_stream,
    kernel: *const ms_kernel,
    cubes: ms_cubes,
    arguments: *const ms_argument,
    count: usize,
) -> ms_status {
    entry(|| {
        let cubes = CubeCount::Static(cubes.x, cubes.y, cubes.z);
        // SAFETY: the caller passes valid pointers, or NULL, and keeps the handles.
        unsafe { launch(get(stream)?, get(kernel)?, &cubes, arguments, count) }
    })
}

/// As `ms_launch`, with a number of cubes that an earlier task computes: three `uint32_t`, x, y, z, in a buffer of 12
/// bytes, which the kernel does not write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_launch_indirect(
    stream: *const ms_stream,
    kernel: *const ms_kernel,
    cubes: *const ms_buffer,
    arguments: *const ms_argument,
    count: usize,
) -> ms_status {
    entry(|| {
        // SAFETY: the caller keeps the buffer until here.
        let cubes = CubeCount::Dynamic(unsafe { get(cubes)? }.0.cast::<u32>()?);
        // SAFETY: the caller passes valid pointers, or NULL, and keeps the handles.
        unsafe { launch(get(stream)?, get(kernel)?, &cubes, arguments, count) }
    })
}

/// # Safety
/// `arguments` is NULL or points to `count` arguments, whose handles the caller keeps.
#[inline(always)]
unsafe fn launch(
    stream: &ms_stream,
    kernel: &ms_kernel,
    cubes: &CubeCount,
    arguments: *const ms_argument,
    count: usize,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    let packed = unsafe { Packed::of(&kernel.0, arguments, count)? };
    let tried = stream
        .nowait
        .launch_words(&kernel.0, cubes, &packed.bindings, &packed.words);
    match tried {
        Ok(()) => Ok(()),
        Err(Error::Busy { .. }) if stream.blocks => {
            block(stream.stream.clone(), kernel.0.clone(), cubes, &packed)
        }
        Err(error) => Err(error.into()),
    }
}

/// Launches once there is room. Owns what it uses, because callbacks may run on this thread meanwhile.
#[cold]
fn block(
    stream: millstream::Stream,
    kernel: KernelHandle,
    cubes: &CubeCount,
    packed: &Packed<'_>,
) -> Answer<()> {
    let owned: Vec<(Handle<u8>, Access)> = packed
        .bindings
        .iter()
        .map(|bound| (bound.handle().clone(), bound.access()))
        .collect();
    let bindings: Vec<_> = owned
        .iter()
        .map(|(handle, access)| bind(handle, *access))
        .collect();
    Ok(stream.launch_words(&kernel, cubes, &bindings, &packed.words)?)
}

/// The arguments of a launch as `launch_words` takes them.
struct Packed<'a> {
    bindings: SmallVec<[Bound<'a, u8>; 8]>,
    words: SmallVec<[u64; 8]>,
}

impl<'a> Packed<'a> {
    /// # Safety
    /// As [`launch`].
    #[inline(always)]
    unsafe fn of(
        kernel: &KernelHandle,
        arguments: *const ms_argument,
        count: usize,
    ) -> Answer<Self> {
        // SAFETY: the caller's promise.
        let read = unsafe { Given::read(kernel, arguments, count)? };
        let signature = kernel.kernel().signature();
        let (given_bindings, given_scalars) = read.arguments().split_at(signature.bindings().len());
        let mut packed = Packed {
            bindings: SmallVec::new(),
            words: SmallVec::from_elem(0, signature.scalar_words()),
        };
        for (index, argument) in given_bindings.iter().enumerate() {
            let Ok(access) = access_of(argument.kind) else {
                return Err(wrong_kind(kernel, index, argument.kind));
            };
            // SAFETY: the kind says that the value is a handle. A handle is a number, so any bits may be looked up.
            let buffer: &'a ms_buffer = unsafe { get(argument.value.buffer)? };
            packed.bindings.push(bind(&buffer.0, access));
        }
        for (argument, scalar) in given_scalars.iter().zip(signature.scalars()) {
            if dtype_of(argument.kind) != Some(scalar.dtype) {
                return Err(wrong_type(
                    kernel,
                    &scalar.name,
                    scalar.dtype,
                    argument.kind,
                ));
            }
            let words = packed.words.as_mut_ptr().cast::<u8>();
            // SAFETY: the signature places the scalar within its words, and the union has at least its size.
            unsafe {
                (&raw const argument.value)
                    .cast::<u8>()
                    .copy_to_nonoverlapping(words.add(scalar.offset), scalar.dtype.size());
            }
        }
        Ok(packed)
    }
}

/// The arguments of the caller, in its memory if they have our size.
pub(crate) enum Given<'a> {
    Borrowed(&'a [ms_argument]),
    Copied(SmallVec<[ms_argument; 8]>),
}

impl<'a> Given<'a> {
    /// Reads as many arguments as the kernel takes. Any other count is an error before the memory is read.
    ///
    /// # Safety
    /// `arguments` is NULL or points to `count` arguments, which stay for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn read(
        kernel: &KernelHandle,
        arguments: *const ms_argument,
        count: usize,
    ) -> Answer<Self> {
        const OURS: u32 = size_of::<ms_argument>() as u32;
        let signature = kernel.kernel().signature();
        if count != signature.bindings().len() + signature.scalars().len() {
            return Err(wrong_count(kernel, count));
        }
        if count == 0 {
            return Ok(Self::Borrowed(&[]));
        }
        // SAFETY: not NULL, so it points to an argument, which begins with its size.
        if !arguments.is_null() && arguments.is_aligned() && unsafe { (*arguments).size } == OURS {
            // SAFETY: `count` arguments of our size.
            let all: &'a [ms_argument] = unsafe { std::slice::from_raw_parts(arguments, count) };
            if all.iter().all(|argument| argument.size == OURS) {
                return Ok(Self::Borrowed(all));
            }
        }
        // SAFETY: the caller's promise.
        Ok(Self::Copied(unsafe { read_array(arguments, count)? }))
    }

    #[inline(always)]
    pub(crate) fn arguments(&self) -> &[ms_argument] {
        match self {
            Self::Borrowed(all) => all,
            Self::Copied(all) => all,
        }
    }
}

#[cold]
fn wrong_count(kernel: &KernelHandle, given: usize) -> Fault {
    let signature = kernel.kernel().signature();
    let (bindings, scalars) = (signature.bindings().len(), signature.scalars().len());
    Fault::argument(format!(
        "kernel `{}` takes {bindings} buffers and {scalars} scalars, got {given} arguments",
        kernel.name()
    ))
}

#[cold]
pub(crate) fn wrong_kind(kernel: &KernelHandle, index: usize, given: u32) -> Fault {
    Fault::argument(format!(
        "argument {index} of kernel `{}` is a buffer with an `ms_access`, got kind {given}",
        kernel.name()
    ))
}

#[cold]
pub(crate) fn wrong_type(
    kernel: &KernelHandle,
    scalar: &str,
    declared: DType,
    given: u32,
) -> Fault {
    let given = match dtype_of(given) {
        Some(dtype) => dtype.to_string(),
        None => format!("kind {given}"),
    };
    Fault::argument(format!(
        "scalar `{scalar}` of kernel `{}` is declared as {declared}, got {given}",
        kernel.name()
    ))
}
