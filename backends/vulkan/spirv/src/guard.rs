//! Accesses of checked functions: out of bounds, a load is zeros, a store does nothing, and an atomic operation neither,
//! whose value is zero.

use millstream_ir::DType;
use millstream_ir::ssa::{Memory, Type, ValueId};
use spirv::{Op, Word};

use crate::LowerError;
use crate::body::Body;

impl Body<'_> {
    /// Lowers an access with a value of this type, by `access`.
    pub(crate) fn guarded_value(
        &mut self,
        (memory, at): (Memory, Option<ValueId>),
        of: Type,
        access: impl FnOnce(&mut Self) -> Result<Vec<Word>, LowerError>,
    ) -> Result<Vec<Word>, LowerError> {
        let Some(within) = self.within(memory, at, of.lanes) else {
            return access(self);
        };
        let zero = self.constant(of.dtype, 0);
        let emit = &mut self.unit.emit;
        let (before, [inside, merge]) = (emit.label(), [0; 2].map(|_| emit.id()));
        emit.selection(merge);
        emit.branch_if(within, inside, merge);
        emit.open(inside);
        let mut lanes = access(self)?;
        let emit = &mut self.unit.emit;
        let (inside, of) = (emit.label(), emit.of(of.dtype));
        emit.branch(merge);
        emit.open(merge);
        for lane in &mut lanes {
            let loaded = std::mem::replace(lane, emit.id());
            emit.phi(*lane, of, [(loaded, inside), (zero, before)]);
        }
        Ok(lanes)
    }

    /// Lowers a store, by `access`.
    pub(crate) fn guarded(
        &mut self,
        (memory, at): (Memory, Option<ValueId>),
        lanes: u8,
        access: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let Some(within) = self.within(memory, at, lanes) else {
            return access(self);
        };
        let emit = &mut self.unit.emit;
        let [inside, merge] = [0; 2].map(|_| emit.id());
        emit.selection(merge);
        emit.branch_if(within, inside, merge);
        emit.open(inside);
        access(self)?;
        let emit = &mut self.unit.emit;
        emit.branch(merge);
        emit.open(merge);
        Ok(())
    }

    /// Returns whether all lanes of an access are within bounds, as a value; `None` if that is not checked, or known.
    fn within(&mut self, memory: Memory, at: Option<ValueId>, lanes: u8) -> Option<Word> {
        if !self.function.checked {
            return None;
        }
        let array_len = |index: u16, arrays: &[millstream_ir::ssa::Array]| {
            u64::from(arrays[usize::from(index)].len)
        };
        let known = match memory {
            Memory::Param(_) => None,
            Memory::Shared(index) => Some(array_len(index, &self.function.shared)),
            Memory::Local(index) => Some(array_len(index, &self.function.locals)),
            Memory::Table(index) => {
                Some(self.function.tables[usize::from(index)].bits.len() as u64)
            }
        };
        let at = match at {
            Some(at) => self.get(at, 0),
            None => self.constant(DType::I64, 0),
        };
        let bits = self.bits_of(at);
        let len = match (memory, known) {
            (_, Some(len)) => {
                let left = bits.and_then(|at| len.checked_sub(at));
                if left.is_some_and(|left| left >= lanes.into()) {
                    return None;
                }
                self.constant(DType::U64, len)
            }
            (Memory::Param(index), _) => {
                let len = self.function.params[usize::from(index)].len?;
                self.scalar(len, DType::U64)
            }
            _ => return None,
        };
        // As an unsigned number, a negative index is beyond every length.
        let starts = self.op(Op::ULessThan, DType::Bool, &[at, len]);
        if lanes == 1 {
            return Some(starts);
        }
        let left = self.op(Op::ISub, DType::U64, &[len, at]);
        let lanes = self.constant(DType::U64, lanes.into());
        let fits = self.op(Op::UGreaterThanEqual, DType::Bool, &[left, lanes]);
        Some(self.op(Op::LogicalAnd, DType::Bool, &[starts, fits]))
    }
}
