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
