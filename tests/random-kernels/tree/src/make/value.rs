//! Random values of any shape.

use super::Maker;
use crate::number::Ty;
use crate::tree::{Buffer, Call, Mode, Shape, Value};

impl Maker<'_> {
    /// Returns a value whose numbers are nested at most so deep.
    pub(super) fn value(&mut self, shape: &Shape, depth: usize) -> Value {
        if let Shape::One(of) = shape {
            return Value::One(self.expr(*of, depth));
        }
        let inner = depth.saturating_sub(1);
        match self.dice.below(10) {
            0..=2 => {
                if let Some(place) = self.source(shape) {
                    return Value::Copy(place);
                }
            }
            3 | 4 => {
                if let Some(call) = self.call(shape, inner) {
                    return Value::Call(call);
                }
            }
            5 if depth > 0 && self.left > 4 => {
                let condition = self.boxed(Ty::Bool, inner);
                let [a, b] = [(); 2].map(|()| Box::new(self.value(shape, 0)));
                return Value::If(condition, a, b);
            }
            _ => {}
        }
        self.built(shape, inner)
    }

    /// Returns a value that is put together.
    fn built(&mut self, shape: &Shape, depth: usize) -> Value {
        match shape {
            Shape::One(of) => Value::One(self.expr(*of, depth)),
            Shape::Tuple(parts) => {
                Value::Tuple(parts.iter().map(|of| self.value(of, depth)).collect())
            }
            Shape::Array(of, len) if *len > 4 || self.left < *len || self.dice.percent(40) => {
                Value::Repeat(Box::new(self.value(of, depth)), *len)
            }
            Shape::Array(of, len) => {
                Value::Array((0..*len).map(|_| self.value(of, depth)).collect())
            }
            Shape::Struct(id) => {
                let structs = self.structs;
                let fields = structs[*id].fields.iter().enumerate();
                let base = match self.dice.percent(30) {
                    true => self.source(shape),
                    false => None,
                };
                let mut given = Vec::new();
                for (at, of) in fields {
                    if base.is_none() || self.dice.percent(40) {
                        given.push((at, self.value(of, depth)));
                    }
                }
                if self.dice.percent(30) {
                    given.reverse();
                }
                let base = base.map(|place| Box::new(Value::Copy(place)));
                Value::Struct(*id, given, base)
            }
        }
    }

    /// Returns a call of a helper function with this result, if there is one.
    pub(super) fn call(&mut self, returns: &Shape, depth: usize) -> Option<Call> {
        let helpers = self.helpers;
        let fits: Vec<usize> = (0..helpers.len())
            .filter(|index| helpers[*index].returns == *returns && self.left > 4)
            .filter(|index| {
                let buffer = helpers[*index].buffer.as_ref();
                buffer.is_none_or(|it| self.passable(it).is_some())
            })
            .collect();
        let helper = *fits.get(self.dice.below(fits.len()))?;
        let of = &helpers[helper];
        let params = of.variables[..of.params].iter();
        let values = params.map(|param| self.value(&param.shape, depth.min(1)));
        let values = values.collect();
        let buffer = of.buffer.as_ref().and_then(|it| self.passable(it));
        Some(Call {
            helper,
            values,
            buffer,
        })
    }

    /// Returns a buffer that may be passed as a parameter.
    fn passable(&self, param: &Buffer) -> Option<usize> {
        self.buffers.iter().position(|it| {
            let fits = match it.mode {
                Mode::Read | Mode::Along => param.mode == Mode::Read,
                mode => param.mode == mode,
            };
            fits && it.of == param.of
        })
    }
}
