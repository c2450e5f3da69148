//! Memory of the caller: structs that begin with their size, arrays of them, texts and bytes.
//!
//! A struct grows only at its end, and zero is the default of every field. So a shorter struct, of a program that was
//! compiled with an older header, is read as if it ended with zeros; and a longer one, of a newer header, is read if
//! what this library does not know is zero.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

use smallvec::SmallVec;

use crate::status::{Answer, Fault, ensure, ms_status};

/// A struct of C that begins with its size.
///
/// # Safety
/// The type is `repr(C)`, begins with a `u32`, has no padding that matters, and zero bytes are a valid value.
pub(crate) unsafe trait Sized32: Copy {
    const NAME: &'static str;
    /// The size of the first published version.
    const SIZE_MIN: usize;
}

/// Implements [`Sized32`] for structs of C, each with the size of its first published version. Their fields are integers,
/// pointers, functions that may be NULL, and unions of plain data.
macro_rules! sized {
    ($($name:ident: $size:literal),*) => {$(
        // SAFETY: a struct of the header, of which zeros are a valid value (above).
        unsafe impl crate::sized::Sized32 for $name {
            const NAME: &'static str = stringify!($name);
            const SIZE_MIN: usize = $size;
        }
    )*};
}
pub(crate) use sized;

/// No struct is that long: a size beyond it was never set.
const SIZE_MAX: usize = 4096;

/// Returns the size that a struct begins with, after a check.
unsafe fn size_of_struct<T: Sized32>(given: *const T) -> Answer<usize> {
    const { assert!(T::SIZE_MIN <= size_of::<T>(), "a struct never shrinks") };
    let name = T::NAME;
    ensure!(!given.is_null(), "the pointer to `{name}` is NULL");
    // SAFETY: the struct begins with its size; the caller promises that the pointer is readable. It may be of an older
    // header, so no more than the size is read yet.
    let size = unsafe { given.cast::<u32>().read_unaligned() } as usize;
    ensure!(
        (T::SIZE_MIN..=SIZE_MAX).contains(&size),
        "`size` of `{name}` must be at least {}, got {size}: set it to `sizeof({name})`",
        T::SIZE_MIN
    );
    Ok(size)
}

/// Reads a struct.
///
/// # Safety
/// `given` is NULL, or points to as many bytes as its size says.
pub(crate) unsafe fn read_struct<T: Sized32>(given: *const T) -> Answer<T> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_struct(given)? };
    // SAFETY: as above, and `size` was checked.
    unsafe { read_known(given.cast(), size) }
}

/// Reads a struct, or the defaults if the pointer is NULL.
///
/// # Safety
/// As [`read_struct`].
pub(crate) unsafe fn read_options<T: Sized32>(given: *const T) -> Answer<T> {
    match given.is_null() {
        // SAFETY: zero bytes are a valid value of the type.
        true => Ok(unsafe { MaybeUninit::zeroed().assume_init() }),
        // SAFETY: the caller's promise.
        false => unsafe { read_struct(given) },
    }
}

/// Sets an option, unless its value is 0: the default.
pub(crate) fn with<B, V: Copy + Default + PartialEq>(
    builder: B,
    value: V,
    set: impl FnOnce(B, V) -> B,
) -> B {
    match value == V::default() {
        true => builder,
        false => set(builder, value),
    }
}

/// Returns the value that a number of an enum names, of all values from 0 on.
pub(crate) fn chosen<T: Copy, const N: usize>(
    given: u32,
    values: [T; N],
    expected: &str,
) -> Answer<T> {
    let unknown = || Fault::argument(format!("{expected}, got {given}"));
    values.get(given as usize).copied().ok_or_else(unknown)
}

/// Reads a struct of `size` bytes.
unsafe fn read_known<T: Sized32>(given: *const u8, size: usize) -> Answer<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes are readable, and `value` has room for `known`.
    unsafe { given.copy_to_nonoverlapping(value.as_mut_ptr().cast(), known) };
    if size > known {
        // SAFETY: `size` bytes are readable.
        let unknown = unsafe { std::slice::from_raw_parts(given.add(known), size - known) };
        ensure!(
            unknown.iter().all(|byte| *byte == 0),
            "`{}` sets fields that this version of the library does not know; update the library",
            T::NAME
        );
    }
    // SAFETY: any prefix of a valid struct, followed by zeros, is valid.
    Ok(unsafe { value.assume_init() })
}

/// Reads an array of structs. All elements have the size of the first.
///
/// # Safety
/// `given` is NULL, or points to `count` structs of the size that the first begins with.
pub(crate) unsafe fn read_array<T: Sized32>(
    given: *const T,
    count: usize,
) -> Answer<SmallVec<[T; 8]>> {
    if count == 0 {
        return Ok(SmallVec::new());
    }
    // SAFETY: the caller's promise.
    let stride = unsafe { size_of_struct(given)? };
    check_count(count, stride, T::NAME)?;
    let mut all = SmallVec::with_capacity(count);
    for index in 0..count {
        // SAFETY: the array has `count` elements of this stride.
        let element = unsafe { given.cast::<u8>().add(index * stride) };
        // SAFETY: as above.
        let size = unsafe { size_of_struct::<T>(element.cast())? };
        ensure!(
            size == stride,
            "element {index} of an array of `{}` has size {size}, the first has {stride}",
            T::NAME
        );
        // SAFETY: as above.
        all.push(unsafe { read_known(element, size)? });
    }
    Ok(all)
}

