//! For tests of the IR: parses the texts that nests print (`Display`), which are fixtures, and runs nests and products
//! by their [definition](naive). What was parsed is not checked: call [`Nest::check`](millstream_ir::Nest::check).

pub mod naive;
mod nest;

pub use nest::nest;
