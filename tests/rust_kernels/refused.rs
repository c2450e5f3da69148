//! Kernels that rustc accepts and no device can run.

use millstream::prelude::*;
use millstream::sim::Sim;
use millstream::{Cpu, Error};
use rstest::rstest;

/// Calls itself twice, by way of `down`.
#[kernel]
fn up(n: u32) -> u32 {
    if n > 100 {
        n
    } else {
        down(n + 1) + down(n + 2)
    }
}

#[kernel]
fn down(n: u32) -> u32 {
    up(n)
}

#[kernel]
fn climb(y: &mut [u32]) {
    let i = thread();
    y[i] = up(y[i]);
}

#[rstest]
fn recursion_by_way_of_others_is_an_error_of_the_launch(#[values("cpu", "sim")] backend: &str) {
    let device = match backend {
        "cpu" => Device::open(Cpu::default()),
        _ => Device::open(Sim::seed(1)),
    }
    .unwrap();
    let stream = device.new_stream();
    let mut y = stream.create(&[1, 2, 3]).unwrap();
    let error = climb(&mut y).launch_each(&stream).unwrap_err();
    assert!(matches!(error, Error::Kernel { .. }), "{error:?}");
    let text = error.to_string();
    let expected = "calls helper functions that call each other more than 64 deep";
    assert!(
        text.contains("`climb`") && text.contains(expected),
        "{text}"
    );
}

/// rustc warns of a kernel that is never used. If it did not, it would warn here: the lints of CI refuse that.
#[kernel]
#[expect(dead_code, reason = "nothing launches it")]
fn never_used(x: &mut [f32]) {
    x[thread()] = 1.0;
}
