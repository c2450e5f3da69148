//! Sums of products, of rows of threads. A factor is a column, or lies in memory where a loop that loads it would find it.

use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, usual_kernel};

/// Elements that a loop reads at once: a few vectors.
const BLOCK: usize = 16;

/// The factors of the first row, and where those of the next rows are.
#[repr(C)]
pub(crate) struct Factors {
    pub(crate) first: [*const f32; 2],
    /// The distance from row to row, in elements.
    pub(crate) apart: [isize; 2],
    /// The threads of a row.
    pub(crate) width: usize,
}

/// Adds products to `n` rows: `a` is the first addend, and `b` the [`Factors`]. A row has `WIDTH` threads, or any number
/// if that is 0. A factor is the same for all threads of a row if its `A` or `B` is 0, and otherwise they have neighbours.
/// The result may be in the memory of a column that is read.
struct MulAdd<const WIDTH: usize, const A: usize, const B: usize>;

/// Returns neighbours, or one element for all.
///
/// # Safety
/// They exist.
#[inline(always)]
unsafe fn some<const N: usize, const APART: usize>(from: *const f32) -> [f32; N] {
    // SAFETY: the caller's promise.
    unsafe {
        match APART {
            0 => [*from; N],
            _ => *from.cast(),
        }
    }
}

impl<const WIDTH: usize, const A: usize, const B: usize> MulAdd<WIDTH, A, B> {
    /// Computes neighbours. All are read before one is written.
    ///
    /// # Safety
    /// They exist.
    #[inline(always)]
    unsafe fn block<const N: usize>(d: *mut f32, c: *const f32, [a, b]: [*const f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b, c): ([f32; N], [f32; N], [f32; N]) =
                (some::<N, A>(a), some::<N, B>(b), some::<N, 1>(c));
            *d.cast() = std::array::from_fn::<f32, N, _>(|at| c[at] + a[at] * b[at]);
        }
    }
}

impl<const WIDTH: usize, const A: usize, const B: usize> Loop for MulAdd<WIDTH, A, B> {
    #[inline(always)]
    unsafe fn run<L: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let factors = unsafe { &*b.cast::<Factors>() };
        let ([mut a, mut b], mut c, mut d) = (factors.first, a.cast::<f32>(), d.cast::<f32>());
        for _ in 0..n {
            // SAFETY: the caller's promises: each row has `width` elements.
            unsafe {
                if WIDTH > 0 {
                    Self::block::<WIDTH>(d, c, [a, b]);
                    (c, d) = (c.add(WIDTH), d.add(WIDTH));
                } else {
                    let whole = factors.width / BLOCK * BLOCK;
                    for at in (0..whole).step_by(BLOCK) {
                        let factors = [a.add(at * A), b.add(at * B)];
                        Self::block::<BLOCK>(d.add(at), c.add(at), factors);
                    }
                    for at in whole..factors.width {
                        let factors = [a.add(at * A), b.add(at * B)];
                        Self::block::<1>(d.add(at), c.add(at), factors);
                    }
                    (c, d) = (c.add(factors.width), d.add(factors.width));
                }
            }
            a = a.wrapping_offset(factors.apart[0]);
            b = b.wrapping_offset(factors.apart[1]);
        }
    }
}

/// Returns the loops that add products to rows of this many threads, of any number if it is 0.
pub(crate) fn mul_add(width: usize, level: Level) -> [[Option<Kernel>; 2]; 2] {
    fn of<const WIDTH: usize>(level: Level) -> [[Option<Kernel>; 2]; 2] {
        [
            [None, usual_kernel::<MulAdd<WIDTH, 0, 1>>(level)],
            [
                usual_kernel::<MulAdd<WIDTH, 1, 0>>(level),
                usual_kernel::<MulAdd<WIDTH, 1, 1>>(level),
            ],
        ]
    }
    match width {
        8 => of::<8>(level),
        16 => of::<16>(level),
        32 => of::<32>(level),
        _ => of::<0>(level),
    }
}
