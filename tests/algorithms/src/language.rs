//! What kernels are written with: each expression and statement, compared with the same Rust.

#![allow(
    clippy::manual_is_multiple_of,
    reason = "the same text as in the kernel"
)]

use millstream::prelude::*;

use crate::{Checked, equal};

const OFFSET: i32 = 7;

/// A kernel.
#[kernel]
pub fn expressions(x: &[i32], y: &[i32], results: &mut [i32]) {
    let i = thread();
    let (a, b) = (x[i], y[i]);
    let n = x.len();
    let arithmetic = a + b * 2 - a / b + a % b;
    let bits = (a & b) | (a ^ 3) ^ !b;
    let shifts = (a << (b & 7)) - (a >> 2);
    let logic = if a < b && (b != 3 || a == -1) { 1 } else { -1 };
    let casts = (a as f32 * 0.5) as i32 + (b as u8) as i32 + (a > 0) as i32;
    let limits = a.min(b).max(-5).clamp(-4, 90) + a.abs();
    let tuple = (a, (b, OFFSET));
    let table = [1, a, b, OFFSET];
    let chosen = match a {
        0 => 100,
        1 | 2 => 200,
        3..=9 => b,
        k if k < -3 => k - 1,
        _ => 300,
    };
    results[i] = arithmetic;
    results[n + i] = bits + shifts;
    results[2 * n + i] = logic + casts + limits;
    results[3 * n + i] = tuple.0 + tuple.1.0 * tuple.1.1 + table[(a & 3) as usize];
    results[4 * n + i] = chosen;
}

/// Compares `expressions` with plain Rust.
///
/// # Errors
/// They differ.
pub fn expressions_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let all = [
        i32::MIN,
        -100,
        -4,
        -3,
        -1,
        0,
        1,
        2,
        3,
        7,
        9,
        10,
        77,
        1 << 20,
        i32::MAX,
    ];
    let pairs: Vec<(i32, i32)> = all.iter().flat_map(|a| all.map(|b| (*a, b))).collect();
    let (x, y): (Vec<i32>, Vec<i32>) = pairs.iter().copied().unzip();
    let of = |f: fn(i32, i32) -> i32| pairs.iter().map(move |(a, b)| f(*a, *b));
    let over = |a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_div(b) };
    let rest = |a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_rem(b) };
    let arithmetic = pairs.iter().map(|(a, b)| {
        a.wrapping_add(b.wrapping_mul(2))
            .wrapping_sub(over(*a, *b))
            .wrapping_add(rest(*a, *b))
    });
    let bits =
        of(|a, b| ((a & b) | (a ^ 3) ^ !b).wrapping_add((a << (b & 7)).wrapping_sub(a >> 2)));
    let logic = of(|a, b| {
        let logic = if a < b && (b != 3 || a == -1) { 1 } else { -1 };
        let casts = ((a as f32 * 0.5) as i32)
            .wrapping_add(i32::from(b as u8))
            .wrapping_add(i32::from(a > 0));
        let limits = a.min(b).clamp(-4, 90).wrapping_add(a.wrapping_abs());
        casts.wrapping_add(logic).wrapping_add(limits)
    });
    let parts = of(|a, b| {
        a.wrapping_add(b.wrapping_mul(OFFSET))
            .wrapping_add([1, a, b, OFFSET][(a & 3) as usize])
    });
    let chosen = of(|a, b| match a {
        0 => 100,
        1 | 2 => 200,
        3..=9 => b,
        k if k < -3 => k.wrapping_sub(1),
        _ => 300,
    });
    let expected: Vec<i32> = arithmetic
        .chain(bits)
        .chain(logic)
        .chain(parts)
        .chain(chosen)
        .collect();
    let mut results = stream.create(&vec![0; expected.len()])?;
    let (x, y) = (stream.create(&x)?, stream.create(&y)?);
    expressions(&x, &y, &mut results).launch(&stream, pairs.len())?;
    equal("results", &stream.read(&results).wait()?, &expected)
}

