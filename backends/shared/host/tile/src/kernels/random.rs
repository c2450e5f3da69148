//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

use millstream_ir::scalar;

use super::{tile, tile_mut};
use crate::level::{Arithmetic, Kernel, Level, Loop, kernel};

/// Random numbers from counters and a scalar seed.
struct Philox;

impl Loop for Philox {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, a, seed) = unsafe { (tile_mut::<u32>(d, n), tile::<u64>(a, n), *b.cast::<u64>()) };
        for (d, a) in d.iter_mut().zip(a) {
            *d = scalar::random(seed, *a) as u32;
        }
    }
}

/// Returns the loop of random numbers, from counters (`i64`) and a scalar seed.
pub(crate) fn random(level: Level) -> Kernel {
    kernel::<Philox>(level)
}
