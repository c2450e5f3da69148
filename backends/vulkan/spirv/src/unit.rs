//! The module under construction, with the target that it is for.

use millstream_ir::DType;
use millstream_ir::ssa::Memory;

use crate::Target;
use crate::emit::Emit;
use crate::routines::Routines;

/// The module: what all functions of it share.
pub(crate) struct Unit {
    pub(crate) emit: Emit,
    pub(crate) target: Target,
    pub(crate) routines: Routines,
}

impl Unit {
    /// Returns the type as which elements of this memory are added to: their own if the device adds to it by one instruction,
    /// else unsigned integers, since floats are then added by compare-and-exchange of their bits.
    pub(crate) fn added_as(&self, memory: Memory, dtype: DType) -> DType {
        match (dtype, self.target.features.adds(memory, dtype)) {
            (DType::F32, false) => DType::U32,
            (DType::F64, false) => DType::U64,
            _ => dtype,
        }
    }
}
