//! An interpreter.

use crate::number::Ty;
use crate::tree::{
    Arm, Block, Call, Expr, Index, Kernel, Kind, LoopId, Mode, Operator, Pattern, Place, Range,
    RangeKind, Shape, Statement, Value, Var, Variable,
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
    pub scalars: Vec<u64>,
    pub buffers: Vec<Vec<u64>>,
}

/// Runs all threads of a launch.
pub fn launch(kernel: &Kernel, arguments: &mut Arguments) {
    for thread in 0..arguments.threads {
        let mut frame = Frame {
            kernel,
            variables: &kernel.variables,
            values: vec![Vec::new(); kernel.variables.len()],
            buffers: &mut arguments.buffers,
            // A helper function has one buffer at most.
            passed: None,
            thread,
            threads: arguments.threads,
        };
        for (value, scalar) in frame.values.iter_mut().zip(&arguments.scalars) {
            *value = vec![*scalar];
        }
        // A jump out of the kernel ends the thread.
        drop(frame.statements(&kernel.body));
    }
}

/// A running function.
struct Frame<'a> {
    kernel: &'a Kernel,
    variables: &'a [Variable],
    values: Vec<Vec<u64>>,
    buffers: &'a mut Vec<Vec<u64>>,
    /// In a helper function, the buffer that it was passed.
    passed: Option<usize>,
    thread: usize,
    threads: usize,
}

