//! Rust as people write it every day: loops with values, closures, patterns, constants of a body, and short forms.

use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// A helper function whose parameters change, and whose loop never ends but by `return`.
#[kernel]
pub fn gcd(mut a: u32, mut b: u32) -> u32 {
    loop {
        if b == 0 {
            return a;
        }
        (a, b) = (b, a % b);
    }
}

/// Steps of Collatz' sequence, of two numbers in one loop; and the first of them that a condition holds for.
#[kernel]
pub fn loops(mut most: u32, x: &[u32], steps: &mut [u32], first: &mut [u32]) {
    let i = thread();
    most += 1;
    let mut value = x[i];
    let mut count = 0;
    steps[i] = loop {
        if value <= 1 {
            break count;
        }
        value = if value % 2 == 0 {
            value / 2
        } else if count == most {
            break 1000 + most;
        } else {
            3 * value + 1
        };
        count += 1;
    };
    let (row, column) = 'rows: loop {
        let mut row = 0;
        loop {
            for column in 0..8 {
                if row * column == x[i] {
                    break 'rows (row, column);
                }
            }
            row += 1;
            if row > 8 {
                break 'rows (100, gcd(x[i], 12));
            }
        }
    };
    first[i] = 1000 * row + column;
}

/// Compares `loops` with plain Rust.
///
/// # Errors
/// They differ.
pub fn loops_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x: Vec<u32> = (0..100).chain([871, 6171, 77_031]).collect();
    let of_steps = |x: &u32| {
        let (mut value, mut count) = (*x, 0);
        while value > 1 {
            if value % 2 != 0 && count == 41 {
                return 1041;
            }
            value = if value % 2 == 0 {
                value / 2
            } else {
                3 * value + 1
            };
            count += 1;
        }
        count
    };
    let of_first = |x: &u32| {
        let all = (0..=8).flat_map(|row| (0..8).map(move |column| (row, column)));
        let mut found = all.filter(|(row, column)| row * column == *x);
        let (row, column) = found.next().unwrap_or((100, gcd(*x, 12)));
        1000 * row + column
    };
    let (expected, expected_first): (Vec<u32>, Vec<u32>) = (
        x.iter().map(of_steps).collect(),
        x.iter().map(of_first).collect(),
    );
    let (mut steps, mut first) = (
        stream.create(&vec![0; x.len()])?,
        stream.create(&vec![0; x.len()])?,
    );
    loops(40, &stream.create(&x)?, &mut steps, &mut first).launch_each(&stream)?;
    equal("steps", &stream.read(&steps).wait()?, &expected)?;
    equal("first", &stream.read(&first).wait()?, &expected_first)
}

/// Closures: with types and without, that capture values and variables, call others, store, and are called in branches.
#[kernel]
pub fn closures(scale: f32, x: &[f32], y: &mut [f32], mut count: u32) {
    let i = thread();
    let square = |x: f32| x * x;
    let scaled = |x| scale * square(x);
    let mut sum = 0.0;
    let mut add = |x: f32, mut times: u32| {
        while times > 0 {
            sum += x;
            times -= 1;
        }
    };
    add(scaled(x[i]), 2);
    if x[i] > 0.5 {
        add(1.0, 3);
    }
    let larger = |a: f32, b: f32| -> f32 { if a > b { a } else { b } };
    let pair = |(a, b): (f32, f32), _: u32| (b, larger(a, b));
    let (low, high) = pair((sum, x[i]), 7);
    count += 1;
    y[i] = low + 2.0 * high + count as f32;
}

/// Compares `closures` with plain Rust.
///
/// # Errors
/// They differ.
pub fn closures_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x = uniform(1, 100);
    let of = |x: &f32| {
        let scaled = 3.0 * (x * x);
        let sum = scaled + scaled;
        let sum = if *x > 0.5 { sum + 1.0 + 1.0 + 1.0 } else { sum };
        x + 2.0 * sum.max(*x) + 5.0
    };
    let expected: Vec<f32> = x.iter().map(of).collect();
    let mut y = stream.create(&vec![0.0; x.len()])?;
    closures(3.0, &stream.create(&x)?, &mut y, 4).launch_each(&stream)?;
    equal("y", &stream.read(&y).wait()?, &expected)
}

/// Letters in the other case.
#[kernel]
pub fn swap_case(text: &[u8], out: &mut [u8]) {
    const GAP: u8 = b'_';
    let i = thread();
    out[i] = match text[i] {
        lower @ b'a'..=b'z' => lower - 32,
        upper @ (b'A' | b'B'..=b'Z') => upper + (b'a' - b'A'),
        b' ' | b'\t' => GAP,
        digit if matches!(digit, b'0'..=b'9') => b'#',
        other => other,
    };
}

/// Compares `swap_case` with plain Rust.
///
/// # Errors
/// They differ.
pub fn letters_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let text: Vec<u8> = (0..=255).collect();
    let of = |letter: &u8| match letter {
        b' ' | b'\t' => b'_',
        letter if letter.is_ascii_digit() => b'#',
        letter if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
        letter => letter.to_ascii_lowercase(),
    };
    let expected: Vec<u8> = text.iter().map(of).collect();
    let mut out = stream.create(&vec![0_u8; text.len()])?;
    swap_case(&stream.create(&text)?, &mut out).launch_each(&stream)?;
    equal("letters", &stream.read(&out).wait()?, &expected)
}

/// An element of a buffer.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Its place.
    pub place: [f32; 2],
    /// Its colors.
    pub color: [u8; 4],
}

