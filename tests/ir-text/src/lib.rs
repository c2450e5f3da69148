//! Parses the texts that programs of the IR print (`Display`), for fixtures of tests. The result is not checked: call
//! [`Function::check`](millstream_ir::ssa::Function::check) or [`Nest::check`](millstream_ir::Nest::check).

mod function;
mod nest;
mod scanner;

pub use function::function;
pub use nest::nest;
pub use scanner::TextError;
