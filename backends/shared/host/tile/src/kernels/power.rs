//! Powers of `f32`, where each operand may be a scalar.

use millstream_ir::DType;

use super::{operand, tile_mut};
use crate::level::{Arithmetic, Kernel, Level, Loop, kernel};
use crate::math::power::{power, power_usual};

/// Powers of `f32`. `SA` and `SB`: whether that operand is a scalar.
struct Powers<const SA: bool, const SB: bool>;

impl<const SA: bool, const SB: bool> Loop for Powers<SA, SB> {
    /// The fast path, and the general form for the whole tile if one value is unusual.
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (a, b) = unsafe { (operand::<f32, SA>(a, n), operand::<f32, SB>(b, n)) };
        // SAFETY: as above.
        let d = unsafe { tile_mut::<f32>(d, n) };
        let mut unusual = 0_u32;
        for (index, d) in d.iter_mut().enumerate() {
            let (found, is_usual) = power_usual::<A>(a(index), b(index));
            unusual |= u32::from(!is_usual);
            *d = found;
        }
        if unusual != 0 {
            for (index, d) in d.iter_mut().enumerate() {
                *d = power::<A>(a(index), b(index));
            }
        }
    }
}

/// Returns the loop of powers, which exists for `f32` only.
pub(super) fn of(dtype: DType, scalar: [bool; 2], level: Level) -> Option<Kernel> {
    match (dtype, scalar) {
        (DType::F32, [true, false]) => Some(kernel::<Powers<true, false>>(level)),
        (DType::F32, [false, true]) => Some(kernel::<Powers<false, true>>(level)),
        // Two scalars make one element, which is a tile of one.
        (DType::F32, _) => Some(kernel::<Powers<false, false>>(level)),
        _ => None,
    }
}
