//! For tests of the IR: parses nests, which are fixtures as text, and runs nests and products by their
//! [definition](naive). What was parsed is not checked: call [`Nest::check`](millstream_ir::Nest::check).

pub mod naive;
mod nest;

pub use nest::nest;
