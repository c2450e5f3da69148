//! Launches: the arguments of a call are checked on the caller's stack.

use std::mem::MaybeUninit;

use millstream::{Access, Bound, CubeCount, DType, Error, Handle, KernelHandle, ScalarSpec, bind};
use smallvec::SmallVec;

use crate::buffer::ms_buffer;
use crate::handles::get;
use crate::kernel::{dtype_of, kind_of, known_access, ms_kernel, size_of_kind};
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
        let cubes = || CubeCount::Static(cubes.x, cubes.y, cubes.z);
        // SAFETY: the caller passes valid pointers, or NULL, and keeps the handles.
        unsafe { launch(get(stream)?, get(kernel)?, cubes, arguments, count) }
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
        let cubes = unsafe { get(cubes)? }.0.cast::<u32>()?;
        let cubes = || CubeCount::Dynamic(cubes.clone());
        // SAFETY: the caller passes valid pointers, or NULL, and keeps the handles.
        unsafe { launch(get(stream)?, get(kernel)?, cubes, arguments, count) }
    })
}

/// The bindings and words of a launch that lie on the stack. Larger launches allocate.
const INLINE_BINDINGS: usize = 8;
const INLINE_WORDS: usize = 16;

/// What a launch needs to know of a kernel's signature, in little memory.
pub(crate) struct Layout {
    bindings: usize,
    words: usize,
    scalars: Box<[ScalarPlace]>,
}

/// A scalar in the words of a launch.
#[derive(Clone, Copy)]
struct ScalarPlace {
    /// Its `ms_type`.
    kind: u32,
    /// In bytes.
    offset: u32,
}

impl Layout {
    pub(crate) fn of(kernel: &KernelHandle) -> Self {
        let signature = kernel.kernel().signature();
        let place = |scalar: &ScalarSpec| ScalarPlace {
            kind: kind_of(scalar.dtype),
            offset: scalar.offset as u32,
        };
        Self {
            bindings: signature.bindings().len(),
            words: signature.scalar_words(),
            scalars: signature.scalars().iter().map(place).collect(),
        }
    }

    fn arguments(&self) -> usize {
        self.bindings + self.scalars.len()
    }
}

/// # Safety
/// `arguments` is NULL or points to `count` arguments, whose handles the caller keeps.
#[inline(always)]
unsafe fn launch(
    stream: &ms_stream,
    kernel: &ms_kernel,
    cubes: impl Fn() -> CubeCount,
    arguments: *const ms_argument,
    count: usize,
) -> Answer<()> {
    let layout = &kernel.layout;
    // SAFETY: the caller's promise.
    let given = unsafe { Given::read(kernel, arguments, count)? };
    let (bindings, words) = (layout.bindings, layout.words);
    if bindings > INLINE_BINDINGS || words > INLINE_WORDS {
        // SAFETY: the caller's promise.
        return unsafe { launch_large(stream, kernel, &cubes, given.arguments()) };
    }
    let mut room = [const { MaybeUninit::uninit() }; INLINE_BINDINGS];
    let mut packed = [0; INLINE_WORDS];
    let (room, packed) = (&mut room[..bindings], &mut packed[..words]);
    // SAFETY: the caller's promise.
    let bound = unsafe { pack(kernel, given.arguments(), room, packed)? };
    submit(stream, kernel, cubes, bound, packed)
}

/// # Safety
/// As [`launch`].
#[cold]
unsafe fn launch_large(
    stream: &ms_stream,
    kernel: &ms_kernel,
    cubes: &dyn Fn() -> CubeCount,
    arguments: &[ms_argument],
) -> Answer<()> {
    let mut room = vec![MaybeUninit::uninit(); kernel.layout.bindings];
    let mut packed = vec![0; kernel.layout.words];
    // SAFETY: the caller's promise.
    let bound = unsafe { pack(kernel, arguments, &mut room, &mut packed)? };
    submit(stream, kernel, cubes, bound, &packed)
}

