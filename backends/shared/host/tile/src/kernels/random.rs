//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

use super::{tile, tile_mut};
use crate::level::{Arithmetic, Kernel, Level, Loop, kernel};

const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const ROUNDS: usize = 10;

/// Returns the first output word, for a counter in the lower half of the four input words.
#[inline(always)]
pub(crate) fn philox(seed: u64, counter: u64) -> u32 {
    let mut x = [counter as u32, (counter >> 32) as u32, 0, 0];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..ROUNDS {
        let first = u64::from(MULTIPLIERS[0]) * u64::from(x[0]);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(x[2]);
        x = [
            (second >> 32) as u32 ^ x[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ x[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    x[0]
}

/// Random numbers from counters and a scalar seed.
struct Philox;

impl Loop for Philox {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, a, seed) = unsafe { (tile_mut::<u32>(d, n), tile::<u64>(a, n), *b.cast::<u64>()) };
        for (d, a) in d.iter_mut().zip(a) {
            *d = philox(seed, *a);
        }
    }
}

/// Returns the loop of random numbers, from counters (`i64`) and a scalar seed.
pub(crate) fn random(level: Level) -> Kernel {
    kernel::<Philox>(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first word of the authors' known answer whose counter fits.
    #[test]
    fn philox_gives_the_known_answer() {
        assert_eq!(philox(0, 0), 0x6627_e8d5);
    }
}
