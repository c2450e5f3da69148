//! Functions in plain arithmetic, without calls or branches, so that loops over them vectorize.
//!
//! Most functions have a fast path for *usual* values and a form for all values, so that a tile of usual values, as
//! most are, does not pay for special cases. Errors are below two units in the last place (`tests` sweep over them).

pub mod f32;
pub mod f64;
pub mod power;

use crate::level::Arithmetic;
use millstream_ir::scalar::arith::Number;

/// Evaluates a polynomial with these coefficients, the highest first.
#[inline(always)]
fn polynomial<A: Arithmetic, T: Number>(coefficients: &[T], x: T) -> T {
    let mut p = coefficients[0];
    for coefficient in &coefficients[1..] {
        p = A::mul_add(p, x, *coefficient);
    }
    p
}
