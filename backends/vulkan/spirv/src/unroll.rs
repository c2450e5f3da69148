//! Decides which loops become straight code, so that the indices of local arrays are constants and drivers keep the
//! arrays in registers. A loop is unrolled if its bounds are constants and the code remains small.

use std::collections::HashMap;

use millstream_ir::ssa::{Block, Function, Op, Stmt, ValueId};
use millstream_ir::{BinaryOp, DType};

use crate::routines::Routine;
use crate::walk::statements;

/// The most instructions of an unrolled loop, about; drivers take longer than linear time for large blocks.
const INSTRUCTIONS_MAX: u64 = 8192;
/// The instructions of a routine, about.
const ROUTINE_INSTRUCTIONS: u64 = 64;

/// What is known of a function before it is lowered.
pub(crate) struct Unrolling {
    constants: HashMap<ValueId, u64>,
}

impl Unrolling {
    pub(crate) fn new(function: &Function) -> Self {
        let constants = statements(&function.body).filter_map(|stmt| match stmt {
            Stmt::Let {
                value,
                op: Op::Const(bits),
            } => Some((*value, *bits)),
            _ => None,
        });
        Self {
            constants: constants.collect(),
        }
    }

    /// Returns the indices of a loop that is to be unrolled.
    pub(crate) fn indices(&self, function: &Function, stmt: &Stmt) -> Option<Vec<i64>> {
        let (times, step, start) = self.times(stmt)?;
        let Stmt::For { body, .. } = stmt else {
            return None;
        };
        let instructions = times.saturating_mul(self.instructions(function, body));
        if instructions > INSTRUCTIONS_MAX {
            return None;
        }
        let times = times as i64;
        Some((0..times).map(|nth| start + nth * step).collect())
    }

    /// Returns how often a loop runs that may be unrolled, with its step and its first index.
    fn times(&self, stmt: &Stmt) -> Option<(u64, i64, i64)> {
        let Stmt::For {
            start,
            end,
            step,
            unroll: true,
            ..
        } = stmt
        else {
            return None;
        };
        let bound = |value| self.constants.get(value).map(|bits| *bits as i64);
        let [start, end, step] = [bound(start)?, bound(end)?, bound(step)?];
        let length = end.checked_sub(start)?.max(0).unsigned_abs();
        let step_length = u64::try_from(step).ok().filter(|step| *step > 0)?;
        Some((length.div_ceil(step_length), step, start))
    }

    /// Returns the instructions of a block, about.
    fn instructions(&self, function: &Function, block: &Block) -> u64 {
        let of = |stmt: &Stmt| match stmt {
            Stmt::Let { value, op } => self.instructions_of(function, *value, op),
            Stmt::If {
                then, otherwise, ..
            } => self.instructions(function, then) + self.instructions(function, otherwise),
            Stmt::For { body, .. } => {
                let once = self.instructions(function, body);
                let times = self.times(stmt).map_or(1, |(times, ..)| times);
                times.saturating_mul(once)
            }
            _ => 1,
        };
        block.iter().map(of).fold(1, u64::saturating_add)
    }

    fn instructions_of(&self, function: &Function, value: ValueId, op: &Op) -> u64 {
        let of = function.values[value as usize];
        let each = match op {
            Op::Const(_) => return 0,
            Op::Unary(op, _) if of.dtype.is_float() && Routine::has_unary(*op) => {
                ROUTINE_INSTRUCTIONS
            }
            Op::Binary(op, ..) if of.dtype.is_float() && Routine::has_binary(*op) => {
                ROUTINE_INSTRUCTIONS
            }
            Op::Binary(BinaryOp::Div | BinaryOp::Rem, ..) => 4,
            Op::Fma(..) if of.dtype == DType::F64 => 2 * ROUTINE_INSTRUCTIONS,
            Op::Fma(..) if of.dtype == DType::F32 => ROUTINE_INSTRUCTIONS / 2,
            Op::Random(..) | Op::Reduce(..) => ROUTINE_INSTRUCTIONS,
            _ => 1,
        };
        each * u64::from(of.lanes)
    }
}
