//! The element types and reductions, by the library's numbers.

use half::{bf16, f16};

/// The bytes of an element of each type.
pub(crate) const SIZES: [usize; 10] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2];
/// The number of reductions: sum, product, max, min.
pub(crate) const REDUCTIONS: u32 = 4;

/// Combines the inputs of elements of a type, from the last to the first, by one of the reductions.
fn reduce<T: bytemuck::Pod>(
    inputs: &[&[u8]],
    reduction: u32,
    reductions: [fn(T, T) -> T; REDUCTIONS as usize],
) -> Vec<u8> {
    let Some((last, others)) = inputs.split_last() else {
        return Vec::new();
    };
    let mut sums: Vec<T> = bytemuck::pod_collect_to_vec(last);
    for input in others.iter().rev() {
        let values: Vec<T> = bytemuck::pod_collect_to_vec(input);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = reductions[reduction as usize](*sum, value);
        }
    }
    bytemuck::cast_slice(&sums).to_vec()
}

/// Combines inputs of a type.
pub(crate) fn combine(dtype: u32, by: u32, inputs: &[&[u8]]) -> Vec<u8> {
    macro_rules! integers {
        ($type:ident) => {{
            let of = [
                $type::wrapping_add,
                $type::wrapping_mul,
                $type::max,
                $type::min,
            ];
            reduce::<$type>(inputs, by, of)
        }};
    }
    macro_rules! floats {
        ($type:ident) => {
            reduce::<$type>(
                inputs,
                by,
                [|a, b| a + b, |a, b| a * b, $type::max, $type::min],
            )
        };
    }
    match dtype {
        0 => integers!(i8),
        1 => integers!(u8),
        2 => integers!(i32),
        3 => integers!(u32),
        4 => integers!(i64),
        5 => integers!(u64),
        6 => floats!(f16),
        7 => floats!(f32),
        8 => floats!(f64),
        _ => floats!(bf16),
    }
}
