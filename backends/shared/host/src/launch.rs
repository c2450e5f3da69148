//! Checks of launches, copies and fills on a CPU, and of their bindings.

use std::ptr;

use millstream_protocol::{
    BoundCount, BoundSlice, Kernel, Launch, NativeView, Pattern, Refused, staging::Block,
};

use crate::ALIGNMENT;

/// The greatest number of cubes of one launch.
pub const MAX_CUBES: u64 = millstream_sync::team::PIECES_MAX;

/// Returns the number of cubes, or `None` if it exceeds [`MAX_CUBES`].
#[inline]
pub fn count_cubes(counts: [u32; 3]) -> Option<u64> {
    let [x, y, z] = counts.map(u64::from);
    // The product of two factors cannot overflow.
    (x * y).checked_mul(z).filter(|cubes| *cubes <= MAX_CUBES)
}

/// Returns the number of cubes of a launch.
///
/// # Errors
/// They exceed [`MAX_CUBES`].
#[inline]
pub fn check_counts(counts: [u32; 3]) -> Result<u64, String> {
    count_cubes(counts).ok_or_else(|| {
        let [x, y, z] = counts;
        format!("expected at most {MAX_CUBES} cubes, got {x} x {y} x {z}; launch fewer cubes")
    })
}

/// Bytes of a dynamic cube count: three `u32`.
const COUNT_BYTES: u64 = 12;

/// Checks that a launch matches its kernel: bindings, scalars, and the cube count as far as it is known.
///
/// # Errors
/// The first mismatch.
#[inline]
pub fn check_launch(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), Refused> {
    let signature = kernel.signature();
    let (declared, given) = (signature.bindings().len(), launch.bindings.len());
    let refusal = match &launch.count {
        _ if given != declared => format!("expected {declared} bindings, got {given}"),
        _ if launch.scalars.len() < signature.scalar_words() => {
            let (declared, given) = (signature.scalar_words(), launch.scalars.len());
            format!("expected {declared} scalar words, got {given}")
        }
        _ if !launch.tensor_maps.is_empty() => {
            "this device does not support tensor maps; launch a kernel without them".to_owned()
        }
        BoundCount::Static(counts) => match check_counts(*counts) {
            Ok(_) => return Ok(()),
            Err(why) => why,
        },
        BoundCount::Dynamic(count) if count.len < COUNT_BYTES => {
            format!(
                "the cube count has {} bytes, expected {COUNT_BYTES} (3 `u32`)",
                count.len
            )
        }
        _ => return Ok(()),
    };
    Err(Refused::Task(refusal))
}

/// Reads a dynamic cube count of a checked launch.
///
/// # Safety
/// The view's memory is initialized, and nothing writes it meanwhile.
pub unsafe fn read_counts(view: NativeView) -> [u32; 3] {
    if view.bytes < COUNT_BYTES {
        debug_assert!(false, "a dynamic count has {COUNT_BYTES} bytes");
        return [0; 3];
    }
    // SAFETY: the caller's promise, and the view has that many bytes.
    unsafe { view.pointer.cast::<[u32; 3]>().read_unaligned() }
}

/// Returns the cubes of a launch along each axis, and the views that its kernel receives: `counts` if they are known.
/// Otherwise the last view has them.
///
/// # Safety
/// As for [`read_counts`] about the last view.
pub unsafe fn counts_of(
    counts: Option<[u32; 3]>,
    views: &[NativeView],
) -> ([u32; 3], &[NativeView]) {
    match (counts, views.split_last()) {
        (Some(counts), _) => (counts, views),
        // SAFETY: the caller's promise.
        (None, Some((count, views))) => (unsafe { read_counts(*count) }, views),
        (None, None) => ([0; 3], views),
    }
}

/// Checks that a copy has a target as long as its source.
///
/// # Errors
/// It does not.
pub fn check_copy(source: &BoundSlice, target: &BoundSlice) -> Result<(), Refused> {
    let (from, to) = (source.len, target.len);
    if from == to {
        return Ok(());
    }
    Err(Refused::Task(format!(
        "the source has {from} bytes and the target {to}, expected equal lengths"
    )))
}

/// Checks that a pattern has a width that divides every element.
///
/// # Errors
/// It does not.
pub fn check_pattern(pattern: Pattern) -> Result<(), Refused> {
    let width = pattern.width;
    if matches!(width, 1 | 2 | 4 | 8) {
        return Ok(());
    }
    Err(Refused::Task(format!(
        "the pattern has {width} bytes, expected 1, 2, 4 or 8"
    )))
}

/// Returns the memory of a binding in a page, whose block is `None` if there is no such page.
///
/// # Errors
/// It is not within the page.
#[inline]
pub fn view_of(binding: &BoundSlice, block: Option<&Block>) -> Result<NativeView, Refused> {
    let BoundSlice { offset, len, .. } = *binding;
    if len == 0 {
        // Aligned, and never touched.
        let pointer = ptr::without_provenance_mut(ALIGNMENT);
        return Ok(NativeView { pointer, bytes: 0 });
    }
    let end = offset.checked_add(len);
    match block {
        Some(block) if end.is_some_and(|end| end <= block.bytes()) => Ok(NativeView {
            // SAFETY: the offset lies within the page, whose block has that size.
            pointer: unsafe { block.pointer().add(offset as usize) },
            bytes: len,
        }),
        _ => Err(refused_range(binding)),
    }
}

#[cold]
fn refused_range(binding: &BoundSlice) -> Refused {
    let BoundSlice { offset, len, .. } = binding;
    Refused::Task(match binding.page {
        Some(page) => format!("{len} bytes from byte {offset} are not within {page}"),
        None => format!("{len} bytes are bound without a page"),
    })
}

/// Returns the refusal of a kernel that this device did not compile.
#[cold]
pub fn foreign_kernel() -> Refused {
    Refused::Task("the kernel was compiled for another device; prepare it on this one".to_owned())
}
