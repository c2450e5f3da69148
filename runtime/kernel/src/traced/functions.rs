//! Operations on values, and the positions of a thread.

use millstream_ir::ssa::{Axis, Operand, Position, SUBGROUP_MAX, Shuffle, Val};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp, scalar};

use super::memory::index;
use super::{Tracer, V};
use crate::number::{Bits, Float, Int, Number, Scalar};

/// Returns a value in the type that it is computed in: a half as `f32`.
pub(super) fn wide<T: Scalar>(value: V<'_, T>) -> Val<'_> {
    let value = value.val();
    match T::DTYPE.computed() == T::DTYPE {
        true => value,
        false => value.cast(T::DTYPE.computed()),
    }
}

/// Returns a result in its type.
pub(super) fn narrow<T: Scalar>(value: Val<'_>) -> V<'_, T> {
    match value.of().dtype == T::DTYPE {
        true => V::new(value),
        false => V::new(value.cast(T::DTYPE)),
    }
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident<$bound:ident>: $op:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<'k, T: $bound + Scalar>(a: V<'k, T>, b: V<'k, T>) -> V<'k, T> {
            narrow(wide(a).binary(BinaryOp::$op, wide(b)))
        }
    )*};
}

binary! {
    /// `a + b`.
    add<Number>: Add;
    /// `a - b`.
    sub<Number>: Sub;
    /// `a * b`.
    mul<Number>: Mul;
    /// `a / b`.
    div<Number>: Div;
    /// `a % b`.
    rem<Number>: Rem;
    /// The smaller value, NaN if one is.
    min<Number>: Min;
    /// The greater value, NaN if one is.
    max<Number>: Max;
    /// `a ^ b`.
    xor<Bits>: Xor;
    /// `a` to the power of `b`.
    powf<Float>: Pow;
}

/// `a & b`.
pub fn and<'k, T: Bits + Scalar>(a: V<'k, T>, b: V<'k, T>) -> V<'k, T> {
    let and = || narrow(wide(a).binary(BinaryOp::And, wide(b)));
    V::folded(a, b, |a, b| a & b).unwrap_or_else(and)
}

/// `a | b`.
pub fn or<'k, T: Bits + Scalar>(a: V<'k, T>, b: V<'k, T>) -> V<'k, T> {
    let or = || narrow(wide(a).binary(BinaryOp::Or, wide(b)));
    V::folded(a, b, |a, b| a | b).unwrap_or_else(or)
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident<$bound:ident>: $op:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<'k, T: $bound + Scalar>(a: V<'k, T>) -> V<'k, T> {
            narrow(wide(a).unary(UnaryOp::$op))
        }
    )*};
}

unary! {
    /// `-a`.
    neg<Number>: Neg;
    /// `!a`.
    not<Bits>: Not;
    /// The square root.
    sqrt<Float>: Sqrt;
    /// e to the power of the value.
    exp<Float>: Exp;
    /// The natural logarithm.
    ln<Float>: Log;
    /// The sine of radians.
    sin<Float>: Sin;
    /// The cosine of radians.
    cos<Float>: Cos;
    /// The hyperbolic tangent.
    tanh<Float>: Tanh;
    /// The error function.
    erf<Float>: Erf;
    /// Rounded down.
    floor<Float>: Floor;
    /// Rounded up.
    ceil<Float>: Ceil;
}

/// The absolute value.
pub fn abs<T: Number>(a: V<'_, T>) -> V<'_, T> {
    // Of unsigned integers the value itself.
    match T::DTYPE.is_float() || T::DTYPE.is_signed() {
        true => narrow(wide(a).unary(UnaryOp::Abs)),
        false => V::new(a.val()),
    }
}

macro_rules! comparisons {
    ($($name:ident: $op:ident, $text:literal;)*) => {$(
        #[doc = concat!("`a ", $text, " b`. Of constants it is one, so that a branch of constants is decided here.")]
        pub fn $name<'k, T: Scalar>(a: V<'k, T>, b: V<'k, T>) -> V<'k, bool> {
            let fold = scalar::compare(CompareOp::$op, T::DTYPE);
            V::folded(a, b, fold)
                .unwrap_or_else(|| V::new(wide(a).compare(CompareOp::$op, wide(b))))
        }
    )*};
}

comparisons! { eq: Eq, "=="; ne: Ne, "!="; lt: Lt, "<"; le: Le, "<="; gt: Gt, ">"; ge: Ge, ">="; }

/// Returns a shift as a number of another type: as all its bits if that type cannot represent it.
fn shift<'k, T: Int, U: Int>(by: V<'k, U>) -> Operand<'k> {
    if T::DTYPE == U::DTYPE {
        return by.val().into();
    }
    match by.constant() {
        Some(bits) => Operand::Int(U::of_bits(bits).index().min(64) as i64, T::DTYPE),
        // As `u64` a negative shift is large.
        None => by.val().cast(DType::U64).min(64).cast(T::DTYPE).into(),
    }
}

