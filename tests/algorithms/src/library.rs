//! The library of kernels, `millstream::kernels`, compared with plain Rust: no elements, one, and lengths on both sides of
//! what a thread, a cube and a tile have.

use std::fmt::Debug;

use millstream::kernels::{self, Edge};
use millstream::{Device, Element, Handle, Number, Stream};
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::{Checked, equal, near, uniform};

/// Lengths that tasks of one tile, a few tiles, and none have.
const LENGTHS: [usize; 4] = [0, 1, 255, 4100];

/// Returns random words, the same of each seed.
fn words(seed: u64, len: usize) -> Vec<u64> {
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..len).map(|_| random.next_u64()).collect()
}

fn read<T: Element>(stream: &Stream, x: &Handle<T>) -> Result<Vec<T>, millstream::Error> {
    stream.read(x).wait()
}

/// Compares reductions.
///
/// # Errors
/// They differ.
pub fn reductions_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in LENGTHS {
        let numbers: Vec<i32> = words(1, len).iter().map(|it| *it as i32).collect();
        let x = stream.create(&numbers)?;
        let sum = numbers.iter().fold(0, |sum: i32, x| sum.wrapping_add(*x));
        equal("sum", &read(&stream, &kernels::sum(&stream, &x)?)?, &[sum])?;
        let square = |sum: i32, x: &i32| sum.wrapping_add(x.wrapping_mul(*x));
        let dot = numbers.iter().fold(0, square);
        equal(
            "dot",
            &read(&stream, &kernels::dot(&stream, &x, &x)?)?,
            &[dot],
        )?;
        let least = numbers.iter().min().copied();
        match (kernels::min(&stream, &x), least) {
            (Err(error), None) if error.to_string().contains("no elements") => {}
            (min, least) => equal("min", &read(&stream, &min?)?, &[least.unwrap_or(0)])?,
        }
        // A part of a buffer.
        let floats = uniform(2, len + 3);
        let x = stream.create(&floats)?.slice(3..)?;
        let sum: f64 = floats[3..].iter().map(|x| f64::from(*x)).sum();
        let given = read(&stream, &kernels::sum(&stream, &x)?)?;
        near("sum of floats", &given, &[sum as f32], 1e-5)?;
    }
    let x = stream.create(&[1.0_f64, f64::NAN, -4.0])?;
    let max = read(&stream, &kernels::max(&stream, &x)?)?;
    match max[..] {
        [max] if max.is_nan() => Ok(()),
        _ => Err(format!("max is {max:?}, expected NaN").into()),
    }
}

/// Compares scans.
///
/// # Errors
/// They differ.
pub fn scans_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in LENGTHS {
        let numbers: Vec<u64> = words(1, len);
        let add = |sum: &mut u64, x: &u64| {
            *sum = sum.wrapping_add(*x);
            Some(*sum)
        };
        let sums: Vec<u64> = numbers.iter().scan(0, add).collect();
        let x = stream.create(&numbers)?;
        equal("sums", &read(&stream, &kernels::scan(&stream, &x)?)?, &sums)?;
        let before: Vec<u64> = [0].into_iter().chain(sums).take(len).collect();
        let given = read(&stream, &kernels::scan_exclusive(&stream, &x)?)?;
        equal("sums before", &given, &before)?;
    }
    let x = stream.create(&[0.5_f32; 3000])?;
    let expected: Vec<f32> = (1..=3000).map(|n| n as f32 * 0.5).collect();
    equal(
        "sums of floats",
        &read(&stream, &kernels::scan(&stream, &x)?)?,
        &expected,
    )
}

/// Compares the order of keys, and sorted keys as text, which NaN has too.
fn sorts<T: Number + Element>(
    stream: &Stream,
    keys: &[T],
    is_order: bool,
    compare: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Checked {
    let (what, mut given) = (std::any::type_name::<T>(), stream.create(keys)?);
    if is_order {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by(|a, b| compare(&keys[*a as usize], &keys[*b as usize]));
        let given = kernels::sort_order(stream, &given)?;
        return equal(what, &read(stream, &given)?, &order);
    }
    let mut sorted = keys.to_vec();
    sorted.sort_by(compare);
    kernels::sort(stream, &mut given)?;
    let text = |keys: &[T]| keys.iter().map(|key| format!("{key:?}")).collect();
    let [given, sorted]: [Vec<String>; 2] = [text(&read(stream, &given)?), text(&sorted)];
    equal(what, &given, &sorted)
}

/// Compares sorting.
///
/// # Errors
/// They differ.
pub fn sorts_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let of = |len| words(len as u64, len);
    for len in [0, 1, 2, 2049] {
        let keys: Vec<u8> = of(len).iter().map(|it| *it as u8).collect();
        sorts(&stream, &keys, false, Ord::cmp)?;
    }
    let keys: Vec<i16> = of(2100).iter().map(|it| *it as i16 % 300).collect();
    sorts(&stream, &keys, true, Ord::cmp)?;
    let hard = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE,
    ];
    let keys = of(500).into_iter().map(|it| f32::from_bits(it as u32));
    let keys: Vec<f32> = keys.chain(hard).collect();
    sorts(&stream, &keys, false, f32::total_cmp)?;
    let keys: Vec<u64> = of(100);
    sorts(&stream, &keys, false, Ord::cmp)
}

