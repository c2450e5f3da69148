//! The instruction sets of the processor beyond its baseline, chosen once when a program is compiled.
//!
//! Loops are written once, as implementations of [`Loop`], and compiled for each level. Functions that they call must
//! be `#[inline(always)]`, because only then they are compiled with the level's instructions.

/// A level of instruction sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// The target of the build.
    Base,
    /// AVX2 and FMA: x86-64-v3.
    #[cfg(target_arch = "x86_64")]
    V3,
    /// AVX-512: x86-64-v4.
    #[cfg(target_arch = "x86_64")]
    V4,
}

impl Level {
    /// Returns the highest level of this processor. Cheap: the standard library caches its detection.
    pub(crate) fn of_processor() -> Self {
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
}

impl Level {
    /// Returns the bytes of a register at this level.
    fn register_bytes(self) -> u8 {
        match self {
            Level::Base => 16,
            #[cfg(target_arch = "x86_64")]
            Level::V3 => 32,
            #[cfg(target_arch = "x86_64")]
            Level::V4 => 64,
        }
    }

    /// Returns the 4-byte elements per register of the levels below this one, down to AVX2. Narrower registers can be
    /// faster, because wide ones may lower the processor's frequency.
    pub(crate) fn narrower(self) -> Vec<u8> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::V4 => vec![Level::V3.register_bytes() / 4],
            _ => Vec::new(),
        }
    }

    /// Returns the level whose registers have this many 4-byte elements, or this level.
    pub(crate) fn of_vectors(self, elements: Option<u8>) -> Self {
        match elements {
            #[cfg(target_arch = "x86_64")]
            Some(elements) if elements == Level::V3.register_bytes() / 4 => self.min(Level::V3),
            _ => self,
        }
    }
}

/// Work other than a [`Loop`] that is compiled for each level as well.
pub(crate) trait Work {
    /// Does the work.
    ///
    /// # Safety
    /// As the implementation says.
    unsafe fn run<A: Arithmetic>(self);
}

/// Does work with the instructions of a level.
///
/// # Safety
/// The processor has the level; as the work says.
pub(crate) unsafe fn work<W: Work>(level: Level, work: W) {
    // SAFETY: the caller's promises.
    unsafe {
        match level {
            Level::Base => work.run::<Baseline>(),
            #[cfg(target_arch = "x86_64")]
            Level::V3 => work_at_v3(work),
            #[cfg(target_arch = "x86_64")]
            Level::V4 => work_at_v4(work),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn work_at_v3<W: Work>(work: W) {
    // SAFETY: the caller's promises.
    unsafe { work.run::<Fused>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn work_at_v4<W: Work>(work: W) {
    // SAFETY: the caller's promises.
    unsafe { work.run::<Fused>() }
}

/// How `a * b + c` is computed where rounding once is as good as twice. That is only inside functions such as `exp`:
/// operations that users write are never contracted.
pub(crate) trait Arithmetic {
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64;
}

/// With one instruction.
pub(crate) struct Fused;

/// With two instructions.
pub(crate) struct Plain;

impl Arithmetic for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

impl Arithmetic for Plain {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }

    #[inline(always)]
    fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
}

/// The arithmetic of the baseline: it has a fused instruction on every architecture other than x86.
#[cfg(any(target_arch = "aarch64", target_feature = "fma"))]
type Baseline = Fused;
#[cfg(not(any(target_arch = "aarch64", target_feature = "fma")))]
type Baseline = Plain;

/// A compiled loop over `n` elements: writes to its first argument, computed from the others. The number of elements
/// behind each depends on the loop. Written memory overlaps no memory that is read, unless the loop says so.
pub(crate) type Kernel = unsafe fn(*mut u8, *const u8, *const u8, *const u8, usize);

/// A loop, written once for all levels.
pub(crate) trait Loop {
    /// Runs the loop.
    ///
    /// # Safety
    /// The pointers are aligned for the loop's elements, valid for as many as it touches, and as [`Kernel`] says.
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);
}

/// Returns the code of a loop for a level.
pub(crate) fn kernel<L: Loop>(level: Level) -> Kernel {
    match level {
        Level::Base => at_base::<L>,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => at_v3::<L>,
        #[cfg(target_arch = "x86_64")]
        Level::V4 => at_v4::<L>,
    }
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