impl Frame<'_> {
    fn buffer(&self, buffer: usize) -> usize {
        self.passed.unwrap_or(buffer)
    }

    fn index(&mut self, index: &Index, len: usize) -> Result<usize, Jump> {
        let (value, bits) = match index {
            Index::Thread => return Ok(self.thread),
            Index::Usize(value) | Index::Rest(value, _) | Index::Masked(value, _) => {
                (value, self.expr(value)?)
            }
        };
        Ok(match index {
            Index::Rest(_, m) => (bits % m) as usize,
            Index::Masked(_, m) => (bits & m) as usize,
            _ => (value.ty.cast(bits, Ty::Usize) % len as u64) as usize,
        })
    }

    fn own(&self, buffer: usize) -> usize {
        match self.kernel.buffers[buffer].mode {
            Mode::Reversed => self.buffers[buffer].len() - 1 - self.thread,
            _ => self.thread,
        }
    }

    fn expr(&mut self, it: &Expr) -> Result<u64, Jump> {
        Ok(match &it.kind {
            Kind::Literal(bits) => *bits,
            Kind::Name(var) => self.values[*var][0],
            Kind::Part(var, part) => self.values[*var][*part],
            Kind::Element(var, index) => {
                let at = self.index(index, self.values[*var].len())?;
                self.values[*var][at]
            }
            Kind::Thread(_) => self.thread as u64,
            Kind::Threads => self.threads as u64,
            Kind::Len(buffer) => self.buffers[self.buffer(*buffer)].len() as u64,
            Kind::Load(buffer, index) => {
                let buffer = self.buffer(*buffer);
                let at = self.index(index, self.buffers[buffer].len())?;
                self.buffers[buffer][at]
            }
            Kind::Own(buffer) => self.buffers[*buffer][self.own(*buffer)],
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
            values[param] = vec![self.expr(value)?];
        }
        let mut inner = Frame {
            kernel: self.kernel,
            variables: &helper.variables,
            values,
            passed: call.buffer.map(|buffer| self.buffer(buffer)),
            buffers: self.buffers,
            thread: self.thread,
            threads: self.threads,
        };
        let ran = inner.statements(&helper.body);
        let result = ran.and_then(|()| {
            helper
                .values
                .iter()
                .map(|value| inner.expr(value))
                .collect()
        });
        match result {
            Err(Jump::Return(values)) => Ok(values),
            other => other,
        }
    }

    fn value(&mut self, value: &Value) -> Result<Vec<u64>, Jump> {
        match value {
            Value::One(value) => Ok(vec![self.expr(value)?]),
            Value::Tuple(parts) | Value::Array(parts) => {
                parts.iter().map(|part| self.expr(part)).collect()
            }
            Value::Repeat(value, len) => Ok(vec![self.expr(value)?; *len]),
            Value::Call(call) => self.call(call),
        }
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<(), Jump> {
        statements.iter().try_for_each(|it| self.statement(it))
    }

    fn statement(&mut self, it: &Statement) -> Result<(), Jump> {
        match it {
            Statement::Let(var, value) => self.values[*var] = self.value(value)?,
            Statement::Apart(vars, value) => {
                let parts = self.value(value)?;
                for (var, part) in vars.iter().zip(parts) {
                    self.values[*var] = vec![part];
                }
            }
            Statement::Later(var, condition, a, b) => {
                let chosen = if self.expr(condition)? != 0 { a } else { b };
                self.values[*var] = vec![self.expr(chosen)?];
            }
            Statement::Assign(place, operator, value) => self.assign(place, *operator, value)?,
            Statement::If(condition, then, otherwise) => match self.expr(condition)? != 0 {
                true => self.statements(then)?,
                false => self.statements(otherwise.as_deref().unwrap_or_default())?,
            },
            Statement::Match(value, arms) => {
                let value = (value.ty, self.expr(value)?);
                self.arms(value, arms)?;
            }
            Statement::For(id, var, range, body) => self.for_loop(*id, *var, range, body)?,
            Statement::While(id, counter, most, condition, body) => {
                self.values[*counter] = vec![0];
                while self.values[*counter][0] < *most {
                    if let Some(condition) = condition
                        && self.expr(condition)? == 0
                    {
                        break;
                    }
                    self.values[*counter][0] += 1;
                    if !self.iteration(*id, body)? {
                        break;
                    }
                }
            }
            Statement::Loop(id, counter, most, body) => {
                self.values[*counter] = vec![0];
                while self.values[*counter][0] < *most {
                    self.values[*counter][0] += 1;
                    if !self.iteration(*id, body)? {
                        break;
                    }
                }
            }
            Statement::Break(id) => return Err(Jump::Break(*id)),
            Statement::Continue(id) => return Err(Jump::Continue(*id)),
            Statement::Return(values) => {
                let values = values.iter().map(|value| self.expr(value));
                return Err(Jump::Return(values.collect::<Result<_, _>>()?));
            }
        }
        Ok(())
    }

    /// Runs one iteration of a loop. Returns whether the loop goes on.
    fn iteration(&mut self, id: LoopId, body: &[Statement]) -> Result<bool, Jump> {
        match self.statements(body) {
            Err(Jump::Break(of)) if of == id => Ok(false),
            Err(Jump::Continue(of)) if of == id => Ok(true),
            other => other.map(|()| true),
        }
    }

    fn for_loop(
        &mut self,
        id: LoopId,
        var: Var,
        range: &Range,
        body: &[Statement],
    ) -> Result<(), Jump> {
        let of = range.start.ty;
        let (start, end) = (self.expr(&range.start)?, self.expr(&range.end)?);
        let (start, end) = (of.int(start), of.int(end));
        let all: Vec<i128> = match range.kind {
            RangeKind::HalfOpen => (start..end).collect(),
            RangeKind::Closed => (start..=end).collect(),
            RangeKind::Reversed => (start..end).rev().collect(),
            RangeKind::Steps(step) => (start..end).step_by(step as usize).collect(),
        };
        for number in all {
            self.values[var] = vec![of.cut(number)];
            if !self.iteration(id, body)? {
                break;
            }
        }
        Ok(())
    }

    fn assign(
        &mut self,
        place: &Place,
        operator: Option<Operator>,
        value: &Expr,
    ) -> Result<(), Jump> {
        let bits = self.expr(value)?;
        let (of, place) = match place {
            Place::Name(var) => (self.of_part(*var, 0), &mut self.values[*var][0]),
            Place::Part(var, part) => (self.of_part(*var, *part), &mut self.values[*var][*part]),
            Place::Element(var, index) => {
                let at = self.index(index, self.values[*var].len())?;
                (self.of_part(*var, at), &mut self.values[*var][at])
            }
            Place::Own(buffer) => {
                let at = self.own(*buffer);
                (
                    self.kernel.buffers[*buffer].of,
                    &mut self.buffers[*buffer][at],
                )
            }
        };
        *place = match operator {
            None => bits,
            Some(Operator::Binary(op)) => of.binary(op, *place, bits),
            Some(Operator::Shift(is_left)) => of.shift(is_left, *place, (value.ty, bits)),
        };
        Ok(())
    }

    fn of_part(&self, var: Var, part: usize) -> Ty {
        match &self.variables[var].shape {
            Shape::One(of) | Shape::Array(of, _) => *of,
            Shape::Tuple(parts) => parts[part],
        }
    }
}