/// A kernel.
#[kernel]
pub fn control(seeds: &[u32], results: &mut [u32]) {
    let (i, n) = (thread(), seeds.len());
    let seed = seeds[i];
    if seed == 13 {
        results[i] = 1;
        return;
    }
    // Collatz, with an end.
    let (mut value, mut steps) = (seed, 0);
    while value > 1 && steps < 200 {
        value = if value % 2 == 0 {
            value / 2
        } else {
            3 * value + 1
        };
        steps += 1;
    }
    results[i] = steps;
    // The first divisor.
    let mut divisor = 2;
    loop {
        if divisor * divisor > seed {
            divisor = seed;
            break;
        }
        if seed % divisor == 0 {
            break;
        }
        divisor += 1;
    }
    results[n + i] = divisor;
    // Sums that skip.
    let mut sum = 0;
    for j in (0..seed).step_by(3) {
        if j % 2 == 1 {
            continue;
        }
        for k in (0..4).rev() {
            if k == 1 {
                break;
            }
            sum += j * k;
        }
        if sum > 1000 {
            break;
        }
    }
    results[2 * n + i] = sum;
    let mut best = [0; 3];
    for j in 0..=seed % 7 {
        let slot = (j % 3) as usize;
        best[slot] = best[slot].max(j * seed % 11);
    }
    results[3 * n + i] = best[0] * 100 + best[1] * 10 + best[2];
}

/// Compares `control` with plain Rust.
///
/// # Errors
/// They differ.
pub fn control_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let seeds: Vec<u32> = (0..300).collect();
    let (n, mut expected) = (seeds.len(), vec![0; 4 * seeds.len()]);
    for (i, seed) in seeds.iter().copied().enumerate() {
        if seed == 13 {
            expected[i] = 1;
            continue;
        }
        let (mut value, mut steps) = (seed, 0);
        while value > 1 && steps < 200 {
            value = if value % 2 == 0 {
                value / 2
            } else {
                3 * value + 1
            };
            steps += 1;
        }
        expected[i] = steps;
        let is_divisor = |it: &u32| it * it > seed || seed % it == 0;
        let first = (2..).find(is_divisor).unwrap_or_default();
        expected[n + i] = if first * first > seed { seed } else { first };
        let mut sum = 0;
        for j in (0..seed).step_by(3).filter(|j| j % 2 == 0) {
            sum += j * 3 + j * 2;
            if sum > 1000 {
                break;
            }
        }
        expected[2 * n + i] = sum;
        let mut best = [0; 3];
        for j in 0..=seed % 7 {
            let slot = (j % 3) as usize;
            best[slot] = best[slot].max(j * seed % 11);
        }
        expected[3 * n + i] = best[0] * 100 + best[1] * 10 + best[2];
    }
    let (seeds, mut results) = (
        stream.create(&seeds)?,
        stream.create(&vec![0; expected.len()])?,
    );
    control(&seeds, &mut results).launch(&stream, n)?;
    equal("results", &stream.read(&results).wait()?, &expected)
}

/// Returns from within two loops.
#[kernel]
pub fn first_pair(sum: u32, most: u32) -> (u32, u32) {
    for a in 1..most {
        for b in a..most {
            if a * b == sum {
                return (a, b);
            }
        }
    }
    (0, 0)
}

/// Looks for a value in a buffer.
#[kernel]
pub fn position_of(value: u32, table: &[u32]) -> usize {
    for i in 0..table.len() {
        if table[i] == value {
            return i;
        }
    }
    table.len()
}

/// A kernel.
#[kernel]
pub fn helpers(table: &[u32], results: &mut [u32]) {
    let i = thread();
    let pair = first_pair(i as u32, 20);
    let at = position_of(i as u32, table);
    results[i] = pair.0 * 10_000 + pair.1 * 100 + at as u32;
}