/// Compares histograms.
///
/// # Errors
/// They differ.
pub fn histograms_match(device: &Device) -> Checked {
    fn check<T: Number + millstream::Int + Element + Debug>(
        stream: &Stream,
        x: &[T],
        bins: usize,
        bin: impl Fn(&T) -> usize,
    ) -> Checked {
        let mut expected = vec![0_u32; bins];
        x.iter()
            .map(bin)
            .filter(|bin| *bin < bins)
            .for_each(|bin| expected[bin] += 1);
        let counts = kernels::histogram(stream, &stream.create(x)?, bins)?;
        equal(&format!("{bins} bins"), &read(stream, &counts)?, &expected)
    }
    let stream = device.new_stream();
    let bytes: Vec<u8> = words(1, 40_000).iter().map(|it| *it as u8).collect();
    for bins in [0, 1, 256] {
        check(&stream, &bytes, bins, |it| usize::from(*it))?;
    }
    check(&stream, &bytes[..1], 256, |it| usize::from(*it))?;
    check(&stream, &bytes[..0], 7, |it| usize::from(*it))?;
    // Negative numbers are in no bin.
    let numbers: Vec<i32> = words(2, 1000).iter().map(|it| *it as i32 % 5000).collect();
    for bins in [2048, 2049] {
        check(&stream, &numbers, bins, |it| *it as usize)?;
    }
    Ok(())
}

/// Compares compaction, gather, scatter and what makes numbers.
///
/// # Errors
/// They differ.
pub fn moves_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in LENGTHS {
        let (random, x) = (words(1, len), stream.create(&uniform(2, len))?);
        let numbers = read(&stream, &x)?;
        let keep: Vec<u8> = random.iter().map(|it| (it % 3) as u8).collect();
        let kept = numbers.iter().zip(&keep).filter(|(_, keep)| **keep != 0);
        let kept: Vec<f32> = kept.map(|(x, _)| *x).collect();
        let (given, count) = kernels::compact(&stream, &x, &stream.create(&keep)?)?;
        equal("count", &read(&stream, &count)?, &[kept.len() as u32])?;
        equal("kept", &read(&stream, &given.slice(..kept.len())?)?, &kept)?;

        let mut order: Vec<u16> = (0..len as u16).collect();
        order.sort_by_key(|i| random[usize::from(*i)]);
        let indices = stream.create(&order)?;
        let gathered = kernels::gather(&stream, &x, &indices)?;
        let expected: Vec<f32> = order.iter().map(|i| numbers[usize::from(*i)]).collect();
        equal("gathered", &read(&stream, &gathered)?, &expected)?;
        let mut back = stream.create(&vec![0.0; len])?;
        kernels::scatter(&stream, &gathered, &indices, &mut back)?;
        equal("scattered", &read(&stream, &back)?, &numbers)?;

        let mut y = kernels::iota(&stream, 5_i32, -2, len)?;
        let steps: Vec<i32> = (0..len as i32).map(|i| 5 - 2 * i).collect();
        equal("steps", &read(&stream, &y)?, &steps)?;
        let halves = kernels::cast::<i32, f32>(&stream, &y)?;
        equal(
            "cast",
            &read(&stream, &halves)?,
            &steps.iter().map(|x| *x as f32).collect::<Vec<_>>(),
        )?;
        kernels::scale_add(&stream, 3, &stream.create(&steps)?, &mut y)?;
        equal(
            "scaled",
            &read(&stream, &y)?,
            &steps.iter().map(|x| 4 * x).collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}

/// Compares operations on matrices.
///
/// # Errors
/// They differ.
pub fn matrices_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for [rows, columns] in [[0, 5], [1, 1], [45, 70], [64, 33]] {
        let x: Vec<u16> = words(1, rows * columns)
            .iter()
            .map(|it| *it as u16)
            .collect();
        let expected: Vec<u16> = (0..x.len())
            .map(|i| x[i % rows * columns + i / rows])
            .collect();
        let y = kernels::transpose(&stream, [rows, columns], &stream.create(&x)?)?;
        equal("transposed", &read(&stream, &y)?, &expected)?;
    }
    for [m, k, n] in [[0, 3, 2], [2, 0, 2], [65, 17, 3]] {
        let [a, b]: [Vec<i32>; 2] = [(1, m * k), (2, k * n)]
            .map(|(seed, len)| words(seed, len).iter().map(|it| *it as i32 % 100).collect());
        let sum = |i: usize| (0..k).map(|t| a[i / n * k + t] * b[t * n + i % n]).sum();
        let expected: Vec<i32> = (0..m * n).map(sum).collect();
        let (a, b) = (stream.create(&a)?, stream.create(&b)?);
        let c = kernels::matmul(&stream, [m, k, n], &a, &b)?;
        equal("product", &read(&stream, &c)?, &expected)?;
    }
    let refused = kernels::transpose(&stream, [3, 4], &stream.create(&[0; 11])?);
    match refused {
        Err(error) if error.to_string().contains("expected 12") => Ok(()),
        other => Err(format!("11 elements as 3 x 4: {other:?}").into()),
    }
}

