//! Assertions and prints, which the CPU and the simulator execute. Other devices skip assertions, and refuse to print.

use millstream::device::Feature;
use millstream::error::KernelError;
use millstream::prelude::*;

use crate::{Checked, equal};

/// Adds twice, and asserts on the way.
#[kernel]
pub fn asserts(x: &[i32], y: &mut [i32]) {
    let i = thread();
    debug_assert!(x[i] < 100, "x[{i}] = {}", x[i]);
    debug_assert_eq!(x.len(), y.len());
    for step in 0..2 {
        debug_assert_ne!(step, 2, "{step} of {count:>3}", count = 2);
        y[i] += x[i];
    }
}

/// Runs `asserts` with numbers for which the assertions hold, and where they are not checked with one for which they do not.
///
/// # Errors
/// The results are wrong.
pub fn asserts_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x: Vec<i32> = (-150..100).collect();
    let expected: Vec<i32> = x.iter().map(|x| 7 + 2 * x).collect();
    let given = stream.create(&x)?;
    let mut y = stream.create(&[7; 250])?;
    asserts(&given, &mut y).launch_each(&stream)?;
    equal("asserts", &stream.read(&y).wait()?, &expected)?;
    if device.properties().has(Feature::Printing) {
        return Ok(());
    }
    // Not checked, as on every GPU.
    let mut y = stream.create(&[7; 1])?;
    asserts(&stream.create(&[100])?, &mut y).launch_each(&stream)?;
    equal("asserts", &stream.read(&y).wait()?, &[207])
}

/// Prints some of its numbers.
#[kernel]
pub fn prints(x: &[i32]) {
    let i = thread();
    if x[i] % 2 == 0 {
        println!("{:?} {i:>3}", x[i]);
    }
}

/// Runs `prints`.
///
/// # Errors
/// The lines are others, or a device that cannot print does not say so.
pub fn prints_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x = stream.create(&[3, 4, -6, 5])?;
    let launched = prints(&x).launch(&stream, x.len());
    if !device.properties().has(Feature::Printing) {
        return match launched {
            Err(millstream::Error::Kernel(KernelError::Feature { .. })) => Ok(()),
            other => Err(format!("expected a refusal, got {other:?}").into()),
        };
    }
    launched?;
    let lines = stream.printed().wait()?;
    let texts: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
    match texts[..] {
        ["4   1", "-6   2"] => Ok(()),
        _ => Err(format!("{texts:?}").into()),
    }
}
