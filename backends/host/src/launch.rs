//! Checks of a launch on a CPU.

use millstream_protocol::backend::{BoundCount, Launch};
use millstream_protocol::error::Refused;
use millstream_protocol::kernel::{Kernel, NativeView};

/// The greatest number of cubes of one launch.
pub const MAX_CUBES: u64 = millstream_sync::team::PIECES_MAX;

/// Returns the number of cubes, or `None` if it exceeds [`MAX_CUBES`].
#[inline]
pub fn count_cubes(counts: [u32; 3]) -> Option<u64> {
    let [x, y, z] = counts.map(u64::from);
    // The product of two factors cannot overflow.
    (x * y).checked_mul(z).filter(|cubes| *cubes <= MAX_CUBES)
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
        BoundCount::Static(counts) if count_cubes(*counts).is_none() => {
            let [x, y, z] = counts;
            format!("expected at most {MAX_CUBES} cubes, got {x} x {y} x {z}; launch fewer cubes")
        }
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
