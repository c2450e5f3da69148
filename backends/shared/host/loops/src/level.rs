//! The instruction sets of the processor beyond its baseline, chosen once when a program is compiled.
//!
//! Loops are written once, as implementations of [`Loop`], and compiled for each level. Functions that they call must
//! be `#[inline(always)]`, because only then they are compiled with the level's instructions.

use millstream_ir::scalar::arith::Number;

/// A level of instruction sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The target of the build.
    Base,
    /// AVX2 and FMA: x86-64-v3.
    V3,
    /// AVX-512: x86-64-v4.
    V4,
}

/// The 4-byte elements of a register at level V3.
const V3_ELEMENTS: u8 = 8;

impl Level {
    /// Returns the highest level of this processor. Cheap: the standard library caches its detection.
    pub fn of_processor() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("bmi2") {
                let more = has!("avx512f") && has!("avx512bw") && has!("avx512dq");
                return match more && has!("avx512vl") {
                    true => Level::V4,
                    false => Level::V3,
                };
            }
        }
        Level::Base
    }

    /// Returns the 4-byte elements per register of the levels below this one, down to AVX2. Narrower registers can be
    /// faster, because wide ones may lower the processor's frequency.
    pub fn narrower(self) -> &'static [u8] {
        match self {
            Level::V4 => &[V3_ELEMENTS],
            Level::Base | Level::V3 => &[],
        }
    }

    /// Returns the level whose registers have this many 4-byte elements, or this level.
    pub fn of_vectors(self, elements: Option<u8>) -> Self {
        match elements {
            Some(V3_ELEMENTS) => self.min(Level::V3),
            _ => self,
        }
    }
}

/// How `a * b + c` is computed where rounding once is as good as twice. That is only inside functions such as `exp`:
/// operations that users write are never contracted.
pub trait Arithmetic {
    /// Whether it is one instruction, which rounds once.
    const IS_FUSED: bool;

    /// Returns `a * b + c`.
    #[inline(always)]
    fn mul_add<T: Number>(a: T, b: T, c: T) -> T {
        match Self::IS_FUSED {
            true => a.mul_add(b, c),
            false => a.times(b).plus(c),
        }
    }
}

/// With one instruction.
pub struct Fused;

impl Arithmetic for Fused {
    const IS_FUSED: bool = true;
}

/// With the instructions of the baseline: one on every architecture other than x86.
pub struct Baseline;

impl Arithmetic for Baseline {
    const IS_FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
}

/// A compiled loop over `n` elements: writes to its first argument, computed from the others. The number of elements
/// behind each depends on the loop. Written memory overlaps no memory that is read, unless the loop says so.
pub type Kernel = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// A loop, written once for all levels.
pub trait Loop {
    /// Runs the loop.
    ///
    /// # Safety
    /// The pointers are aligned for the loop's elements, valid for as many as it touches, and as [`Kernel`] says.
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);
}

/// Returns the code of a loop for a level.
pub fn kernel<L: Loop>(level: Level) -> Kernel {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::V3 => at_v3::<L>,
        #[cfg(target_arch = "x86_64")]
        Level::V4 => at_v4::<L>,
        _ => at_base::<L>,
    }
}

/// Returns the code of a loop for one level, where compiling it for each takes too long: for AVX2, or for the target of the
/// build on other architectures than x86-64. `None` if the processor lacks AVX2.
pub fn usual_kernel<L: Loop>(level: Level) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    return (level >= Level::V3).then_some(at_v3::<L>);
    #[cfg(not(target_arch = "x86_64"))]
    return (level == Level::Base).then_some(at_base::<L>);
}

unsafe fn at_base<L: Loop>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promises.
    unsafe { L::run::<Baseline>(d, a, b, c, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn at_v3<L: Loop>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promises.
    unsafe { L::run::<Fused>(d, a, b, c, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn at_v4<L: Loop>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
    // SAFETY: the caller's promises.
    unsafe { L::run::<Fused>(d, a, b, c, n) }
}
