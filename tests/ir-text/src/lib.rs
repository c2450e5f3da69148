//! For tests of the IR: parses nests and functions, which are fixtures as text, and runs nests and products by their
//! [definition](naive). What was parsed is not checked: call [`Nest::check`](millstream_ir::Nest::check) or
//! [`Function::check`](millstream_ir::ssa::Function::check).

mod function;
pub mod naive;
mod nest;
mod scanner;

pub use function::function;
use millstream_ir::nest::BufferMode;
pub use nest::nest;
pub use scanner::TextError;

/// All modes.
const MODES: [BufferMode; 3] = [BufferMode::Read, BufferMode::Write, BufferMode::Update];
