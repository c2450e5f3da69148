//! Functions in plain arithmetic, without calls or branches, so that loops over them vectorize.
//!
//! Each comes as what it is for *usual* values, and as what it is for all; a tile of usual values, which is most of
//! them, pays for nothing else. Errors are below two units in the last place (`tests` sweep over them).

pub(crate) mod f32;
pub(crate) mod f64;
pub(crate) mod power;

#[cfg(test)]
mod tests;
