//! Guards of checked functions: the conditions that accesses are within bounds.

use millstream_ir::DType;
use millstream_ir::ssa::{Memory, ValueId};

use super::{Printer, scalar};

impl Printer<'_> {
    /// Returns the condition that an access of this many lanes is within bounds, if that is checked.
    pub(super) fn within(&self, memory: Memory, at: Option<ValueId>, lanes: u8) -> Option<String> {
        if !self.function.checked {
            return None;
        }
        let arrays = match memory {
            Memory::Param(_) | Memory::Table(_) => None,
            Memory::Shared(index) => Some((&self.function.shared, index)),
            Memory::Local(index) => Some((&self.function.locals, index)),
        };
        let len = match (memory, arrays) {
            (Memory::Table(index), _) => {
                format!("{}ull", self.function.tables[usize::from(index)].bits.len())
            }
            (Memory::Param(index), _) => {
                scalar(self.function.params[usize::from(index)].len?, DType::U64)
            }
            (_, Some((arrays, index))) => format!("{}ull", arrays[usize::from(index)].len),
            _ => return None,
        };
        let index = match (at, memory) {
            (Some(at), _) => format!("(u64){}", self.name(at, 0)),
            (None, Memory::Param(_)) => "0ull".to_owned(),
            // A variable, or the first element of an array.
            (None, _) => return None,
        };
        Some(match lanes {
            1 => format!("{index} < {len}"),
            lanes => format!("{index} < {len} && {len} - {index} >= {lanes}"),
        })
    }

    /// Returns the head of a statement that is executed if an access is within bounds.
    pub(super) fn if_within(&self, memory: Memory, at: Option<ValueId>, lanes: u8) -> String {
        let within = self.within(memory, at, lanes);
        within.map_or_else(String::new, |within| format!("if ({within}) "))
    }
}
