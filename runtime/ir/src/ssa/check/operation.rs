//! Checks operations: the types of their operands and of their value.

use super::{At, Check};
use crate::error::Checked;
use crate::nest::BufferMode;
use crate::ssa::{ACCESS_BYTES_MAX, Memory, Op, SUBGROUP_MAX, Scope, Type, ValueId};
use crate::{BinaryOp, DType, ProgramError, ReduceOp};

impl Check<'_> {
    pub(super) fn op(&mut self, value: ValueId, op: &Op, at: At<'_>) -> Result<(), ProgramError> {
        let function = self.function;
        let to = function.values[value as usize];
        if !matches!(to.lanes, 1 | 2 | 4 | 8 | 16) {
            return Err(at.width(to));
        }
        let of = |id: &ValueId| function.values[*id as usize];
        let one = Type::one;
        match op {
            Op::Const(bits) => {
                let bits_of = 8 * to.dtype.size() as u32;
                let limit = if to.dtype == DType::Bool { 1 } else { bits_of };
                if limit < 64 && bits >> limit != 0 {
                    return Err(at.error(
                        "has bits that its type does not have: use a constant of that type",
                    ));
                }
                self.constants[value as usize] = Some(*bits);
                Ok(())
            }
            Op::Scalar(index) => match function.scalars.get(usize::from(*index)) {
                None => Err(at.missing("scalar", *index)),
                Some(scalar) => at.same(scalar.dtype, to),
            },
            Op::Position(..) => at.same(DType::I64, to),
            Op::Load(memory, index) => {
                self.access(*memory, *index, to, at)?;
                match memory {
                    Memory::Param(param)
                        if function.params[usize::from(*param)].mode == BufferMode::Write =>
                    {
                        Err(ProgramError::new(format!(
                            "`{}` is write-only, but the function loads from it: declare it as updated, or remove `#[whole]`",
                            function.params[usize::from(*param)].name
                        )))
                    }
                    _ => Ok(()),
                }
            }
            Op::Lane(a, lane) if *lane < of(a).lanes => at.same(one(of(a).dtype), to),
            Op::Lane(_, lane) => Err(at.missing("lane", *lane)),
            Op::Splat(a) => at.same(one(to.dtype), of(a)),
            Op::Pack(lanes) => {
                if lanes.len() != usize::from(to.lanes) || lanes.len() < 2 {
                    return Err(at.width(to));
                }
                let mut lanes = lanes.iter();
                lanes.try_for_each(|lane| at.same(one(to.dtype), of(lane)))
            }
            Op::Unary(op, a) => {
                at.takes(op.takes(of(a).dtype), op, of(a))?;
                at.same(of(a), to)
            }
            Op::Binary(op, a, b) => {
                at.takes(op.takes(of(a).dtype), op, of(a))?;
                self.fold(value, *op, *a, *b);
                at.same(of(a), of(b))?;
                at.same(of(a), to)
            }
            Op::Compare(_, a, b) => {
                at.same(of(a), of(b))?;
                at.same(of(a).with(DType::Bool), to)
            }
            Op::Select(condition, a, b) => {
                at.same(of(a).with(DType::Bool), of(condition))?;
                at.same(of(a), of(b))?;
                at.same(of(a), to)
            }
            Op::Cast(a) => at.same(of(a).with(to.dtype), to),
            Op::Bits(a) => {
                let to_type = to.dtype;
                let fits = of(a).dtype.has_bits_of(to_type);
                at.expect(fits, format_args!("a type of the size of {to_type}"), of(a))?;
                at.same(of(a).with(to_type), to)
            }
            Op::Fma(a, b, c) => {
                let fits = matches!(of(a).dtype, DType::F32 | DType::F64);
                at.expect(fits, "f32 or f64", of(a))?;
                at.same(of(a), of(b))?;
                at.same(of(a), of(c))?;
                at.same(of(a), to)
            }
            Op::Random(seed, counter) => {
                at.same(to.with(DType::U32), to)?;
                at.same(to.with(DType::I64), of(counter))?;
                at.same(to.with(DType::U64), of(seed))
            }
            Op::Reduce(scope, op, a) => {
                let why = if matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax) {
                    "reduces to an index: reduce the value, then the least index that has it"
                } else if of(a).lanes > 1 {
                    "reduces a wide value: reduce its lanes first"
                } else {
                    if let Scope::Subgroup(width) = scope {
                        self.subgroup(*width, at)?;
                    }
                    at.takes(op.takes(of(a).dtype), op, of(a))?;
                    return at.same(of(a), to);
                };
                Err(at.error(why))
            }
            Op::Atomic(op, memory, index) => {
                self.access(*memory, Some(*index), to, at)?;
                op.operands()
                    .try_for_each(|operand| at.same(to, of(&operand)))?;
                let can = match memory {
                    Memory::Param(param) => {
                        function.params[usize::from(*param)].mode == BufferMode::Update
                    }
                    Memory::Shared(_) => true,
                    Memory::Local(_) | Memory::Table(_) => false,
                };
                match can && to.lanes == 1 && op.takes(to.dtype) {
                    true => Ok(()),
                    false => Err(at.error(
                        "is not supported: atomic operations need i32, u32, i64 or u64, additions, loads and swaps also f32 or f64, in an updated buffer or a shared array",
                    )),
                }
            }
            Op::Shuffle(_, width, a, by) => {
                self.subgroup(*width, at)?;
                if of(a).lanes > 1 {
                    return Err(at.error("shuffles a wide value: shuffle its lanes"));
                }
                at.same(one(DType::I64), of(by))?;
                at.same(of(a), to)
            }
        }
    }

    /// Checks the width of a subgroup.
    fn subgroup(&self, width: u32, at: At<'_>) -> Result<(), ProgramError> {
        let threads = self.function.threads[0];
        let fits =
            width.is_power_of_two() && width <= SUBGROUP_MAX && threads.is_multiple_of(width);
        if fits {
            return Ok(());
        }
        Err(at.error(format_args!(
            "has subgroups of {width} threads in cubes of {threads} along the fastest axis: their number is a power of two, at most {SUBGROUP_MAX}, that divides those of the axis"
        )))
    }

    /// Folds sums, differences and products of constants, so that a step of 0 is detected.
    fn fold(&mut self, value: ValueId, op: BinaryOp, a: ValueId, b: ValueId) {
        let of = |id: ValueId| self.constants.get(id as usize).copied().flatten();
        if let (Some(a), Some(b)) = (of(a), of(b))
            && self.function.values[value as usize] == Type::one(DType::I64)
        {
            self.constants[value as usize] = match op {
                BinaryOp::Add => Some(a.wrapping_add(b)),
                BinaryOp::Sub => Some(a.wrapping_sub(b)),
                BinaryOp::Mul => Some(a.wrapping_mul(b)),
                _ => None,
            };
        }
    }

    /// Checks a load from or a store to memory.
    pub(super) fn access(
        &self,
        memory: Memory,
        index: Option<ValueId>,
        value: Type,
        at: At<'_>,
    ) -> Result<(), ProgramError> {
        let Some((_, dtype)) = self.function.memory(memory) else {
            let (what, index) = match memory {
                Memory::Param(index) => ("parameter", index),
                Memory::Shared(index) => ("shared array", index),
                Memory::Local(index) => ("local", index),
                Memory::Table(index) => ("table", index),
            };
            return Err(at.missing(what, index));
        };
        at.same(value.with(dtype), value)?;
        let bytes = dtype.size() * usize::from(value.lanes);
        if bytes > ACCESS_BYTES_MAX && !matches!(memory, Memory::Local(_)) {
            return Err(at.width(value));
        }
        match index {
            Some(index) => at.same(DType::I64, self.uses(index, at)?),
            None => Ok(()),
        }
    }
}
