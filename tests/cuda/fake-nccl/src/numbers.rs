//! The element types and reductions, by the library's numbers.

use half::{bf16, f16};

/// The bytes of an element of each type.
pub(crate) const SIZES: [usize; 10] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2];
/// The number of reductions: sum, product, max, min.
pub(crate) const REDUCTIONS: u32 = 4;

/// An element: how each reduction combines two of them.
trait Number: Sized {
    fn combine(reduction: u32, a: Self, b: Self) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $add:expr, $multiply:expr, $max:expr, $min:expr;)*) => {$(
        impl Number for $type {
            fn combine(reduction: u32, a: Self, b: Self) -> Self {
                match reduction {
                    0 => $add(a, b),
                    1 => $multiply(a, b),
                    2 => $max(a, b),
                    _ => $min(a, b),
                }
            }
        }
    )*};
}

fn by_f32(f: fn(f32, f32) -> f32) -> impl Fn(f16, f16) -> f16 {
    move |a, b| f16::from_f32(f(a.to_f32(), b.to_f32()))
}

fn by_f32_b(f: fn(f32, f32) -> f32) -> impl Fn(bf16, bf16) -> bf16 {
    move |a, b| bf16::from_f32(f(a.to_f32(), b.to_f32()))
}

numbers! {
    i8: i8::wrapping_add, i8::wrapping_mul, i8::max, i8::min;
    u8: u8::wrapping_add, u8::wrapping_mul, u8::max, u8::min;
    i32: i32::wrapping_add, i32::wrapping_mul, i32::max, i32::min;
    u32: u32::wrapping_add, u32::wrapping_mul, u32::max, u32::min;
    i64: i64::wrapping_add, i64::wrapping_mul, i64::max, i64::min;
    u64: u64::wrapping_add, u64::wrapping_mul, u64::max, u64::min;
    f32: |a, b| a + b, |a, b| a * b, f32::max, f32::min;
    f64: |a, b| a + b, |a, b| a * b, f64::max, f64::min;
    f16: by_f32(|a, b| a + b), by_f32(|a, b| a * b), by_f32(f32::max), by_f32(f32::min);
    bf16: by_f32_b(|a, b| a + b), by_f32_b(|a, b| a * b), by_f32_b(f32::max), by_f32_b(f32::min);
}

/// Combines the inputs, from the last to the first.
fn reduce<T: Number + bytemuck::Pod>(reduction: u32, inputs: &[&[u8]]) -> Vec<u8> {
    let Some((last, others)) = inputs.split_last() else {
        return Vec::new();
    };
    let mut sums: Vec<T> = bytemuck::pod_collect_to_vec(last);
    for input in others.iter().rev() {
        let values: Vec<T> = bytemuck::pod_collect_to_vec(input);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = T::combine(reduction, *sum, value);
        }
    }
    bytemuck::cast_slice(&sums).to_vec()
}

/// Combines inputs of a type.
pub(crate) fn combine(dtype: u32, reduction: u32, inputs: &[&[u8]]) -> Vec<u8> {
    match dtype {
        0 => reduce::<i8>(reduction, inputs),
        1 => reduce::<u8>(reduction, inputs),
        2 => reduce::<i32>(reduction, inputs),
        3 => reduce::<u32>(reduction, inputs),
        4 => reduce::<i64>(reduction, inputs),
        5 => reduce::<u64>(reduction, inputs),
        6 => reduce::<f16>(reduction, inputs),
        7 => reduce::<f32>(reduction, inputs),
        8 => reduce::<f64>(reduction, inputs),
        _ => reduce::<bf16>(reduction, inputs),
    }
}
