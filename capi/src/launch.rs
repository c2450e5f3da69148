//! Launches: the arguments of a call are checked on the caller's stack.

use std::mem::MaybeUninit;

use millstream::{Access, Bound, CubeCount, DType, Error, Handle, KernelHandle, bind};
use smallvec::SmallVec;

use crate::argument::{Layout, OURS, head_of, ms_argument};
use crate::buffer::ms_buffer;
use crate::handles::{find, get};
use crate::kernel::ms_kernel;
use crate::sized::read_array;
use crate::status::{Answer, Fault, entry, ms_status};
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

/// Runs a kernel with this number of cubes along each axis. The arguments are the declared buffers, in order, and then
/// the declared scalars. They may be reused, and the handles in them destroyed, when this returns.
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
        unsafe { launch(stream, kernel, cubes, arguments, count) }
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
        unsafe { launch(stream, kernel, cubes, arguments, count) }
    })
}

/// The bindings and words of a launch that lie on the stack. Larger launches allocate.
const INLINE_BINDINGS: usize = 8;
const INLINE_WORDS: usize = 16;

/// Launches, if there is nothing unusual, without a look at what could be wrong: all handles are valid, and all arguments
/// have our size, the declared kinds, and room on the stack. Otherwise [`launch_checked`] finds out.
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
    if let (Some(stream), Some(kernel)) = unsafe { (find(stream), find(kernel)) }
        && count == kernel.layout.arguments()
        && kernel.layout.bindings <= INLINE_BINDINGS
        && kernel.layout.words <= INLINE_WORDS
        && !arguments.is_null()
        && arguments.is_aligned()
    {
        let mut room = [const { MaybeUninit::uninit() }; INLINE_BINDINGS];
        let mut words = [0; INLINE_WORDS];
        let (room, words) = (
            &mut room[..kernel.layout.bindings],
            &mut words[..kernel.layout.words],
        );
        // SAFETY: the caller's promise. Each argument is read only if those before it have our size, so all that is read
        // lies in the caller's array.
        if let Some(bound) = unsafe { pack(&kernel.layout, arguments, room, words) } {
            return submit(stream, kernel, cubes, bound, words);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { launch_checked(stream, kernel, &cubes, arguments, count) }
}

/// Launches with arguments of any size and number, and finds out what is wrong with them.
///
/// # Safety
/// As [`launch`].
#[cold]
unsafe fn launch_checked(
    stream: *const ms_stream,
    kernel: *const ms_kernel,
    cubes: &dyn Fn() -> CubeCount,
    arguments: *const ms_argument,
    count: usize,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    let (stream, kernel) = unsafe { (get(stream)?, get(kernel)?) };
    // SAFETY: as above.
    let given = unsafe { read_arguments(kernel, arguments, count)? };
    let layout = &kernel.layout;
    let mut room = vec![MaybeUninit::uninit(); layout.bindings];
    let mut words = vec![0; layout.words];
    for (index, argument) in given.iter().enumerate() {
        let Some(scalar) = index.checked_sub(layout.bindings) else {
            if known_access(argument.kind).is_none() {
                return Err(wrong_kind(&kernel.handle, index, argument.kind));
            }
            // SAFETY: the kind says that the value is a handle. A handle is a number, so any bits may be looked up.
            unsafe { get(argument.value.buffer)? };
            continue;
        };
        if layout
            .scalars
            .get(scalar)
            .is_none_or(|place| place.head != head_of(OURS, argument.kind))
        {
            return Err(wrong_scalar(&kernel.handle, scalar, argument.kind));
        }
    }
    // SAFETY: as many arguments as the layout says, in our own memory.
    match unsafe { pack(layout, given.as_ptr(), &mut room, &mut words) } {
        Some(bound) => submit(stream, kernel, cubes, bound, &words),
        None => Err(Fault::argument("a handle was destroyed during the call")),
    }
}

/// Packs the arguments as `launch_words` takes them: bindings in `room`, scalars in `words`, which are zero. Returns
/// `None` if any of them is not as it should be.
///
/// # Safety
/// `arguments` points to as many arguments as the layout says, whose sizes are theirs, and whose handles the caller
/// keeps. `room` and `words` have the lengths that the layout says.
#[inline(always)]
unsafe fn pack<'a, 'b>(
    layout: &Layout,
    arguments: *const ms_argument,
    room: &'b mut [MaybeUninit<Bound<'a, u8>>],
    words: &mut [u64],
) -> Option<&'b [Bound<'a, u8>]> {
    let mut next = arguments;
    for room in &mut *room {
        // SAFETY: the caller's promise; those before have our size, so this one lies where it should.
        let argument = unsafe { &*next };
        if argument.size != OURS {
            return None;
        }
        let access = known_access(argument.kind)?;
        // SAFETY: the kind says that the value is a handle. A handle is a number, so any bits may be looked up.
        let buffer: &'a ms_buffer = unsafe { find(argument.value.buffer)? };
        room.write(bind(&buffer.0, access));
        // SAFETY: at most one past the last.
        next = unsafe { next.add(1) };
    }
    let words = words.as_mut_ptr().cast::<u8>();
    for place in &*layout.scalars {
        // SAFETY: as above.
        let argument = unsafe { &*next };
        // One comparison of 8 bytes instead of two.
        if head_of(argument.size, argument.kind) != place.head {
            return None;
        }
        // SAFETY: the signature places the scalar within the words, aligned, and the kind names the union's field.
        unsafe {
            let at = words.add(place.offset as usize);
            match place.bytes {
                8 => at.cast::<u64>().write(argument.value.u64),
                4 => at.cast::<u32>().write(argument.value.u32),
                2 => at.cast::<u16>().write(argument.value.u16),
                _ => at.write(argument.value.u8),
            }
        }
        // SAFETY: at most one past the last.
        next = unsafe { next.add(1) };
    }
    // SAFETY: all places of `room` were written.
    Some(unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), room.len()) })
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

/// Reads as many arguments as the kernel takes. Any other count is an error before the memory is read.
///
/// # Safety
/// `arguments` is NULL or points to `count` arguments.
pub(crate) unsafe fn read_arguments(
    kernel: &ms_kernel,
    arguments: *const ms_argument,
    count: usize,
) -> Answer<SmallVec<[ms_argument; 8]>> {
    if count != kernel.layout.arguments() {
        return Err(wrong_count(&kernel.handle, count));
    }
    // SAFETY: the caller's promise.
    let mut given = unsafe { read_array(arguments, count)? };
    // What is read has our form, whatever the caller's.
    given.iter_mut().for_each(|argument| argument.size = OURS);
    Ok(given)
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