/// `a << b`.
pub fn shl<'k, T: Int, U: Int>(a: V<'k, T>, b: V<'k, U>) -> V<'k, T> {
    V::folded(a, b, |a, b| T::of_bits(a).shl(U::of_bits(b)).bits())
        .unwrap_or_else(|| V::new(a.val().binary(BinaryOp::Shl, shift::<T, U>(b))))
}

/// `a >> b`.
pub fn shr<'k, T: Int, U: Int>(a: V<'k, T>, b: V<'k, U>) -> V<'k, T> {
    V::folded(a, b, |a, b| T::of_bits(a).shr(U::of_bits(b)).bits())
        .unwrap_or_else(|| V::new(a.val().binary(BinaryOp::Shr, shift::<T, U>(b))))
}

/// `a * b + c`, rounded once.
pub fn mul_add<'k, T: Float>(a: V<'k, T>, b: V<'k, T>, c: V<'k, T>) -> V<'k, T> {
    narrow(wide(a).fma(wide(b), wide(c)))
}

/// `value as T`.
pub fn cast<'k, T: Number, C: Scalar>(value: V<'k, C>) -> V<'k, T> {
    narrow(value.val())
}

/// `T::from(value)`, which is a cast that loses nothing.
pub fn convert<'k, T: Number + From<U>, U: Scalar>(value: V<'k, U>) -> V<'k, T> {
    cast(value)
}

/// The bits of a float as an unsigned integer.
pub fn to_bits<'k, T: Float>(value: V<'k, T>) -> V<'k, T::Word> {
    bit_cast(value)
}

/// A float from its bits as an unsigned integer, and back.
pub fn bit_cast<'k, T: Number, U: Number>(value: V<'k, U>) -> V<'k, T> {
    const {
        assert!(
            T::DTYPE.size() == U::DTYPE.size(),
            "both types have the same size"
        );
    };
    V::new(value.val().bits(T::DTYPE))
}

/// `a` if the condition holds, otherwise `b`.
pub fn select<'k, T: Scalar>(condition: V<'k, bool>, a: V<'k, T>, b: V<'k, T>) -> V<'k, T> {
    V::chosen(condition, a, b)
}

/// The axes of the program, the fastest first.
const FASTEST: [Axis; 3] = [Axis::X, Axis::Y, Axis::Z];

/// Returns a position, the slowest of the axes first.
fn along<const AXES: usize>(k: Tracer<'_>, position: Position) -> [V<'_, usize>; AXES] {
    let of = |axis: Axis| V::new(k.builder.position(position, axis).bits(DType::U64));
    std::array::from_fn(|axis| of(FASTEST[AXES - 1 - axis]))
}