/// Packs the arguments as `launch_words` takes them: bindings in `room`, scalars in `words`, which are zero.
///
/// # Safety
/// As [`launch`]. There are as many arguments, bindings and words as the layout says.
#[inline(always)]
unsafe fn pack<'a, 'b>(
    kernel: &ms_kernel,
    given: &[ms_argument],
    room: &'b mut [MaybeUninit<Bound<'a, u8>>],
    words: &mut [u64],
) -> Answer<&'b [Bound<'a, u8>]> {
    let layout = &kernel.layout;
    let (bindings, scalars) = given.split_at(layout.bindings);
    for (index, (argument, room)) in bindings.iter().zip(&mut *room).enumerate() {
        let Some(access) = known_access(argument.kind) else {
            return Err(wrong_kind(&kernel.handle, index, argument.kind));
        };
        // SAFETY: the kind says that the value is a handle. A handle is a number, so any bits may be looked up.
        let buffer: &'a ms_buffer = unsafe { get(argument.value.buffer)? };
        room.write(bind(&buffer.0, access));
    }
    let words = words.as_mut_ptr().cast::<u8>();
    for (index, (argument, place)) in scalars.iter().zip(&*layout.scalars).enumerate() {
        if argument.kind != place.kind {
            return Err(wrong_scalar(&kernel.handle, index, argument.kind));
        }
        // SAFETY: the signature places the scalar within the words, aligned, and the kind names the union's field.
        unsafe {
            let at = words.add(place.offset as usize);
            match size_of_kind(place.kind) {
                8 => at.cast::<u64>().write(argument.value.u64),
                4 => at.cast::<u32>().write(argument.value.u32),
                2 => at.cast::<u16>().write(argument.value.u16),
                _ => at.write(argument.value.u8),
            }
        }
    }
    // SAFETY: `room` has one place for each binding, and all were written.
    Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), room.len()) })
}

#[inline(always)]
fn submit(
    stream: &ms_stream,
    kernel: &ms_kernel,
    cubes: impl Fn() -> CubeCount,
    bindings: &[Bound<'_, u8>],
    words: &[u64],
) -> Answer<()> {
    match stream
        .nowait
        .launch_words(&kernel.handle, cubes(), bindings, words)
    {
        Ok(()) => Ok(()),
        Err(Error::Busy { .. }) if stream.blocks => block(
            stream.stream.clone(),
            kernel.handle.clone(),
            cubes(),
            bindings,
            words,
        ),
        Err(error) => Err(error.into()),
    }
}

/// Launches once there is room. Owns what it uses, because callbacks may run on this thread meanwhile.
#[cold]
fn block(
    stream: millstream::Stream,
    kernel: KernelHandle,
    cubes: CubeCount,
    bindings: &[Bound<'_, u8>],
    words: &[u64],
) -> Answer<()> {
    let owned: Vec<(Handle<u8>, Access)> = bindings
        .iter()
        .map(|bound| (bound.handle().clone(), bound.access()))
        .collect();
    let bindings: Vec<_> = owned
        .iter()
        .map(|(handle, access)| bind(handle, *access))
        .collect();
    Ok(stream.launch_words(&kernel, cubes, &bindings, words)?)
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
        kernel: &ms_kernel,
        arguments: *const ms_argument,
        count: usize,
    ) -> Answer<Self> {
        const OURS: u32 = size_of::<ms_argument>() as u32;
        if count != kernel.layout.arguments() {
            return Err(wrong_count(&kernel.handle, count));
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
fn wrong_scalar(kernel: &KernelHandle, index: usize, given: u32) -> Fault {
    let scalars = kernel.kernel().signature().scalars();
    match scalars.get(index) {
        Some(scalar) => wrong_type(kernel, &scalar.name, scalar.dtype, given),
        None => wrong_count(kernel, index),
    }
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
