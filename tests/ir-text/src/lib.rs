//! Parses the texts that nests print (`Display`), for fixtures of tests. The result is not checked: call
//! [`Nest::check`](millstream_ir::Nest::check).

mod nest;

pub use nest::nest;