/// Compares convolutions.
///
/// # Errors
/// They differ.
pub fn convolutions_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for (shape, window) in [
        ([7, 9], [3, 5]),
        ([1, 20], [1, 4]),
        ([3, 3], [7, 7]),
        ([1, 1], [1, 1]),
    ] {
        let [rows, columns] = shape.map(|it: usize| it as isize);
        let [down, across] = window.map(|it: usize| it as isize);
        let x: Vec<i32> = words(1, shape[0] * shape[1])
            .iter()
            .map(|it| *it as i32 % 50)
            .collect();
        let weights: Vec<i32> = words(2, window[0] * window[1])
            .iter()
            .map(|it| *it as i32 % 9)
            .collect();
        for edge in [Edge::Zero, Edge::Nearest, Edge::Wrap] {
            let at = |place: isize, len: isize| match edge {
                Edge::Zero => (0..len).contains(&place).then_some(place),
                Edge::Nearest => Some(place.clamp(0, len - 1)),
                Edge::Wrap => Some(place.rem_euclid(len)),
            };
            let sum = |i: isize| {
                let terms = (0..down * across).filter_map(|w| {
                    let row = at(i / columns + w / across - down / 2, rows)?;
                    let column = at(i % columns + w % across - across / 2, columns)?;
                    Some(weights[w as usize] * x[(row * columns + column) as usize])
                });
                terms.sum()
            };
            let expected: Vec<i32> = (0..rows * columns).map(sum).collect();
            let (x, weights) = (stream.create(&x)?, stream.create(&weights)?);
            let y = kernels::convolve(&stream, shape, &x, window, &weights, edge)?;
            equal(&format!("{edge:?}"), &read(&stream, &y)?, &expected)?;
        }
    }
    Ok(())
}

/// Compares random numbers with the published ones and with their distributions.
///
/// # Errors
/// They differ.
pub fn randoms_match(device: &Device) -> Checked {
    let (stream, seed) = (device.new_stream(), 0x0123_4567_89ab_cdef);
    let given = read(&stream, &kernels::random_bits(&stream, 0, 5)?)?;
    // The first four are those of the authors' test, `kat_vectors`.
    equal(
        "words",
        &given[..4],
        &[0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
    )?;
    for len in [0, 1, 7, 3000] {
        let words = read(&stream, &kernels::random_bits(&stream, seed, len)?)?;
        let units = read(&stream, &kernels::uniform(&stream, seed, len)?)?;
        let expected: Vec<f32> = words
            .iter()
            .map(|it| (it >> 8) as f32 / (1 << 24) as f32)
            .collect();
        equal("units", &units, &expected)?;
        let normals = read(&stream, &kernels::normal(&stream, seed, len)?)?;
        equal("length", &[normals.len()], &[len])?;
        if len == 3000 {
            let mean = |of: fn(&f32) -> f64| normals.iter().map(of).sum::<f64>() / 3000.0;
            let moments = [
                mean(|x| (*x).into()),
                mean(|x| f64::from(*x).powi(2)),
                mean(|x| f64::from(*x).powi(4)),
            ];
            // Four standard errors.
            near(
                "moments",
                &moments.map(|it| it as f32),
                &[0.0, 1.0, 3.0],
                0.24,
            )?;
        }
    }
    Ok(())
}