/// Compares `helpers` with plain Rust.
///
/// # Errors
/// They differ.
pub fn helpers_match(device: &Device) -> Checked {
    let (stream, table) = (device.new_stream(), [5_u32, 3, 8, 60, 2]);
    let pair = |sum| {
        (1..20)
            .flat_map(|a| (a..20).map(move |b| (a, b)))
            .find(|(a, b)| a * b == sum)
    };
    let expected: Vec<u32> = (0..100)
        .map(|i| {
            let (a, b) = pair(i).unwrap_or_default();
            let at = table.iter().position(|it| *it == i).unwrap_or(5) as u32;
            a * 10_000 + b * 100 + at
        })
        .collect();
    let (table, mut results) = (stream.create(&table)?, stream.create(&[0; 100])?);
    helpers(&table, &mut results).launch(&stream, 100)?;
    equal("results", &stream.read(&results).wait()?, &expected)
}

/// The mean of `N` neighbours.
#[kernel]
pub fn means<T: Number, const N: usize>(scale: T, x: &[T], #[whole] y: &mut [T]) {
    let i = thread();
    let mut sum = 0 as T;
    for k in 0..N {
        sum += x[i + k];
    }
    y[i] = sum * scale / N as T;
}

/// Compares `generics` with plain Rust.
///
/// # Errors
/// They differ.
pub fn generics_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x: Vec<i64> = (0..50).map(|i| i * i).collect();
    let expected: Vec<i64> = x
        .windows(3)
        .map(|it| it.iter().sum::<i64>() * 2 / 3)
        .collect();
    let (x, mut y) = (stream.create(&x)?, stream.empty(48)?);
    means::<i64, 3>(2, &x, &mut y).launch(&stream, 48)?;
    equal("y of i64", &stream.read(&y).wait()?, &expected)?;
    let x: Vec<f64> = (0..50).map(f64::from).collect();
    let expected: Vec<f64> = x
        .windows(5)
        .map(|it| it.iter().sum::<f64>() * 0.5 / 5.0)
        .collect();
    let (x, mut y) = (stream.create(&x)?, stream.empty(46)?);
    means::<f64, 5>(0.5, &x, &mut y).launch(&stream, 46)?;
    equal("y of f64", &stream.read(&y).wait()?, &expected)
}

/// What was read of a variable does not change with it.
#[kernel]
pub fn copies(results: &mut [u32]) {
    let i = thread() as u32;
    let mut array = [i, 1, 2];
    let mut pair = (array, i);
    let (before, alone) = (array, [i]);
    array[0] += 10;
    pair.0[1] = 7;
    let (inner, number) = pair;
    pair = (array, number + 1);
    let mut other = before;
    other[2] = 9;
    results[4 * thread()] = before[0] + 100 * array[0] + 10_000 * inner[1];
    results[4 * thread() + 1] = pair.0[0] + 100 * pair.1 + 10_000 * before[2];
    results[4 * thread() + 2] = other[2] + 10 * inner[0];
    results[4 * thread() + 3] = (alone.len() + array.len()) as u32 + alone[0];
}

/// Compares `copies` with plain Rust.
///
/// # Errors
/// They differ.
pub fn copies_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let of = |i: u32| {
        [
            i + 100 * (i + 10) + 10_000 * 7,
            (i + 10) + 100 * (i + 1) + 10_000 * 2,
            9 + 10 * i,
            4 + i,
        ]
    };
    let expected: Vec<u32> = (0..50).flat_map(of).collect();
    let mut results = stream.create(&[0; 200])?;
    copies(&mut results).launch(&stream, 50)?;
    equal("results", &stream.read(&results).wait()?, &expected)
}

/// Jumps to labels, and helper functions that return from within loops.
#[kernel]
pub fn jumps(results: &mut [u32]) {
    let i = thread() as u32;
    let mut sum = 0;
    for round in 0..3_u32 {
        'outer: for a in 0..6_u32 {
            let mut b = 0;
            'middle: loop {
                b += 1;
                for c in 0..4_u32 {
                    if (a + b + c + i) % 7 == 0 {
                        continue 'outer;
                    }
                    if (a * b + c + i) % 11 == 10 {
                        break 'outer;
                    }
                    if (a + b * c) % 5 == 4 {
                        break 'middle;
                    }
                    sum += a + 10 * b + 100 * c;
                }
                if b > 3 {
                    break;
                }
            }
            sum += 1000 * first_pair(a + i + round, 5).1;
        }
    }
    results[thread()] = sum;
}

