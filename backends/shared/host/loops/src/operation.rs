//! Operations on one, two or three values, and the loops over them.
//!
//! An operand is a tile, or a *scalar*: one element that stands for a whole tile.

use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use millstream_ir::scalar::arith::{Bits, Number};

use crate::level::{Arithmetic, Loop};
use crate::math;
use crate::math::power::{power, power_usual};
use crate::truth::Truth;

/// An operation on two values, or on the first of them. It may have a fast path for usual values.
pub trait Operation<T> {
    /// The type of the result.
    type Out;

    /// Returns the result.
    fn of<A: Arithmetic>(a: T, b: T) -> Self::Out;

    /// Returns the result of the fast path, and whether it is valid.
    #[inline(always)]
    fn usual<A: Arithmetic>(a: T, b: T) -> (Self::Out, bool) {
        (Self::of::<A>(a, b), true)
    }
}

/// Returns memory that a kernel reads as a slice.
///
/// # Safety
/// As [`crate::level::Kernel`] says.
#[inline(always)]
pub unsafe fn tile<'a, T>(from: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts(from.cast(), n) }
}

/// Returns memory that a kernel writes as a slice.
///
/// # Safety
/// As [`crate::level::Kernel`] says.
#[inline(always)]
pub unsafe fn tile_mut<'a, T>(to: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts_mut(to.cast(), n) }
}

/// Returns the elements of an operand, which is a tile, or a scalar that stands for each of them. Without checks of
/// bounds, so that loops vectorize.
///
/// # Safety
/// As [`crate::level::Kernel`] says. The closure is called with indices of the loop's elements only.
#[inline(always)]
pub unsafe fn operand<T: Copy, const SCALAR: bool>(from: *const u8) -> impl Fn(usize) -> T {
    let from = from.cast::<T>();
    // SAFETY: the caller's promise. Read once, because the compiler does not know that a loop leaves it alone.
    let scalar = SCALAR.then(|| unsafe { *from });
    // SAFETY: the caller's promise.
    move |index| scalar.unwrap_or_else(|| unsafe { *from.add(index) })
}

/// The loop of an operation. `SA` and `SB`: whether that operand is a scalar.
pub struct Map<T, O, const SA: bool, const SB: bool>(PhantomData<(T, O)>);

impl<T: Copy, O: Operation<T>, const SA: bool, const SB: bool> Loop for Map<T, O, SA, SB> {
    /// The fast path, and the general form for the whole tile if one value is unusual.
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let (a, b) = unsafe { (operand::<T, SA>(a), operand::<T, SB>(b)) };
        // SAFETY: as above.
        let d = unsafe { tile_mut(d, n) };
        let mut unusual = 0_u32;
        for (index, d) in d.iter_mut().enumerate() {
            let (found, is_usual) = O::usual::<A>(a(index), b(index));
            unusual |= u32::from(!is_usual);
            *d = found;
        }
        if unusual != 0 {
            for (index, d) in d.iter_mut().enumerate() {
                *d = O::of::<A>(a(index), b(index));
            }
        }
    }
}

/// Selects the second where the first is true, otherwise the third; both may be scalars. Only bits are moved, so the
/// types are those of the values' sizes.
pub struct Select<T, const SB: bool, const SC: bool>(PhantomData<T>);

impl<T: Copy, const SB: bool, const SC: bool> Loop for Select<T, SB, SC> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let (b, c) = unsafe { (operand::<T, SB>(b), operand::<T, SC>(c)) };
        // SAFETY: as above.
        let (d, a) = unsafe { (tile_mut(d, n), tile::<u8>(a, n)) };
        for (index, (d, a)) in d.iter_mut().zip(a).enumerate() {
            let (b, c) = (b(index), c(index));
            *d = if *a != 0 { b } else { c };
        }
    }
}

macro_rules! operations {
    ($($name:ident: $bound:ident -> $out:ty, $a:pat, $b:pat, $does:literal => $body:expr;)*) => {$(
        #[doc = $does]
        pub struct $name;
        impl<T: $bound> Operation<T> for $name {
            type Out = $out;
            #[inline(always)]
            fn of<A: Arithmetic>($a: T, $b: T) -> $out { $body }
        }
    )*};
}