/// The most elements of an array: more was never meant.
const COUNT_MAX: usize = 1 << 20;

fn check_count(count: usize, stride: usize, name: &str) -> Answer<()> {
    ensure!(
        count <= COUNT_MAX && stride > 0,
        "an array of `{name}` has at most {COUNT_MAX} elements, got {count}"
    );
    Ok(())
}

/// Reads an array of numbers or pointers, which need not be aligned. NULL is fine for 0 of them.
///
/// # Safety
/// `given` is NULL, or points to `count` values.
pub(crate) unsafe fn read_plain<T: Copy>(
    given: *const T,
    count: usize,
    name: &str,
) -> Answer<Vec<T>> {
    check_count(count, size_of::<T>(), name)?;
    ensure!(
        count == 0 || !given.is_null(),
        "the pointer to {count} values of type `{name}` is NULL"
    );
    // SAFETY: the caller's promise.
    let value = |index| unsafe { given.add(index).read_unaligned() };
    Ok((0..count).map(value).collect())
}

/// Writes a struct into the caller's, as far as that knows its fields; keeps its size.
///
/// # Safety
/// `out` is NULL, or points to as many writable bytes as its size says.
pub(crate) unsafe fn write_struct<T: Sized32>(out: *mut T, value: &T) -> Answer<()> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_struct(out.cast_const())? };
    let (from, to) = (std::ptr::from_ref(value).cast::<u8>(), out.cast::<u8>());
    let head = size_of::<u32>();
    let known = size.min(size_of::<T>());
    // SAFETY: both have `known` bytes. The size at the head stays.
    unsafe {
        from.add(head)
            .copy_to_nonoverlapping(to.add(head), known - head);
    };
    if size > known {
        // SAFETY: `out` has `size` bytes.
        unsafe { to.add(known).write_bytes(0, size - known) };
    }
    Ok(())
}

/// Returns bytes of the caller. NULL is fine for 0 bytes.
///
/// # Safety
/// `data` is NULL or points to `bytes` readable bytes, which live and stay unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, bytes: usize) -> Answer<&'a [u8]> {
    check_memory(data, bytes)?;
    match bytes {
        0 => Ok(&[]),
        // SAFETY: the caller's promise; not NULL, and no longer than an object may be.
        _ => Ok(unsafe { std::slice::from_raw_parts(data.cast(), bytes) }),
    }
}

/// Checks a pointer and a length.
pub(crate) fn check_memory(data: *const c_void, bytes: usize) -> Answer<()> {
    ensure!(
        bytes == 0 || !data.is_null(),
        "the pointer to {bytes} bytes is NULL"
    );
    ensure!(bytes <= isize::MAX as usize, "no memory has {bytes} bytes");
    Ok(())
}

/// Returns a text of the caller that ends with NUL.
///
/// # Safety
/// `text` is NULL or a text that ends with NUL and lives for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Answer<&'a str> {
    ensure!(!text.is_null(), "the {what} is NULL");
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Fault::argument(format!("the {what} is not valid UTF-8")))
}

/// Copies bytes into the caller's memory, and reports how many they are.
///
/// # Safety
/// `buffer` is NULL or has `capacity` writable bytes; `needed` is NULL or may be written.
pub(crate) unsafe fn give_bytes(
    bytes: &[u8],
    what: &str,
    buffer: *mut c_void,
    capacity: usize,
    needed: *mut usize,
) -> Answer<()> {
    check_memory(buffer, capacity)?;
    if !needed.is_null() {
        // SAFETY: the caller's promise.
        unsafe { needed.write(bytes.len()) };
    }
    if capacity < bytes.len() {
        let bytes = bytes.len();
        let text = format!("the {what} needs {bytes} bytes, got room for {capacity}");
        return Err(Fault::new(ms_status::TooSmall, text));
    }
    // SAFETY: there is room. Not NULL, because no caller gives 0 bytes (checked above).
    unsafe {
        bytes
            .as_ptr()
            .copy_to_nonoverlapping(buffer.cast(), bytes.len());
    }
    Ok(())
}

/// Copies a text and a NUL into the caller's memory, and reports the bytes that both need.
///
/// # Safety
/// As [`give_bytes`].
pub(crate) unsafe fn give_text(
    text: &str,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> Answer<()> {
    let bytes = [text.as_bytes(), b"\0"].concat();
    if capacity > 0 && capacity < bytes.len() && !buffer.is_null() {
        // SAFETY: there is room for one byte. No caller reads text that was not written.
        unsafe { buffer.write(0) };
    }
    // SAFETY: the caller's promise.
    unsafe { give_bytes(&bytes, "text", buffer.cast(), capacity, needed) }
}

/// A pointer of the caller that is handed back to its functions.
#[derive(Clone, Copy)]
pub(crate) struct User(pub(crate) *mut c_void);

// SAFETY: the library only hands the pointer back. The documentation of each function that takes one says on which
// threads its functions are called.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}