/// Compares `jumps` with plain Rust.
///
/// # Errors
/// They differ.
pub fn jumps_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let pair = |sum| {
        let pairs = (1..5).flat_map(|a| (a..5).map(move |b| (a, b)));
        pairs
            .clone()
            .find(|(a, b)| a * b == sum)
            .map_or(0, |it| it.1)
    };
    let of = |i: u32| {
        let mut sum = 0;
        for round in 0..3 {
            'outer: for a in 0..6 {
                let mut b = 0;
                'middle: loop {
                    b += 1;
                    for c in 0..4 {
                        if (a + b + c + i).is_multiple_of(7) {
                            continue 'outer;
                        }
                        if (a * b + c + i) % 11 == 10 {
                            break 'outer;
                        }
                        if (a + b * c) % 5 == 4 {
                            break 'middle;
                        }
                        sum += a + 10 * b + 100 * c;
                    }
                    if b > 3 {
                        break;
                    }
                }
                sum += 1000 * pair(a + i + round);
            }
        }
        sum
    };
    let expected: Vec<u32> = (0..300).map(of).collect();
    let mut results = stream.create(&[0; 300])?;
    jumps(&mut results).launch(&stream, 300)?;
    equal("results", &stream.read(&results).wait()?, &expected)
}

/// Three axes, and the numbers of threads.
#[kernel]
pub fn positions(#[whole] results: &mut [u32]) {
    let [plane, row, column] = position();
    results[thread()] = (plane * 10_000 + row * 100 + column + threads() * 0) as u32;
}

/// A transposed image, by two axes.
#[kernel]
pub fn turned(rows: usize, columns: usize, x: &[f32], y: &mut [f32]) {
    let [row, column] = position();
    if row < rows && column < columns {
        y[column * rows + row] = x[row * columns + column];
    }
}

/// Threads of a cube on two axes: each gets its neighbour's value.
#[kernel(cube = [4, 8])]
pub fn neighbours(#[whole] results: &mut [u32]) {
    let values = shared::<u32, 32>();
    let [down, across] = position_in_cube();
    let [row, column] = position();
    values[down * 8 + across] = (row * 100 + column) as u32;
    barrier();
    let other = values[down * 8 + (across + 1) % 8];
    results[thread()] = other * 10 + cubes() as u32;
}

/// Compares positions with plain Rust.
///
/// # Errors
/// They differ.
pub fn positions_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let all = |[planes, rows, columns]: [usize; 3]| {
        (0..planes * rows * columns)
            .map(move |i| (i / (rows * columns), i / columns % rows, i % columns))
    };
    let expected: Vec<u32> = all([3, 5, 70])
        .map(|(p, r, c)| (p * 10_000 + r * 100 + c) as u32)
        .collect();
    let mut results = stream.empty(expected.len())?;
    positions(&mut results).launch(&stream, [3, 5, 70])?;
    equal("positions", &stream.read(&results).wait()?, &expected)?;

    let x = crate::uniform(1, 45 * 70);
    let expected: Vec<f32> = (0..45 * 70).map(|i| x[i % 45 * 70 + i / 45]).collect();
    let (x, mut y) = (stream.create(&x)?, stream.create(&[0.0; 45 * 70])?);
    turned(45, 70, &x, &mut y).launch(&stream, [45, 70])?;
    equal("turned", &stream.read(&y).wait()?, &expected)?;

    let expected: Vec<u32> = all([1, 8, 16])
        .map(|(_, r, c)| ((r * 100 + c / 8 * 8 + (c + 1) % 8) * 10 + 4) as u32)
        .collect();
    let mut results = stream.empty(8 * 16)?;
    neighbours(&mut results).launch(&stream, [8, 16])?;
    equal("neighbours", &stream.read(&results).wait()?, &expected)
}

