//! What loops over numbers on a CPU are made of. Two executors of programs have loops of their own, which this crate
//! compiles none of: `millstream-tile` and `millstream-lockstep`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`level`] | the instruction sets of the processor; compiling a loop for each |
//! | [`math`] | functions of floats that vectorize |
//! | [`operation`] | operations on one, two or three values, and loops over them |
//! | [`cast`] | casts |
//! | [`truth`] | bools |
//! | [`half`] | halves, converted by arithmetic that vectorizes |

pub mod cast;
pub mod half;
pub mod level;
pub mod math;
pub mod operation;
pub mod truth;
