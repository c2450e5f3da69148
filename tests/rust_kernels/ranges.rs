//! Ranges that end where their type ends.

use millstream::Cpu;
use millstream::prelude::*;
use millstream::sim::Sim;
use rstest::rstest;

/// Stores how many integers each range has, and their sum.
#[kernel]
fn ranges(end: u64, last: i64, counts: &mut [u64], sums: &mut [u64]) {
    for i in 18446744073709551610_u64..end {
        counts[0] += 1;
        sums[0] += i;
    }
    for i in 18446744073709551610_u64..=end {
        counts[1] += 1;
        sums[1] += i;
    }
    for i in (18446744073709551610_u64..end).rev() {
        counts[2] += 1;
        sums[2] = 3 * sums[2] + i;
    }
    for i in (9223372036854775800_i64..last).step_by(3) {
        counts[3] += 1;
        sums[3] += i as u64;
    }
    for i in 9223372036854775805_i64..=last {
        counts[4] += 1;
        sums[4] += i as u64;
    }
    for i in 9223372036854775800_u64..9223372036854775811 {
        counts[5] += 1;
        sums[5] += i;
    }
}

/// As `ranges`, with bounds and steps that no constants are.
#[kernel]
fn computed(bounds: [u64; 2], signed: [i64; 2], step: u64, counts: &mut [u64], sums: &mut [u64]) {
    let (from, end) = (bounds[0], bounds[1]);
    for i in from..end {
        counts[0] += 1;
        sums[0] += i;
    }
    for i in from..=end {
        counts[1] += 1;
        sums[1] += i;
    }
    for i in (from..end).rev() {
        counts[2] += 1;
        sums[2] = 3 * sums[2] + i;
    }
    for i in signed[0]..=signed[1] {
        counts[3] += 1;
        sums[3] += i as u64;
    }
    for i in end..from {
        counts[4] += i;
    }
    for i in (u64::MAX - 5..end).step_by(2) {
        counts[5] += 1;
        sums[5] += i;
    }
    for i in (0..u64::MAX).step_by(1 << 62) {
        counts[6] += 1;
        sums[6] += i;
    }
    // The index would pass the greatest one.
    for _ in (3..u64::MAX).step_by(step) {
        counts[7] += 1;
    }
}

#[rstest]
fn computed_ranges_may_end_where_their_type_ends(#[values("cpu", "sim")] backend: &str) {
    let device = match backend {
        "cpu" => Device::open(Cpu::default()),
        _ => Device::open(Sim::seed(1)),
    }
    .unwrap();
    let stream = device.new_stream();
    let (mut counts, mut sums) = (
        stream.create(&[0; 8]).unwrap(),
        stream.create(&[0; 8]).unwrap(),
    );
    let (from, near) = (u64::MAX - 5, i64::MAX);
    let call = computed(
        [from, u64::MAX],
        [near - 2, near],
        1 << 61,
        &mut counts,
        &mut sums,
    );
    call.launch(&stream, 1).unwrap();
    let counted = stream.read(&counts).wait().unwrap();
    assert_eq!(counted[..7], [5, 6, 5, 3, 0, 3, 4]);
    // Of 8, those whose next index is below 2^63.
    assert!(counted[7] == if backend == "cpu" { 8 } else { 3 });
    let sum = |all: std::ops::Range<u64>| all.fold(0, u64::wrapping_add);
    let expected = [
        sum(from..u64::MAX),
        sum(from..u64::MAX).wrapping_add(u64::MAX),
        (from..u64::MAX)
            .rev()
            .fold(0, |sum: u64, i| sum.wrapping_mul(3).wrapping_add(i)),
        sum(near as u64 - 2..near as u64 + 1),
        0,
        (from..u64::MAX).step_by(2).fold(0, u64::wrapping_add),
        (0..4).fold(0, |sum: u64, i| sum.wrapping_add(i << 62)),
        0,
    ];
    assert_eq!(stream.read(&sums).wait().unwrap(), expected);
}

#[rstest]
fn ranges_may_end_where_their_type_ends(#[values("cpu", "sim")] backend: &str) {
    let device = match backend {
        "cpu" => Device::open(Cpu::default()),
        _ => Device::open(Sim::seed(1)),
    }
    .unwrap();
    let stream = device.new_stream();
    let (mut counts, mut sums) = (
        stream.create(&[0; 6]).unwrap(),
        stream.create(&[0; 6]).unwrap(),
    );
    let launched = ranges(u64::MAX, i64::MAX, &mut counts, &mut sums).launch(&stream, 1);
    launched.unwrap();
    let counted = stream.read(&counts).wait().unwrap();
    assert_eq!(counted, [5, 6, 5, 3, 3, 11]);
    let sum = |all: std::ops::Range<u64>| all.fold(0, u64::wrapping_add);
    let (far, near) = (u64::MAX - 5, i64::MAX as u64);
    let expected = [
        sum(far..u64::MAX),
        sum(far..u64::MAX).wrapping_add(u64::MAX),
        (far..u64::MAX)
            .rev()
            .fold(0, |sum: u64, i| sum.wrapping_mul(3).wrapping_add(i)),
        (near - 7..near).step_by(3).fold(0, u64::wrapping_add),
        sum(near - 2..near + 1),
        sum(near - 7..near + 4),
    ];
    assert_eq!(stream.read(&sums).wait().unwrap(), expected);
}
