//! Stub.
mod target;
pub use target::*;
/// Parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parameters {
    /// Pushed.
    Pushed,
    /// Spilled.
    Spilled,
}
/// Module.
pub struct Module {
    /// Words.
    pub words: Vec<u32>,
    /// Parameters.
    pub parameters: Parameters,
    /// Bytes.
    pub parameter_bytes: u32,
}
/// Lower.
pub fn lower(_f: &millstream_ir::ssa::Function, _t: &Target) -> Result<Module, LowerError> {
    unimplemented!()
}