/// Returns the number of a position along these axes: the last one is the fastest.
fn number<'k>(k: Tracer<'k>, axes: usize, of: Position, among: Position) -> V<'k, usize> {
    let [of, among]: [[V<'k, usize>; 3]; 2] = [of, among].map(|position| along(k, position));
    let further = 4 - axes..3;
    further.fold(of[3 - axes], |number, axis| {
        add(mul(number, among[axis]), of[axis])
    })
}

/// The position of the thread, the slowest axis first.
pub fn position<const AXES: usize>(k: Tracer<'_>) -> [V<'_, usize>; AXES] {
    let [cube, threads, thread] =
        [Position::Cube, Position::Threads, Position::Thread].map(|of| along::<AXES>(k, of));
    std::array::from_fn(|axis| add(mul(cube[axis], threads[axis]), thread[axis]))
}

/// The position of the thread in its cube, the slowest axis first.
pub fn position_in_cube<const AXES: usize>(k: Tracer<'_>) -> [V<'_, usize>; AXES] {
    along(k, Position::Thread)
}

/// The position of the cube, the slowest axis first.
pub fn cube_position<const AXES: usize>(k: Tracer<'_>) -> [V<'_, usize>; AXES] {
    along(k, Position::Cube)
}

/// The number of the thread in its cube.
pub fn thread_in_cube(k: Tracer<'_>) -> V<'_, usize> {
    number(k, 3, Position::Thread, Position::Threads)
}

/// The number of the cube.
pub fn cube(k: Tracer<'_>) -> V<'_, usize> {
    number(k, k.axes.get(), Position::Cube, Position::Cubes)
}

/// The number of cubes.
pub fn cubes(k: Tracer<'_>) -> V<'_, usize> {
    let counts: [V<'_, usize>; 3] = along(k, Position::Cubes);
    let along = counts.into_iter().skip(3 - k.axes.get());
    along.reduce(mul).expect("a launch has at least one axis")
}

/// The number of threads of a cube.
pub fn threads_in_cube(k: Tracer<'_>) -> V<'_, usize> {
    let [z, y, x]: [V<'_, usize>; 3] = along(k, Position::Threads);
    mul(mul(z, y), x)
}

/// Waits until all threads of the cube are here.
pub fn barrier(k: Tracer<'_>) {
    k.builder.barrier();
}

macro_rules! reductions {
    ($($name:ident: $op:ident, $what:literal;)*) => {$(
        #[doc = concat!("The ", $what, " of the values of all threads of the cube, which all of them get.")]
        pub fn $name<'k, T: Number>(_: Tracer<'k>, value: V<'k, T>) -> V<'k, T> {
            narrow(wide(value).reduce(ReduceOp::$op))
        }
    )*};
}

/// Returns the width of a subgroup. Refuses one that no device has; the check of the program compares it with the cube.
fn subgroup(k: Tracer<'_>, width: usize) -> u32 {
    match u32::try_from(width) {
        Ok(width) if width.is_power_of_two() && width <= SUBGROUP_MAX => width,
        _ => {
            k.builder.refuse(format!(
                "has subgroups of {width} threads: their number is a power of two, at most {SUBGROUP_MAX}"
            ));
            1
        }
    }
}

macro_rules! subgroups {
    ($($name:ident: $op:ident, $what:literal;)*) => {$(
        #[doc = concat!("The ", $what, " of the values of a subgroup of `width` threads, which all of them get.")]
        pub fn $name<'k, T: Number>(k: Tracer<'k>, width: usize, value: V<'k, T>) -> V<'k, T> {
            narrow(wide(value).reduce_subgroup(subgroup(k, width), ReduceOp::$op))
        }
    )*};
}

subgroups! {
    subgroup_sum: Sum, "sum";
    subgroup_product: Prod, "product";
    subgroup_min: Min, "minimum";
    subgroup_max: Max, "maximum";
}

macro_rules! shuffles {
    ($($name:ident: $from:ident, $what:literal;)*) => {$(
        #[doc = concat!("The value of the thread ", $what, " of a subgroup of `width` threads; its own if there is none.")]
        pub fn $name<'k, T: Scalar, I: Int>(
            k: Tracer<'k>,
            width: usize,
            value: V<'k, T>,
            by: V<'k, I>,
        ) -> V<'k, T> {
            let width = subgroup(k, width);
            V::new(value.val().shuffle(Shuffle::$from, width, index(by)))
        }
    )*};
}

shuffles! {
    shuffle: Lane, "at a place";
    shuffle_xor: Xor, "whose place differs in some bits";
    shuffle_down: Down, "that is some places behind";
    shuffle_up: Up, "that is some places before";
}

/// The place of the thread in its subgroup of `width` threads.
pub fn thread_in_subgroup(k: Tracer<'_>, width: usize) -> V<'_, usize> {
    let last = i64::from(subgroup(k, width)) - 1;
    V::new((k.builder.thread() & last).bits(DType::U64))
}

reductions! { cube_sum: Sum, "sum"; cube_product: Prod, "product"; cube_min: Min, "minimum"; cube_max: Max, "maximum"; }
