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
    /// Returns `true` if the device adds to this memory by one instruction.
    pub(crate) fn adds_natively(&self, memory: Memory, dtype: DType) -> bool {
        let features = &self.target.features;
        let is_shared = matches!(memory, Memory::Shared(_));
        match (dtype, is_shared) {
            (DType::F32, false) => features.buffer_f32_atomic_add,
            (DType::F32, true) => features.shared_f32_atomic_add,
            (DType::F64, false) => features.buffer_f64_atomic_add,
            (DType::F64, true) => features.shared_f64_atomic_add,
            _ => true,
        }
    }
}
