//! Subgroups: the reduction of a block as it is published, by shuffles and then by shared memory (CUDA samples, CUB); the
//! scan of Hillis and Steele; Batcher's bitonic sort in registers. Each has the bits of plain Rust, sums of floats
//! included, because their order is defined.

use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// Threads of a cube.
const THREADS: usize = 128;

/// The sum of each row, by a cube: each thread adds a part of the columns, then each subgroup, then one of the cube.
#[kernel(cube = 128)]
pub fn row_sums(columns: u32, x: &[f32], sums: &mut [f32]) {
    let parts = shared::<f32, 4>();
    let (row, mine, columns) = (cube(), thread_in_cube(), columns as usize);
    let (mut sum, mut column) = (0.0, mine);
    while column < columns {
        sum += x[row * columns + column];
        column += 128;
    }
    sum = subgroup_sum::<32>(sum);
    if thread_in_subgroup::<32>() == 0 {
        parts[mine / 32] = sum;
    }
    barrier();
    let part = if mine < 4 { parts[mine] } else { 0.0 };
    let all = subgroup_sum::<4>(part);
    if mine == 0 {
        sums[row] = all;
    }
}

/// Returns a sum in the order of a subgroup.
fn tree(values: &[f32]) -> f32 {
    match values {
        [value] => *value,
        _ => {
            let (lower, upper) = values.split_at(values.len() / 2);
            let sums = lower.iter().zip(upper).map(|(a, b)| a + b);
            tree(&sums.collect::<Vec<_>>())
        }
    }
}

/// Compares `row_sums` with plain Rust.
///
/// # Errors
/// They differ.
pub fn row_sums_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for columns in [1, 31, 128, 1000] {
        let rows = 5;
        let x = uniform(columns as u64, rows * columns);
        let mut sums = stream.create(&vec![0.0; rows])?;
        let given = stream.create(&x)?;
        row_sums(columns as u32, &given, &mut sums).launch(&stream, rows * THREADS)?;
        let expected = x.chunks(columns).map(|row| {
            let of_thread = |mine| {
                row.iter()
                    .skip(mine)
                    .step_by(THREADS)
                    .fold(0.0, |a, b| a + b)
            };
            let threads: Vec<f32> = (0..THREADS).map(of_thread).collect();
            let parts: Vec<f32> = threads.chunks(32).map(tree).collect();
            tree(&parts)
        });
        let expected: Vec<f32> = expected.collect();
        equal("row_sums", &stream.read(&sums).wait()?, &expected)?;
    }
    Ok(())
}

/// Sums of all elements up to each, of each cube. `W` threads are a subgroup.
#[kernel(cube = 64)]
pub fn scan_by_shuffles<const W: usize>(x: &[i32], sums: &mut [i32]) {
    let totals = shared::<i32, { 64 / W }>();
    let (i, place, group) = (thread(), thread_in_subgroup::<W>(), thread_in_cube() / W);
    let mut sum = if i < x.len() { x[i] } else { 0 };
    let mut step = 1;
    while step < W {
        let before = shuffle_up::<W>(sum, step);
        if place >= step {
            sum += before;
        }
        step *= 2;
    }
    if place == W - 1 {
        totals[group] = sum;
    }
    barrier();
    for earlier in 0..group {
        sum += totals[earlier];
    }
    if i < x.len() {
        sums[i] = sum;
    }
}

/// Compares `scan_by_shuffles` with plain Rust.
///
/// # Errors
/// They differ.
pub fn scan_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x: Vec<i32> = (0..300).map(|i| i * 7919 % 1000 - 500).collect();
    let given = stream.create(&x)?;
    let expected = x.chunks(64).flat_map(|part| {
        let sums = part.iter().scan(0, |sum, x| {
            *sum += x;
            Some(*sum)
        });
        sums.collect::<Vec<_>>()
    });
    let expected: Vec<i32> = expected.collect();
    macro_rules! widths {
        ($($width:literal),*) => {$(
            let mut sums = stream.create(&vec![0; x.len()])?;
            scan_by_shuffles::<$width>(&given, &mut sums).launch(&stream, x.len())?;
            equal("scan_by_shuffles", &stream.read(&sums).wait()?, &expected)?;
        )*};
    }
    widths!(2, 4, 8, 16, 32);
    Ok(())
}

