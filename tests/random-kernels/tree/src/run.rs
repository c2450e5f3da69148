//! An interpreter.

mod cube;
mod place;
mod statement;

pub use cube::launch;

use crate::number::{Binary, Ty};
use crate::tree::{
    Arm, Atomic, Block, Call, Expr, Kernel, Kind, LoopId, Operation, Pattern, Shape, Value,
    Variable,
};

/// What a jump leaves.
enum Jump {
    Break(LoopId),
    Continue(LoopId),
    Return(Vec<u64>),
}

/// The arguments of a launch, as bits.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "its parts")]
pub struct Arguments {
    pub threads: usize,
    pub scalars: Vec<Vec<u64>>,
    pub buffers: Vec<Vec<u64>>,
}

/// A running function.
struct Frame<'a> {
    kernel: &'a Kernel,
    variables: &'a [Variable],
    /// The numbers of each variable.
    values: Vec<Vec<u64>>,
    buffers: &'a mut Vec<Vec<u64>>,
    /// The shared arrays of the cube.
    shared: &'a [Vec<u64>],
    /// In a helper function, the buffer that it was passed.
    passed: Option<usize>,
    thread: usize,
    threads: usize,
}

impl Frame<'_> {
    fn buffer(&self, buffer: usize) -> usize {
        self.passed.unwrap_or(buffer)
    }

    fn cube(&self) -> usize {
        self.kernel.cube.unwrap_or(1)
    }

    fn expr(&mut self, it: &Expr) -> Result<u64, Jump> {
        Ok(match &it.kind {
            Kind::Literal(bits) => *bits,
            Kind::Place(place) => {
                let place = self.place(place)?;
                self.held(&place)[0]
            }
            Kind::Thread(_) => self.thread as u64,
            Kind::Threads => self.threads as u64,
            Kind::ThreadInCube => (self.thread % self.cube()) as u64,
            Kind::Cube => (self.thread / self.cube()) as u64,
            Kind::Len(buffer) => self.len(self.buffer(*buffer)) as u64,
            Kind::Unary(op, a) => it.ty.unary(*op, self.expr(a)?),
            Kind::Binary(op, a, b) => it.ty.binary(*op, self.expr(a)?, self.expr(b)?),
            Kind::Compare(op, a, b) => {
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                u64::from(a.ty.compare(*op, x, y))
            }
            Kind::Shift(is_left, a, b) => {
                let (x, y) = (self.expr(a)?, self.expr(b)?);
                it.ty.shift(*is_left, x, (b.ty, y))
            }
            Kind::Lazy(is_and, a, b) => match self.expr(a)? == u64::from(*is_and) {
                true => self.expr(b)?,
                false => u64::from(!is_and),
            },
            Kind::Cast(a) => a.ty.cast(self.expr(a)?, it.ty),
            Kind::If(condition, a, b) => match self.expr(condition)? != 0 {
                true => self.block(a)?,
                false => self.block(b)?,
            },
            Kind::Match(value, arms) => {
                let value = (value.ty, self.expr(value)?);
                self.arms(value, arms)?
            }
            Kind::Call(call) => self.call(call)?[0],
            Kind::Method(method, operands) => {
                let of = operands[0].ty;
                let operands = operands.iter().map(|it| self.expr(it));
                method.compute(of, &operands.collect::<Result<Vec<_>, _>>()?)
            }
            Kind::Atomic(atomic) => self.atomic(atomic)?,
        })
    }

    /// Returns the value of a block, zero if it has none.
    fn block(&mut self, block: &Block) -> Result<u64, Jump> {
        self.statements(&block.statements)?;
        block.value.as_ref().map_or(Ok(0), |value| self.expr(value))
    }

    fn arms(&mut self, (of, value): (Ty, u64), arms: &[Arm]) -> Result<u64, Jump> {
        for arm in arms {
            let number = of.int(value);
            let fits = match &arm.pattern {
                Pattern::Literals(any) => any.contains(&value),
                Pattern::Range(start, end, is_closed) => {
                    start.is_none_or(|start| of.int(start) <= number)
                        && end.is_none_or(|end| {
                            number < of.int(end) || *is_closed && number == of.int(end)
                        })
                }
                Pattern::Bind(var) => {
                    self.values[*var] = vec![value];
                    true
                }
                Pattern::Any => true,
            };
            let is_chosen = match &arm.guard {
                Some(guard) if fits => self.expr(guard)? != 0,
                _ => fits,
            };
            if is_chosen {
                return self.block(&arm.block);
            }
        }
        unreachable!("the last arm fits");
    }

    fn call(&mut self, call: &Call) -> Result<Vec<u64>, Jump> {
        let helper = &self.kernel.helpers[call.helper];
        let mut values = vec![Vec::new(); helper.variables.len()];
        for (param, value) in call.values.iter().enumerate() {
            values[param] = self.value(value)?;
        }
        let mut inner = Frame {
            kernel: self.kernel,
            variables: &helper.variables,
            values,
            passed: call.buffer.map(|buffer| self.buffer(buffer)),
            buffers: self.buffers,
            shared: self.shared,
            thread: self.thread,
            threads: self.threads,
        };
        let ran = inner.statements(&helper.body);
        let result = ran.and_then(|()| inner.value(&helper.value));
        match result {
            Err(Jump::Return(values)) => Ok(values),
            other => other,
        }
    }

    /// Returns what the element was before.
    fn atomic(&mut self, it: &Atomic) -> Result<u64, Jump> {
        let values = it.values.iter().map(|value| self.expr(value));
        let values: Vec<_> = values.collect::<Result<_, _>>()?;
        let buffer = self.buffer(it.buffer);
        let at = match &it.index {
            Some(index) => self.index(index, self.len(buffer))?,
            None => self.own(buffer),
        };
        let Shape::One(of) = self.kernel.buffers[buffer].of else {
            unreachable!("a number");
        };
        let before = self.buffers[buffer][at];
        self.buffers[buffer][at] = it.operation.after(of, before, &values);
        Ok(before)
    }

    fn value(&mut self, value: &Value) -> Result<Vec<u64>, Jump> {
        match value {
            Value::One(value) => Ok(vec![self.expr(value)?]),
            Value::Copy(place) => {
                let place = self.place(place)?;
                Ok(self.held(&place).to_vec())
            }
            Value::Tuple(parts) | Value::Array(parts) => {
                let mut values = Vec::new();
                for part in parts {
                    values.extend(self.value(part)?);
                }
                Ok(values)
            }
            Value::Repeat(value, len) => Ok(self.value(value)?.repeat(*len)),
            Value::Struct(id, fields, base) => {
                let given: Vec<_> = fields
                    .iter()
                    .map(|(field, value)| Ok((*field, self.value(value)?)))
                    .collect::<Result<_, _>>()?;
                let shapes = &self.kernel.structs[*id].fields;
                let sizes = shapes.iter().map(|it| it.size(&self.kernel.structs));
                let sizes: Vec<usize> = sizes.collect();
                // Rust computes the base last.
                let mut values = match base {
                    Some(base) => self.value(base)?,
                    None => vec![0; sizes.iter().sum()],
                };
                for (field, value) in given {
                    let first: usize = sizes[..field].iter().sum();
                    values[first..first + sizes[field]].copy_from_slice(&value);
                }
                Ok(values)
            }
            Value::If(condition, a, b) => match self.expr(condition)? != 0 {
                true => self.value(a),
                false => self.value(b),
            },
            Value::Call(call) => self.call(call),
        }
    }
}

impl Operation {
    /// Returns what an element is after the operation.
    fn after(self, of: Ty, before: u64, values: &[u64]) -> u64 {
        let binary = |op| of.binary(op, before, values[0]);
        match self {
            Self::Add => binary(Binary::Add),
            Self::Sub => binary(Binary::Sub),
            Self::Min => binary(Binary::Min),
            Self::Max => binary(Binary::Max),
            Self::And => binary(Binary::And),
            Self::Or => binary(Binary::Or),
            Self::Xor => binary(Binary::Xor),
            Self::Exchange if before == values[0] => values[1],
            Self::Exchange | Self::Load => before,
            Self::Swap | Self::Store => values[0],
        }
    }
}