#[kernel]
impl Sample {
    /// A method with the name of one of buffers.
    fn is_empty(self) -> bool {
        self.color[3] == 5
    }
}

/// Patterns, conversions, swaps and functions of types.
#[kernel]
pub fn short_forms(samples: &mut [Sample], keys: &mut [u32], none: &[f32], results: &mut [f32]) {
    use std::f32::consts::PI;
    const HALF: f32 = PI / 2.0;
    const EDGES: [u32; 3] = [3, 6, 9];
    let i = thread();
    if !none.is_empty() || !(..samples.len()).contains(&i) {
        return;
    }
    let sample = samples[i];
    let Sample {
        place: [x, mut y],
        color,
    } = sample;
    let ([red, _, blue, _], whole) = (color, u32::from(color[1]));
    y += f32::from(red) + f32::max(x, HALF).min(f32::from_bits(0x4000_0000));
    let wide: f64 = x.into();
    let (mut low, mut high) = (keys[2 * i], keys[2 * i + 1]);
    if low > high {
        keys.swap(2 * i, 2 * i + 1);
        std::mem::swap(&mut low, &mut high);
    }
    let mut order = 0;
    let mut next = |digit: u32| {
        order = 10 * order + digit;
        digit
    };
    let in_order = (next(1)..next(5)).contains(&next(3)) && !(next(6)..).contains(&next(2));
    let is_inside = (EDGES[0]..EDGES[1]).contains(&low) || (EDGES[1]..=EDGES[2]).contains(&high);
    let more = if sample.is_empty() { 8.0 } else { 0.0 };
    let order = if in_order { order as f32 } else { 0.0 };
    results[i] = order
        + more
        + y
        + f32::from(is_inside)
        + u32::abs_diff(low, whole) as f32
        + (wide * 4.0) as f32;
    samples[i].color.swap(1, 3);
    samples[i].place = [f32::from(blue), if cfg!(any()) { 1.0 } else { 2.0 }];
}

/// Compares `short_forms` with plain Rust.
///
/// # Errors
/// They differ.
pub fn short_forms_match(device: &Device) -> Checked {
    let (stream, len) = (device.new_stream(), 60_u8);
    let of = |i: u8| Sample {
        place: [f32::from(i) / 16.0, 0.5],
        color: [i, i + 1, i + 2, i + 3],
    };
    let samples: Vec<Sample> = (0..len).map(of).collect();
    let keys: Vec<u32> = (0..2 * u32::from(len)).map(|i| i * 7 % 13).collect();
    let (mut sorted, mut expected) = (Vec::new(), Vec::new());
    for (i, sample) in (0..len).zip(&samples) {
        let pair = &keys[2 * usize::from(i)..][..2];
        let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        sorted.extend([low, high]);
        let x = sample.place[0];
        let y = 0.5 + (f32::from(i) + x.clamp(std::f32::consts::FRAC_PI_2, 2.0));
        let is_inside = (3..6).contains(&low) || (6..=9).contains(&high);
        let distance = low.abs_diff(u32::from(i) + 1) as f32;
        let more = if i == 2 { 8.0 } else { 0.0 };
        expected.push(15_362.0 + more + y + f32::from(is_inside) + distance + 4.0 * x);
    }
    let after = |i: u8| Sample {
        place: [f32::from(i + 2), 2.0],
        color: [i, i + 3, i + 2, i + 1],
    };
    let (mut our_samples, mut our_keys) = (stream.create(&samples)?, stream.create(&keys)?);
    let (none, mut results) = (
        stream.create::<f32>(&[])?,
        stream.create(&vec![0.0; samples.len()])?,
    );
    short_forms(&mut our_samples, &mut our_keys, &none, &mut results)
        .launch(&stream, samples.len() + 3)?;
    equal("results", &stream.read(&results).wait()?, &expected)?;
    equal("keys", &stream.read(&our_keys).wait()?, &sorted)?;
    let after: Vec<Sample> = (0..len).map(after).collect();
    equal("samples", &stream.read(&our_samples).wait()?, &after)
}

/// The same in threads that work together, which have the traced form alone.
#[kernel(cube = 32)]
pub fn in_cubes(x: &mut [u32]) {
    const WIDTH: usize = 32;
    let mut part = shared::<u32, WIDTH>();
    let (i, mine) = (thread(), thread_in_cube());
    let of = |at: usize| if at < x.len() { x[at] } else { 0 };
    part[mine] = of(i);
    barrier();
    // Each pair by one of its threads.
    if mine % 2 == 0 && part[mine] > part[mine + 1] {
        part.swap(mine, mine + 1);
    }
    barrier();
    let [first, last] = [part[mine & !1], part[mine | 1]];
    let steps = loop {
        if matches!(gcd(first, last), 0 | 1) {
            break u32::from(true);
        }
        break 2;
    };
    if !(x.len()..).contains(&i) {
        x[i] = 10 * part[mine] + steps;
    }
}

/// Compares `in_cubes` with plain Rust.
///
/// # Errors
/// They differ.
pub fn cubes_match(device: &Device) -> Checked {
    let (stream, len) = (device.new_stream(), 70);
    let x: Vec<u32> = (0..len).map(|i| i * 11 % 17).collect();
    let pairs = x.chunks(2).flat_map(|pair| {
        let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let steps = if gcd(low, high) <= 1 { 1 } else { 2 };
        [10 * low + steps, 10 * high + steps]
    });
    let expected: Vec<u32> = pairs.collect();
    let mut ours = stream.create(&x)?;
    in_cubes(&mut ours).launch_each(&stream)?;
    equal("x", &stream.read(&ours).wait()?, &expected)
}
