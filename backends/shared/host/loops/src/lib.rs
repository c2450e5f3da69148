//! What loops over numbers on a CPU are made of. Two executors of programs have loops of their own, which this crate
//! compiles none of: `millstream-tile` and `millstream-lockstep`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`level`] | the instruction sets of the processor; compiling a loop for each |
//! | [`math`] | functions of floats that vectorize |
//! | [`half`] | halves, converted by arithmetic that vectorizes |

pub mod half;
pub mod level;
pub mod math;