/// Sorts each 32 elements.
#[kernel(cube = [2, 32])]
pub fn sort_by_shuffles(x: &mut [f32]) {
    let (place, at) = (thread_in_subgroup::<32>(), cube() * 64 + thread_in_cube());
    let mut value = if at < x.len() { x[at] } else { 1e30 };
    let mut size = 2;
    while size <= 32 {
        let mut step = size / 2;
        while step > 0 {
            let other = shuffle_xor::<32>(value, step);
            let takes_less = (place & size == 0) == (place & step == 0);
            value = if takes_less {
                value.min(other)
            } else {
                value.max(other)
            };
            step /= 2;
        }
        size *= 2;
    }
    if at < x.len() {
        x[at] = value;
    }
}

/// Compares `sort_by_shuffles` with plain Rust.
///
/// # Errors
/// They differ.
pub fn sort_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let mut x = uniform(3, 200);
    let mut sorted = stream.create(&x)?;
    sort_by_shuffles(&mut sorted).launch(&stream, [x.len().div_ceil(32), 32])?;
    x.chunks_mut(32)
        .for_each(|part| part.sort_by(f32::total_cmp));
    equal("sort_by_shuffles", &stream.read(&sorted).wait()?, &x)
}

/// Every function of subgroups of eight threads. Each thread has eleven results.
#[kernel(cube = 24)]
pub fn of_subgroups<T: Number>(x: &[T], results: &mut [T]) {
    let (i, n) = (thread_in_cube(), x.len());
    let value = x[i];
    results[i] = subgroup_sum::<8>(value);
    results[n + i] = subgroup_product::<8>(value);
    results[2 * n + i] = subgroup_min::<8>(value);
    results[3 * n + i] = subgroup_max::<8>(value);
    results[4 * n + i] = shuffle::<8>(value, 3);
    results[5 * n + i] = shuffle::<8>(value, i as i32 * 5 % 11 - 1);
    results[6 * n + i] = shuffle_xor::<8>(value, 5_u8);
    results[7 * n + i] = shuffle_down::<8>(value, 2);
    results[8 * n + i] = shuffle_up::<8>(value, i % 4);
    results[9 * n + i] = thread_in_subgroup::<8>() as T;
    let is_odd = shuffle_xor::<2>(i % 2 == 0, 1);
    results[10 * n + i] = if is_odd { value } else { 0 as T };
}

fn functions_match<T: Number + millstream::Element + PartialOrd>(
    device: &Device,
    of: impl Fn(i32) -> T,
) -> Checked {
    let stream = device.new_stream();
    // Sums and products are exact in each type.
    let small: Vec<i32> = (0..24)
        .map(|i| [1, 2, 1, 3, 1, 1, 4, 1][i * 5 % 8])
        .collect();
    let expected = (0..11).flat_map(|function| {
        let small = &small;
        (0..24_i32).map(move |i| {
            let (place, first) = (i % 8, i / 8 * 8);
            let group = &small[first as usize..][..8];
            let by = i * 5 % 11 - 1;
            let at = |place: i32| group[place as usize];
            match function {
                0 => group.iter().sum(),
                1 => group.iter().product(),
                2 => group.iter().copied().min().unwrap_or_default(),
                3 => group.iter().copied().max().unwrap_or_default(),
                4 => at(3),
                5 => at(if (0..8).contains(&by) { by } else { place }),
                6 => at(place ^ 5),
                7 => at(if place < 6 { place + 2 } else { place }),
                8 => at(if place >= i % 4 { place - i % 4 } else { place }),
                9 => place,
                _ => i % 2 * at(place),
            }
        })
    });
    let expected: Vec<T> = expected.map(&of).collect();
    let x: Vec<T> = small.iter().map(|x| of(*x)).collect();
    let (x, mut results) = (stream.create(&x)?, stream.create(&[of(0); 11 * 24])?);
    of_subgroups(&x, &mut results).launch(&stream, 24)?;
    let results = stream.read(&results).wait()?;
    equal(std::any::type_name::<T>(), &results, &expected)
}

/// Compares `of_subgroups` with plain Rust for each type.
///
/// # Errors
/// They differ.
pub fn subgroups_match(device: &Device) -> Checked {
    macro_rules! types {
        ($($t:ty: $of:expr;)*) => {$(
            functions_match::<$t>(device, $of)?;
        )*};
    }
    types! {
        i8: |it| it as i8; u8: |it| it as u8; i16: |it| it as i16; u16: |it| it as u16;
        i32: |it| it; u32: |it| it as u32; i64: i64::from; u64: |it| it as u64;
        f32: |it| it as f32; f64: f64::from;
        millstream::f16: |it| millstream::f16::from_f32(it as f32);
        millstream::bf16: |it| millstream::bf16::from_f32(it as f32);
    }
    Ok(())
}
