//! The lowering of one function: its values, and which file lowers which operation. Statements are in `control`.
//!
//! Each lane of a value is one value of SPIR-V, so a wide value is several.

use std::collections::HashSet;

use millstream_ir::ssa::{Function, Op, Shuffle, Type, ValueId};
use millstream_ir::{DType, scalar};
use spirv::Word;

use crate::LowerError;
use crate::routines::Routine;
use crate::unit::{Shared, Unit};

/// The call of a routine.
pub(crate) struct Call {
    pub(crate) routine: Routine,
    /// The arguments, which are the launch words of its function.
    pub(crate) arguments: Vec<Word>,
    /// What the one store of its function to a buffer has stored.
    pub(crate) result: Option<Word>,
}

/// A function that is being lowered.
pub(crate) struct Body<'m> {
    pub(crate) unit: &'m mut Unit,
    pub(crate) function: &'m Function,
    /// `None` in the entry point.
    pub(crate) call: Option<Call>,
    pub(crate) shared: Vec<Shared>,
    pub(crate) locals: Vec<Word>,
    /// The variables that tables initialize.
    pub(crate) tables: Vec<Word>,
    /// The lanes of the values that are defined so far.
    pub(crate) values: Vec<Vec<Word>>,
    /// The products that the device may contract with a sum.
    pub(crate) products: HashSet<Word>,
    /// The copies of the next statement that the unrolled loops around it make.
    pub(crate) copies: u64,
    /// The open loops, innermost last.
    pub(crate) loops: Vec<Loop>,
}

/// The blocks to which the statements of a loop may jump.
#[derive(Clone, Copy)]
pub(crate) struct Loop {
    /// The block that leads to the next iteration.
    pub(crate) next: Word,
    /// The block behind the loop.
    pub(crate) merge: Word,
}

impl<'m> Body<'m> {
    pub(crate) fn new(unit: &'m mut Unit, function: &'m Function, call: Option<Call>) -> Self {
        Self {
            unit,
            function,
            call,
            shared: Vec::new(),
            locals: Vec::new(),
            tables: Vec::new(),
            values: vec![Vec::new(); function.values.len()],
            products: HashSet::new(),
            copies: 1,
            loops: Vec::new(),
        }
    }

    /// Returns the type of a value.
    pub(crate) fn of(&self, value: ValueId) -> Type {
        self.function.values[value as usize]
    }

    /// Returns one lane of a value.
    pub(crate) fn get(&self, value: ValueId, lane: u8) -> Word {
        self.values[value as usize][usize::from(lane)]
    }

    pub(crate) fn set(&mut self, value: ValueId, lanes: Vec<Word>) {
        self.values[value as usize] = lanes;
    }

    /// Returns a constant.
    pub(crate) fn constant(&mut self, dtype: DType, bits: u64) -> Word {
        self.unit.emit.constant(dtype, bits)
    }

    /// Returns the bits of a constant; `None` for other values.
    pub(crate) fn bits_of(&self, id: Word) -> Option<u64> {
        self.unit.emit.bits_of(id)
    }

    /// Adds an instruction with a result of this type.
    pub(crate) fn op(&mut self, op: spirv::Op, dtype: DType, operands: &[Word]) -> Word {
        self.unit.emit.value(op, dtype, operands)
    }

    /// Calls a routine with a result of this type.
    pub(crate) fn call(&mut self, routine: Routine, of: DType, arguments: &[Word]) -> Word {
        let id = self.unit.routines.id(routine, &mut self.unit.emit);
        let operands = [&[id], arguments].concat();
        self.op(spirv::Op::FunctionCall, of, &operands)
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
            Op::Atomic(op, memory, at) => vec![self.atomic(*op, *memory, *at)?],
            _ => {
                let lanes = (0..of.lanes).map(|lane| self.lane(of.dtype, op, lane));
                lanes.collect::<Result<_, _>>()?
            }
        };
        self.set(value, lanes);
        Ok(())
    }

    fn lane(&mut self, dtype: DType, op: &Op, lane: u8) -> Result<Word, LowerError> {
        let of = |value: &ValueId| self.get(*value, lane);
        Ok(match op {
            Op::Const(bits) => self.constant(dtype, *bits),
            Op::Lane(a, lane) => self.get(*a, *lane),
            Op::Splat(a) => self.get(*a, 0),
            Op::Pack(lanes) => self.get(lanes[usize::from(lane)], 0),
            Op::Scalar(word) => self.scalar(*word, dtype),
            Op::Position(position, axis) => self.position(*position, *axis),
            Op::Unary(op, a) => self.unary(*op, dtype, of(a))?,
            Op::Binary(op, a, b) => self.binary(*op, dtype, of(a), of(b))?,
            Op::Compare(op, a, b) => self.compare(*op, self.of(*a).dtype, of(a), of(b))?,
            Op::Select(condition, a, b) => {
                let operands = [condition, a, b].map(of);
                self.op(spirv::Op::Select, dtype, &operands)
            }
            Op::Cast(a) => self.cast(self.of(*a).dtype, dtype, of(a)),
            Op::Bits(a) => self.reinterpret(self.of(*a).dtype, dtype, of(a)),
            Op::Fma(a, b, c) => {
                let operands = [a, b, c].map(of);
                self.call(Routine::Fma(dtype), dtype, &operands)
            }
            Op::Random(seed, counter) => {
                let operands = [seed, counter].map(of);
                self.call(Routine::Random, dtype, &operands)
            }
            Op::Reduce(scope, op, a) => {
                let Some(by) = scalar::combines(*op) else {
                    return Err(self.unsupported(op.to_string()));
                };
                self.call(Routine::Reduce(*scope, by, dtype), dtype, &[of(a)])
            }
            Op::Shuffle(from, width, a, by) => {
                let operands = [a, by].map(of);
                let features = self.unit.target.features;
                let is_of_device = (*from, *width) == (Shuffle::Lane, features.subgroup_width);
                if is_of_device && features.shuffles(*width, dtype) {
                    return Ok(self.shuffled(dtype, operands));
                }
                self.call(Routine::Shuffle(*from, *width, dtype), dtype, &operands)
            }
            other => return Err(self.unsupported(format!("{other:?}"))),
        })
    }
}
