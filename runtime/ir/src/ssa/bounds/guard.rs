//! The check of one access: whether it is needed, what its index is compared with, and the variable for what is loaded.

use super::Guards;
use crate::ssa::{Array, Block, Memory, Op, Type, ValueId};
use crate::{BinaryOp, CompareOp, DType};

impl Guards<'_> {
    /// Computes whether an access is within bounds; `None` if it is known to be.
    pub(super) fn guard(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        lanes: u8,
        out: &mut Block,
    ) -> Option<ValueId> {
        if self.is_within(memory, at, lanes) {
            return None;
        }
        let limit = self.limit(memory, lanes);
        let of = DType::U64.into();
        let index = match at {
            Some(at) => self.emit(of, Op::Bits(self.named(at)), out),
            None => self.emit(of, Op::Const(0), out),
        };
        let is_less = Op::Compare(CompareOp::Lt, index, limit);
        Some(self.emit(DType::Bool.into(), is_less, out))
    }

    /// Returns whether an access is known to be within bounds.
    fn is_within(&mut self, memory: Memory, at: Option<ValueId>, lanes: u8) -> bool {
        let number = self.len_word(memory).map(|word| self.facts.word(word));
        let least = match number {
            Some(number) => self.facts.range_of(number).least,
            None => self.array_len(memory),
        };
        let Some(at) = at else {
            return least >= lanes.into();
        };
        let last = self.facts.most(at).checked_add(u64::from(lanes) - 1);
        let is_less = number.is_some_and(|len| self.facts.is_less(self.facts.number(at), len));
        last.is_some_and(|last| last < least)
            || (is_less && lanes == 1)
            || self.is_within_by_test(memory, at, lanes)
    }

    /// Returns the launch word with the length of a buffer.
    fn len_word(&self, memory: Memory) -> Option<u16> {
        match memory {
            Memory::Param(param) => self.from.params[usize::from(param)].len,
            Memory::Shared(_) | Memory::Local(_) | Memory::Table(_) => None,
        }
    }

    fn array_len(&self, memory: Memory) -> u64 {
        let array = match memory {
            // Every buffer of a checked function has a length.
            Memory::Param(_) => return 0,
            Memory::Shared(shared) => &self.from.shared[usize::from(shared)],
            Memory::Local(local) => &self.from.locals[usize::from(local)],
            Memory::Table(table) => {
                return self.from.tables[usize::from(table)].bits.len() as u64;
            }
        };
        array.len.into()
    }

    /// Returns what the index of an access is below if all its lanes are within bounds.
    pub(super) fn limit(&mut self, memory: Memory, lanes: u8) -> ValueId {
        if let Some(limit) = self.limits.get(&(memory, lanes)) {
            return *limit;
        }
        let (of, others) = (Type::one(DType::U64), u64::from(lanes) - 1);
        let mut first = std::mem::take(&mut self.first);
        let limit = match self.len_word(memory) {
            None => {
                let len = self.array_len(memory).saturating_sub(others);
                self.emit(of, Op::Const(len), &mut first)
            }
            Some(word) => {
                let mut limit = self.emit(of, Op::Scalar(word), &mut first);
                if others > 0 {
                    let others = self.emit(of, Op::Const(others), &mut first);
                    for op in [BinaryOp::Max, BinaryOp::Sub] {
                        limit = self.emit(of, Op::Binary(op, limit, others), &mut first);
                    }
                }
                limit
            }
        };
        self.first = first;
        self.limits.insert((memory, lanes), limit);
        limit
    }

    pub(super) fn zero(&mut self, of: Type) -> ValueId {
        if let Some(zero) = self.zeros.get(&of) {
            return *zero;
        }
        let mut first = std::mem::take(&mut self.first);
        let zero = self.emit(of, Op::Const(0), &mut first);
        self.first = first;
        self.zeros.insert(of, zero);
        zero
    }

    /// Returns the variable for what a load of this type gives.
    pub(super) fn loaded(&mut self, of: Type) -> Memory {
        if let Some(local) = self.loaded.get(&of) {
            return Memory::Local(*local);
        }
        let Type { dtype, lanes } = of;
        let mut name = format!("guard_{dtype}_{lanes}");
        let to = &mut self.to;
        let arrays = to.shared.iter().chain(&to.locals).map(|array| &array.name);
        let others = to.params.iter().map(|param| &param.name);
        let others = others.chain(to.scalars.iter().map(|scalar| &scalar.name));
        let others = others.chain(to.tables.iter().map(|table| &table.name));
        let taken: Vec<&String> = arrays.chain(others).collect();
        while taken.contains(&&name) {
            name.push('_');
        }
        let len = lanes.into();
        let local = to.locals.len() as u16;
        to.locals.push(Array { name, dtype, len });
        self.loaded.insert(of, local);
        Memory::Local(local)
    }
}