/// Every type of numbers: sums, products, casts.
#[kernel]
pub fn of_type<T: Number>(x: &[T], y: &[T], results: &mut [T]) {
    let (i, n) = (thread(), x.len());
    results[i] = x[i] + y[i] * x[i];
    results[n + i] = (x[i] / y[i] - x[i] % y[i]).max(y[i]);
    results[2 * n + i] = (x[i] as f32 * 0.5) as T;
    results[3 * n + i] = if x[i] < y[i] || x[i] == 3 as T {
        x[i]
    } else {
        y[i].min(-x[i])
    };
}

fn type_matches<T: Number + millstream::Element>(
    device: &Device,
    pairs: &[(i32, i32)],
    of: impl Fn(i32) -> T,
    expected: impl Fn(T, T) -> [T; 4],
) -> Checked {
    let stream = device.new_stream();
    let (x, y): (Vec<T>, Vec<T>) = pairs.iter().map(|(x, y)| (of(*x), of(*y))).unzip();
    let all: Vec<[T; 4]> = x.iter().zip(&y).map(|(x, y)| expected(*x, *y)).collect();
    let expected: Vec<T> = (0..4)
        .flat_map(|part| all.iter().map(move |it| it[part]))
        .collect();
    let (x, y, mut results) = (
        stream.create(&x)?,
        stream.create(&y)?,
        stream.create(&expected)?,
    );
    of_type(&x, &y, &mut results).launch(&stream, x.len())?;
    equal(
        std::any::type_name::<T>(),
        &stream.read(&results).wait()?,
        &expected,
    )
}

/// Compares `of_type` with plain Rust for each type.
///
/// # Errors
/// They differ.
pub fn types_match(device: &Device) -> Checked {
    let some = [
        -300, -129, -128, -7, -1, 0, 1, 2, 3, 5, 100, 127, 128, 255, 256, 70_000,
    ];
    let pairs: Vec<(i32, i32)> = some.iter().flat_map(|a| some.map(|b| (*a, b))).collect();
    macro_rules! integers {
        ($($t:ident),*) => {$(
            type_matches(device, &pairs, |it| it as $t, |x, y| {
                let (over, rest) = if y == 0 { (0, 0) } else { (x.wrapping_div(y), x.wrapping_rem(y)) };
                let chosen = if x < y || x == 3 { x } else { y.min((0 as $t).wrapping_sub(x)) };
                [x.wrapping_add(y.wrapping_mul(x)), over.wrapping_sub(rest).max(y), (x as f32 * 0.5) as $t, chosen]
            })?;
        )*};
    }
    integers!(i8, u8, i16, u16, i32, u32, i64, u64);
    // Small whole numbers: every result is exact, and no quotient is needed.
    let small = [1, 2, 3, 4, 8, 16];
    let pairs: Vec<(i32, i32)> = small.iter().flat_map(|a| small.map(|b| (*a, b))).collect();
    macro_rules! floats {
        ($($t:ty as $wide:ident: $of:expr;)*) => {$(
            let of: fn($wide) -> $t = $of;
            type_matches(device, &pairs, |it| of(it as $wide), |x, y| {
                let (x, y): ($wide, $wide) = (f64::from(x) as $wide, f64::from(y) as $wide);
                // The quotient is rounded to the type before the difference.
                let quotient = f64::from(of(x / y)) as $wide;
                let chosen = if x < y || x == 3.0 { x } else { y.min(-x) };
                [of(x + y * x), of((quotient - x % y).max(y)), of(x * 0.5), of(chosen)]
            })?;
        )*};
    }
    floats! {
        f32 as f32: |it| it;
        f64 as f64: |it| it;
        millstream::f16 as f32: millstream::f16::from_f32;
        millstream::bf16 as f32: millstream::bf16::from_f32;
    }
    Ok(())
}
