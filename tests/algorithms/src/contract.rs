//! Kernels that may contract, and kernels that may not: what a product loses by its rounding says which was done.

use std::error::Error;

use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// What a product loses by its rounding, if the device fuses the difference; else zero.
#[kernel(contract)]
pub fn roundings(x: &[f32], products: &[f32], #[whole] rest: &mut [f32]) {
    let i = thread();
    rest[i] = x[i] * x[i] - products[i];
}

/// The same in a kernel that may not fuse it.
#[kernel]
pub fn no_roundings(x: &[f32], products: &[f32], #[whole] rest: &mut [f32]) {
    let i = thread();
    rest[i] = x[i] * x[i] - products[i];
}

/// Returns what `roundings` stores, or `no_roundings`, and what each element is if it is fused.
///
/// # Errors
/// A launch fails.
pub fn fused(device: &Device, may_contract: bool) -> Result<[Vec<f32>; 2], Box<dyn Error>> {
    let stream = device.new_stream();
    let x = uniform(1, 1000);
    let products: Vec<f32> = x.iter().map(|x| x * x).collect();
    let fused = x
        .iter()
        .zip(&products)
        .map(|(x, product)| x.mul_add(*x, -product));
    let fused = fused.collect();
    let mut rest = stream.empty(x.len())?;
    let (x, products) = (stream.create(&x)?, stream.create(&products)?);
    match may_contract {
        true => roundings(&x, &products, &mut rest).launch_each(&stream)?,
        false => no_roundings(&x, &products, &mut rest).launch_each(&stream)?,
    }
    Ok([stream.read(&rest).wait()?, fused])
}

/// Compares a kernel that may contract with plain Rust: each difference is rounded once or twice.
///
/// # Errors
/// They differ.
pub fn contractions_match(device: &Device) -> Checked {
    let [rest, fused] = fused(device, true)?;
    let once_or_twice: Vec<f32> = rest
        .iter()
        .zip(&fused)
        .map(|(rest, fused)| if *rest == 0.0 { 0.0 } else { *fused })
        .collect();
    equal("rest", &rest, &once_or_twice)?;
    let [rest, _] = self::fused(device, false)?;
    equal("rest of twice", &rest, &vec![0.0; rest.len()])
}
