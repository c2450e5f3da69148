//! Reductions: the element types, and the operations on them.

use std::fmt;

use millstream::{Element, bf16, f16};

/// How a collective combines the elements of its members.
///
/// Members are combined in the order of their ranks, one after the other, so every member gets the same bits, in every
/// run. The exception are CUDA devices that NCCL serves: it chooses the order, so that sums and products of floats may
/// differ from those of other devices in their last bits. All members get the same bits there, too.
/// [`Fleet::without_nccl`](crate::Fleet::without_nccl) restores the order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reduction {
    /// The sum. Integers wrap.
    Sum,
    /// The product. Integers wrap.
    Product,
    /// The smallest. Of floats the one that is not a NaN, if one is not.
    Min,
    /// The greatest. Of floats the one that is not a NaN, if one is not.
    Max,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

impl Reduction {
    /// Combines each element of `accumulator` with that of `values`, as far as both go.
    pub fn combine<T: Reducible>(self, accumulator: &mut [T], values: &[T]) {
        T::combine(self, accumulator, None, values);
    }
}

/// An element type that collectives can combine.
pub trait Reducible: Element + sealed::Combine {}

pub(crate) mod sealed {
    use super::Reduction;

    /// Combines slices of elements.
    pub trait Combine: Sized {
        /// Sets each element of `sum` to the combination of those of `first`, or of `sum` itself, and `second`, which have
        /// the same length.
        fn combine(reduction: Reduction, sum: &mut [Self], first: Option<&[Self]>, second: &[Self]);
    }
}

/// Calls a function for each pair of elements. The loops of all types and operations are instances of these two.
#[inline(always)]
fn each<T: Copy>(sum: &mut [T], first: Option<&[T]>, second: &[T], combine: impl Fn(T, T) -> T) {
    let pairs = sum.iter_mut().zip(second);
    match first {
        None => pairs.for_each(|(sum, second)| *sum = combine(*sum, *second)),
        Some(first) => pairs
            .zip(first)
            .for_each(|((sum, second), first)| *sum = combine(*first, *second)),
    }
}

macro_rules! reducible {
    ($($type:ty: $sum:expr, $product:expr, $min:expr, $max:expr;)*) => {$(
        impl Reducible for $type {}

        impl sealed::Combine for $type {
            fn combine(
                reduction: Reduction,
                sum: &mut [Self],
                first: Option<&[Self]>,
                second: &[Self],
            ) {
                match reduction {
                    Reduction::Sum => each(sum, first, second, $sum),
                    Reduction::Product => each(sum, first, second, $product),
                    Reduction::Min => each(sum, first, second, $min),
                    Reduction::Max => each(sum, first, second, $max),
                }
            }
        }
    )*};
    (integers $($type:ty)*) => { reducible! {
        $($type: <$type>::wrapping_add, <$type>::wrapping_mul, <$type>::min, <$type>::max;)*
    } };
    (floats $($type:ty)*) => { reducible! {
        $($type: |a, b| a + b, |a, b| a * b, <$type>::min, <$type>::max;)*
    } };
    // Each step is rounded to the type, as a device would store it.
    (halves $($type:ty)*) => { reducible! {
        $($type:
            |a, b| <$type>::from_f32(a.to_f32() + b.to_f32()),
            |a, b| <$type>::from_f32(a.to_f32() * b.to_f32()),
            |a, b| <$type>::from_f32(a.to_f32().min(b.to_f32())),
            |a, b| <$type>::from_f32(a.to_f32().max(b.to_f32()));)*
    } };
}

reducible! { integers u8 i8 u16 i16 u32 i32 u64 i64 }
reducible! { floats f32 f64 }
reducible! { halves f16 bf16 }
