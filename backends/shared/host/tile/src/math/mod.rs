//! Functions in plain arithmetic, without calls or branches, so that loops over them vectorize.
//!
//! Most functions have a fast path for *usual* values and a form for all values, so that a tile of usual values, as
//! most are, does not pay for special cases. Errors are below two units in the last place (`tests` sweep over them).

pub(crate) mod f32;
pub(crate) mod f64;
pub(crate) mod power;

#[cfg(test)]
mod tests;