operations! {
    Neg: Number -> T, a, _, "Negation." => a.negated();
    Abs: Number -> T, a, _, "Absolute value." => a.absolute();
    Not: Bits -> T, a, _, "Bitwise not." => a.inverted();
    Inverse: Number -> T, a, _, "Logical not." => if a == T::ZERO { T::ONE } else { T::ZERO };
    Add: Number -> T, a, b, "Sum." => a.plus(b);
    Sub: Number -> T, a, b, "Difference." => a.minus(b);
    Mul: Number -> T, a, b, "Product." => a.times(b);
    Div: Number -> T, a, b, "Quotient." => a.over(b);
    Rem: Number -> T, a, b, "Remainder." => a.remainder(b);
    Min: Number -> T, a, b, "The smaller value." => a.least(b);
    Max: Number -> T, a, b, "The greater value." => a.greatest(b);
    And: Bits -> T, a, b, "Bitwise and." => a.and(b);
    Or: Bits -> T, a, b, "Bitwise or." => a.or(b);
    Xor: Bits -> T, a, b, "Bitwise exclusive or." => a.xor(b);
    Shl: Bits -> T, a, b, "Left shift." => a.shifted_up(b);
    Shr: Bits -> T, a, b, "Right shift." => a.shifted_down(b);
    Eq: Number -> Truth, a, b, "Equal." => Truth::of(a == b);
    Ne: Number -> Truth, a, b, "Not equal." => Truth::of(a != b);
    Lt: Number -> Truth, a, b, "Less." => Truth::of(a < b);
    Le: Number -> Truth, a, b, "Less or equal." => Truth::of(a <= b);
    Gt: Number -> Truth, a, b, "Greater." => Truth::of(a > b);
    Ge: Number -> Truth, a, b, "Greater or equal." => Truth::of(a >= b);
}

/// Power.
pub struct Power;

impl Operation<f64> for Power {
    type Out = f64;
    #[inline(always)]
    fn of<A: Arithmetic>(a: f64, b: f64) -> f64 {
        a.powf(b)
    }
}

impl Operation<f32> for Power {
    type Out = f32;
    #[inline(always)]
    fn of<A: Arithmetic>(a: f32, b: f32) -> f32 {
        power::<A>(a, b)
    }

    #[inline(always)]
    fn usual<A: Arithmetic>(a: f32, b: f32) -> (f32, bool) {
        power_usual::<A>(a, b)
    }
}

macro_rules! functions {
    ($($name:ident of $t:ty, $x:ident => $any:expr $(, if $usual:expr => $short:expr)?;)*) => {$(
        #[doc = concat!("A function of `", stringify!($t), "`: [`millstream_ir::UnaryOp`] defines it.")]
        pub struct $name;
        impl Operation<$t> for $name {
            type Out = $t;
            #[inline(always)]
            fn of<A: Arithmetic>($x: $t, _: $t) -> $t { $any }
            $(
                #[inline(always)]
                fn usual<A: Arithmetic>($x: $t, _: $t) -> ($t, bool) { ($short, $usual) }
            )?
        }
    )*};
}

functions! {
    Exp32 of f32, x => math::f32::exp::<A>(x);
    Log32 of f32, x => math::f32::log::<A>(x);
    Sin32 of f32, x => x.sin(), if math::f32::angle_is_usual(x) => math::f32::sin_usual(x);
    Cos32 of f32, x => x.cos(), if math::f32::angle_is_usual(x) => math::f32::cos_usual(x);
    Tanh32 of f32, x => math::f32::tanh::<A>(x);
    Erf32 of f32, x => math::f32::erf::<A>(x);
    Sqrt32 of f32, x => x.sqrt();
    Floor32 of f32, x => x.floor();
    Ceil32 of f32, x => x.ceil();
    Exp64 of f64, x => math::f64::exp::<A>(x), if math::f64::exp_is_usual(x) => math::f64::exp_usual::<A>(x);
    Log64 of f64, x => x.ln();
    Sin64 of f64, x => x.sin();
    Cos64 of f64, x => x.cos();
    Tanh64 of f64, x => x.tanh();
    Sqrt64 of f64, x => x.sqrt();
    Floor64 of f64, x => x.floor();
    Ceil64 of f64, x => x.ceil();
}
