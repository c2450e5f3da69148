//! The lowering of one function: its values, and which file lowers which operation. Statements are in `control`.
//!
//! Each lane of a value is one value of SPIR-V, so a wide value is several. A lane that is known at compile time is
//! folded by [`millstream_ir::scalar`], so that indices of unrolled loops are constants.

use millstream_ir::ssa::{Function, Op, Type, ValueId};
use millstream_ir::{DType, scalar};
use spirv::Word;

use crate::LowerError;
use crate::interface::Interface;
use crate::routines::Routine;
use crate::unit::Unit;
use crate::unroll::Unrolling;

/// One lane of a value.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) id: Word,
    /// The bits, if they are known at compile time.
    pub(crate) bits: Option<u64>,
}

impl From<Word> for Lane {
    /// Returns a lane that is not known at compile time.
    fn from(id: Word) -> Self {
        Self { id, bits: None }
    }
}

/// What a function is for.
pub(crate) enum Role {
    /// The entry point.
    Main(Box<Interface>),
    /// A routine: the launch words are its arguments, and its one store is the result. It computes with the plain
    /// instructions, which may be inexact.
    Routine {
        arguments: Vec<Word>,
        result: Option<Word>,
    },
}

/// A function that is being lowered.
pub(crate) struct Body<'m> {
    pub(crate) unit: &'m mut Unit,
    pub(crate) function: &'m Function,
    pub(crate) role: Role,
    pub(crate) locals: Vec<Word>,
    pub(crate) unrolling: Unrolling,
    /// The lanes of the values that are defined so far.
    pub(crate) values: Vec<Vec<Lane>>,
}

impl<'m> Body<'m> {
    pub(crate) fn new(unit: &'m mut Unit, function: &'m Function, role: Role) -> Self {
        let unrolling = Unrolling::new(function);
        Self {
            unit,
            function,
            role,
            unrolling,
            locals: Vec::new(),
            values: vec![Vec::new(); function.values.len()],
        }
    }

    /// Returns the type of a value.
    pub(crate) fn of(&self, value: ValueId) -> Type {
        self.function.values[value as usize]
    }

    /// Returns one lane of a value.
    pub(crate) fn get(&self, value: ValueId, lane: u8) -> Lane {
        self.values[value as usize][usize::from(lane)]
    }

    pub(crate) fn set(&mut self, value: ValueId, lanes: Vec<Lane>) {
        self.values[value as usize] = lanes;
    }

    /// Returns a constant.
    pub(crate) fn constant(&mut self, dtype: DType, bits: u64) -> Lane {
        let id = self.unit.emit.constant(dtype, bits);
        Lane {
            id,
            bits: Some(bits),
        }
    }

    /// Adds an instruction with a result of this type.
    pub(crate) fn op(&mut self, op: spirv::Op, dtype: DType, operands: &[Word]) -> Word {
        self.unit.emit.value(op, dtype, operands)
    }

    /// Calls a routine.
    pub(crate) fn call(&mut self, routine: Routine, arguments: &[Word]) -> Word {
        let function = self.unit.routines.id(routine, &mut self.unit.emit);
        let operands = [&[function], arguments].concat();
        self.op(spirv::Op::FunctionCall, routine.result(), &operands)
    }

    /// Returns `true` in routines, which use the plain instructions of floats.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.role, Role::Routine { .. })
    }

    pub(crate) fn unsupported(&self, what: String) -> LowerError {
        let kernel = self.function.name.clone();
        LowerError::Unsupported { kernel, what }
    }

    /// Lowers the definition of a value.
    pub(crate) fn define(&mut self, value: ValueId, op: &Op) -> Result<(), LowerError> {
        let of = self.of(value);
        let lanes = match op {
            Op::Load(memory, at) => self.load(*memory, *at, of)?,
            _ => {
                let lanes = (0..of.lanes).map(|lane| self.lane(of.dtype, op, lane));
                lanes.collect::<Result<_, _>>()?
            }
        };
        self.set(value, lanes);
        Ok(())
    }

    fn lane(&mut self, dtype: DType, op: &Op, lane: u8) -> Result<Lane, LowerError> {
        if let Some(bits) = self.known(dtype, op, lane) {
            return Ok(self.constant(dtype, bits));
        }
        let id = match op {
            Op::Lane(a, lane) => return Ok(self.get(*a, *lane)),
            Op::Splat(a) => return Ok(self.get(*a, 0)),
            Op::Pack(lanes) => return Ok(self.get(lanes[usize::from(lane)], 0)),
            Op::Scalar(word) => self.scalar(*word, dtype),
            Op::Position(position, axis) => return Ok(self.position(*position, *axis)),
            Op::Unary(op, a) => self.unary(*op, dtype, self.get(*a, lane).id)?,
            Op::Binary(op, a, b) => {
                self.binary(*op, dtype, self.get(*a, lane), self.get(*b, lane))?
            }
            Op::Compare(op, a, b) => {
                let of = self.of(*a).dtype;
                self.compare(*op, of, self.get(*a, lane).id, self.get(*b, lane).id)?
            }
            Op::Select(condition, a, b) => {
                let operands = [condition, a, b].map(|value| self.get(*value, lane).id);
                self.op(spirv::Op::Select, dtype, &operands)
            }
            Op::Cast(a) => {
                let from = self.of(*a).dtype;
                self.cast(from, dtype, self.get(*a, lane).id)
            }
            Op::Bits(a) => {
                let from = self.of(*a).dtype;
                self.reinterpret(from, dtype, self.get(*a, lane).id)
            }
            Op::Fma(a, b, c) => {
                let operands = [a, b, c].map(|value| self.get(*value, lane).id);
                self.call(Routine::Fma(dtype), &operands)
            }
            Op::Random(seed, counter) => {
                let operands = [seed, counter].map(|value| self.get(*value, lane).id);
                self.call(Routine::Random, &operands)
            }
            Op::Reduce(scope, op, a) => self.reduce(*scope, *op, dtype, self.get(*a, 0).id)?,
            other => return Err(self.unsupported(format!("{other:?}"))),
        };
        Ok(id.into())
    }

    /// Returns the bits of a lane that depends on constants alone.
    fn known(&self, dtype: DType, op: &Op, lane: u8) -> Option<u64> {
        let bits = |value: &ValueId| self.get(*value, lane).bits;
        Some(match op {
            Op::Const(bits) => *bits,
            Op::Unary(op, a) => scalar::unary(*op, dtype)?(bits(a)?),
            Op::Binary(op, a, b) => scalar::binary(*op, dtype)?(bits(a)?, bits(b)?),
            Op::Compare(op, a, b) => scalar::compare(*op, self.of(*a).dtype)(bits(a)?, bits(b)?),
            Op::Select(condition, a, b) => scalar::select(bits(condition)?, bits(a)?, bits(b)?),
            Op::Cast(a) => scalar::cast(self.of(*a).dtype, dtype)(bits(a)?),
            Op::Bits(a) => bits(a)?,
            _ => return None,
        })
    }
}
