//! Sums of products. A factor that only the product uses is read where it lies, without a column.

use millstream_ir::ssa::{Op, ValueId};
use millstream_ir::{BinaryOp, DType};

use super::{Lane, Lower};
use crate::code::{MulAdd, Operand, Step};

impl Lower<'_> {
    /// Makes one step of the sum of a column and the last product, if the operation is that.
    pub(super) fn add_product(&mut self, value: ValueId, op: &Op) {
        let of = self.type_of(value);
        let Op::Binary(op, a, b) = op else {
            return;
        };
        let product = self.product.take();
        match (op, product) {
            _ if (of.dtype, of.lanes) != (DType::F32, 1) => {}
            (BinaryOp::Mul, _) => self.product = Some((value, [*a, *b])),
            (BinaryOp::Add, Some((product, factors)))
                if (*a == product) != (*b == product) && self.is_used_once(product) =>
            {
                self.join(factors);
            }
            _ => {}
        }
    }

    fn is_used_once(&self, value: ValueId) -> bool {
        self.survey.uses[value as usize] == 1
    }

    /// Joins the last two steps, which multiply and add, and the loads of factors before them.
    fn join(&mut self, factors: [ValueId; 2]) {
        let current = self.open.len() - 1;
        let steps = &self.open[current].steps;
        let [
            before @ ..,
            Step::Map {
                to: product, of, ..
            },
            Step::Map { of: sum, .. },
        ] = steps.as_slice()
        else {
            return;
        };
        let addend = usize::from(sum[0] == *product);
        let is_column = |operand: Operand| !operand.is_scalar();
        if !is_column(*product) || sum[1 - addend] != *product || !is_column(sum[addend]) {
            return;
        }
        let alone = |column: Operand| {
            let is_it =
                |value: &ValueId| matches!(self.get((*value, 0)), Lane::Column(it) if it == column);
            let mut found = factors.iter().filter(|value| is_it(value));
            found.next().is_some_and(|value| self.is_used_once(*value))
        };
        let (mut start, mut loads) = (before.len(), [None; 2]);
        for (at, step) in before.iter().enumerate().rev() {
            match step {
                Step::Scalar { .. } => {}
                Step::Load { to, .. } if to.iter().all(|to| to.is_scalar()) => {}
                Step::Load { to, .. } if to.len() == 1 && alone(to[0]) => {
                    let Some(factor) = of[..2].iter().position(|factor| *factor == to[0]) else {
                        break;
                    };
                    (start, loads[factor]) = (at, Some(at));
                }
                _ => break,
            }
        }
        let loads = loads.map(|load| load.map(|at| at - start));
        let steps = self.open[current].steps.split_off(start);
        self.emit(Step::MulAdd(Box::new(MulAdd {
            steps,
            loads,
            addend,
        })));
    }
}
