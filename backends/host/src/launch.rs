//! What a launch on a CPU relies on, checked.

use millstream_protocol::backend::{BoundCount, Launch};
use millstream_protocol::error::Refused;
use millstream_protocol::kernel::{Kernel, NativeView};

/// Most cubes of one launch.
pub const MAX_CUBES: u64 = millstream_sync::team::PIECES_MAX;

/// How many cubes there are, if so many can be counted.
#[inline]
pub fn count_cubes(counts: [u32; 3]) -> Option<u64> {
    let [x, y, z] = counts.map(u64::from);
    // Two factors fit in any case.
    (x * y).checked_mul(z).filter(|cubes| *cubes <= MAX_CUBES)
}

/// Bytes of a dynamic cube count: three `u32`.
const COUNT_BYTES: u64 = 12;

/// Checks what running `kernel` relies on: its bindings, its scalars, and its cubes as far as they are known.
///
/// # Errors
/// What does not fit.
#[inline]
pub fn check_launch(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), Refused> {
    let signature = kernel.signature();
    let (declared, given) = (signature.bindings().len(), launch.bindings.len());
    let refusal = match &launch.count {
        _ if given != declared => format!("it takes {declared} bindings, {given} are bound"),
        _ if launch.scalars.len() < signature.scalar_words() => {
            let (declared, given) = (signature.scalar_words(), launch.scalars.len());
            format!("it takes {declared} words of scalars, {given} are given")
        }
        _ if !launch.tensor_maps.is_empty() => "this device has no tensor maps".to_owned(),
        BoundCount::Static(counts) if count_cubes(*counts).is_none() => {
            let [x, y, z] = counts;
            format!("{x} x {y} x {z} cubes are more than can be counted")
        }
        BoundCount::Dynamic(count) if count.len < COUNT_BYTES => {
            format!("its cube count is {} bytes, not {COUNT_BYTES}", count.len)
        }
        _ => return Ok(()),
    };
    Err(Refused::Task(refusal))
}

/// A dynamic cube count, of a launch that was checked.
///
/// # Safety
/// The view's memory is initialized, and nobody writes it meanwhile.
pub unsafe fn read_counts(view: NativeView) -> [u32; 3] {
    if view.bytes < COUNT_BYTES {
        debug_assert!(false, "a dynamic count has {COUNT_BYTES} bytes");
        return [0; 3];
    }
    // SAFETY: the caller's promise, and that many bytes.
    unsafe { view.pointer.cast::<[u32; 3]>().read_unaligned() }
}
