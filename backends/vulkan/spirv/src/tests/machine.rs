//! Runs a routine on the CPU: one thread, with plain quotients and roots that are wrong by as much as Vulkan allows.

use millstream_ir::scalar;
use millstream_ir::ssa::{Block, Function, Memory, Op, Stmt, ValueId};
use millstream_ir::{BinaryOp, DType, UnaryOp};

/// A thread that runs a routine.
pub(super) struct Machine<'f> {
    function: &'f Function,
    arguments: Vec<u64>,
    values: Vec<u64>,
    locals: Vec<Vec<u64>>,
    result: u64,
    /// The error of plain quotients and roots in units in the last place.
    error: i64,
}

impl<'f> Machine<'f> {
    pub(super) fn new(function: &'f Function, error: i64) -> Self {
        Self {
            function,
            arguments: Vec::new(),
            values: vec![0; function.values.len()],
            locals: Vec::new(),
            result: 0,
            error,
        }
    }

    /// Returns the result for these arguments.
    pub(super) fn run(&mut self, arguments: &[u64]) -> u64 {
        self.arguments = arguments.to_vec();
        let locals = self.function.locals.iter();
        self.locals = locals.map(|local| vec![0; local.len as usize]).collect();
        self.block(&self.function.body);
        self.result
    }

    fn get(&self, value: ValueId) -> u64 {
        self.values[value as usize]
    }

    fn of(&self, value: ValueId) -> DType {
        self.function.values[value as usize].dtype
    }

    fn block(&mut self, block: &'f Block) {
        for stmt in block {
            match stmt {
                Stmt::Let { value, op } => {
                    let made = self.op(*value, op);
                    self.values[*value as usize] = made;
                }
                Stmt::Store { to, at, value } => {
                    let value = self.get(*value);
                    let at = at.map_or(0, |at| self.get(at) as usize);
                    match to {
                        Memory::Local(local) => self.locals[usize::from(*local)][at] = value,
                        _ => self.result = value,
                    }
                }
                Stmt::If {
                    condition,
                    then,
                    otherwise,
                } => self.block(if self.get(*condition) == 0 {
                    otherwise
                } else {
                    then
                }),
                Stmt::For {
                    index,
                    start,
                    end,
                    step,
                    body,
                    ..
                } => {
                    let [start, end, step] =
                        [start, end, step].map(|bound| self.get(*bound) as i64);
                    for at in (start..end).step_by(step as usize) {
                        self.values[*index as usize] = at as u64;
                        self.block(body);
                    }
                }
                other => panic!("a routine has no {other:?}"),
            }
        }
    }

    fn op(&self, value: ValueId, op: &Op) -> u64 {
        let dtype = self.of(value);
        match op {
            Op::Const(bits) => *bits,
            Op::Scalar(index) => self.arguments[usize::from(*index)],
            Op::Load(Memory::Local(local), at) => {
                let at = at.map_or(0, |at| self.get(at) as usize);
                self.locals[usize::from(*local)][at]
            }
            Op::Unary(op, a) => {
                let found = scalar::unary(*op, dtype).expect("valid")(self.get(*a));
                self.wrong(found, dtype, *op == UnaryOp::Sqrt)
            }
            Op::Binary(op, a, b) => {
                let function = scalar::binary(*op, dtype).expect("valid");
                let found = function(self.get(*a), self.get(*b));
                self.wrong(found, dtype, *op == BinaryOp::Div)
            }
            Op::Compare(op, a, b) => scalar::compare(*op, self.of(*a))(self.get(*a), self.get(*b)),
            Op::Select(condition, a, b) => {
                scalar::select(self.get(*condition), self.get(*a), self.get(*b))
            }
            Op::Cast(a) => scalar::cast(self.of(*a), dtype)(self.get(*a)),
            Op::Bits(a) => self.get(*a),
            Op::Fma(a, b, c) => {
                let function = scalar::fma(dtype).expect("valid");
                function(self.get(*a), self.get(*b), self.get(*c))
            }
            other => panic!("a routine has no {other:?}"),
        }
    }

    /// Moves a usual result by the error.
    fn wrong(&self, found: u64, dtype: DType, is_inexact: bool) -> u64 {
        let value = scalar::Number::of(dtype, found).float().abs();
        let is_usual = dtype.is_float() && value > 1e-30 && value < 1e30;
        match is_inexact && is_usual {
            true => found.wrapping_add_signed(self.error),
            false => found,
        }
    }
}
