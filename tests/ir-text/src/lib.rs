//! For tests of the IR: parses nests, which are fixtures as text, and runs nests and products by their
//! [definition](naive), and SSA functions by [threads]. What was parsed is not checked: call [`Nest::check`](millstream_ir::Nest::check).

pub mod naive;
mod nest;
pub mod threads;

pub use nest::nest;
