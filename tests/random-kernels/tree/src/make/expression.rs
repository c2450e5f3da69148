//! Random expressions.

use super::Maker;
use crate::method::giving;
use crate::number::{ALL, Binary, Compare, INTEGERS, Ty, Unary};
use crate::tree::{Expr, Kind, Shape};

impl Maker<'_> {
    /// Returns an expression that is nested at most so deep.
    pub(super) fn expr(&mut self, ty: Ty, depth: usize) -> Expr {
        self.left = self.left.saturating_sub(1);
        if depth == 0 || self.left == 0 || self.dice.percent(20) {
            return self.leaf(ty);
        }
        let inner = depth - 1;
        let kind = match self.dice.below(23) {
            20 | 21 => self.method(ty, inner),
            22 => match self.atomic_of(ty, inner) {
                Some(atomic) => Kind::Atomic(atomic),
                None => self.method(ty, inner),
            },
            0 | 1 => Kind::Cast(self.castable(ty, inner)),
            2 | 3 => self.conditional(ty, inner),
            4 => self.choice(ty, inner),
            5 | 6 => match self.call(&Shape::One(ty), inner) {
                Some(call) => Kind::Call(call),
                None => return self.leaf(ty),
            },
            _ if ty == Ty::Bool => self.condition(inner),
            _ if ty.is_float() => self.of_float(ty, inner),
            _ => self.of_int(ty, inner),
        };
        match kind {
            // Nothing is cast to a `bool`.
            Kind::Cast(_) if ty == Ty::Bool => self.leaf(ty),
            kind => Expr { ty, kind },
        }
    }

    pub(super) fn boxed(&mut self, ty: Ty, depth: usize) -> Box<Expr> {
        Box::new(self.expr(ty, depth))
    }

    fn castable(&mut self, _: Ty, depth: usize) -> Box<Expr> {
        let from = self.dice.of(ALL);
        self.boxed(from, depth)
    }

    fn method(&mut self, ty: Ty, depth: usize) -> Kind {
        let (method, operands) = self.dice.of(&giving(ty));
        let operands = operands.into_iter().map(|of| self.expr(of, depth));
        Kind::Method(method, operands.collect())
    }

    fn of_int(&mut self, ty: Ty, depth: usize) -> Kind {
        match self.dice.below(8) {
            0 => {
                let signed = [Unary::Neg, Unary::Not, Unary::Abs];
                let op = self.dice.of(if ty.is_signed() {
                    &signed
                } else {
                    &signed[1..]
                });
                Kind::Unary(op, self.boxed(ty, depth))
            }
            1 => {
                let by = self.dice.of(INTEGERS);
                Kind::Shift(
                    self.dice.percent(50),
                    self.boxed(ty, depth),
                    self.boxed(by, depth),
                )
            }
            _ => {
                let op = self.dice.of(&[
                    Binary::Add,
                    Binary::Sub,
                    Binary::Mul,
                    Binary::Div,
                    Binary::Rem,
                    Binary::And,
                    Binary::Or,
                    Binary::Xor,
                    Binary::Min,
                    Binary::Max,
                ]);
                Kind::Binary(op, self.boxed(ty, depth), self.boxed(ty, depth))
            }
        }
    }

    fn of_float(&mut self, ty: Ty, depth: usize) -> Kind {
        if self.dice.percent(25) {
            let op = self
                .dice
                .of(&[Unary::Neg, Unary::Abs, Unary::Floor, Unary::Ceil]);
            return Kind::Unary(op, self.boxed(ty, depth));
        }
        let op = self.dice.of(&[
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Div,
            Binary::Rem,
            Binary::Min,
            Binary::Max,
        ]);
        Kind::Binary(op, self.boxed(ty, depth), self.boxed(ty, depth))
    }

    fn condition(&mut self, depth: usize) -> Kind {
        let bool = Ty::Bool;
        match self.dice.below(10) {
            0 => Kind::Unary(Unary::Not, self.boxed(bool, depth)),
            1 | 2 => Kind::Lazy(
                self.dice.percent(50),
                self.boxed(bool, depth),
                self.boxed(bool, depth),
            ),
            3 => {
                let op = self.dice.of(&[Binary::And, Binary::Or, Binary::Xor]);
                Kind::Binary(op, self.boxed(bool, depth), self.boxed(bool, depth))
            }
            _ => {
                let of = self.dice.of(ALL);
                let op = self.dice.of(&[
                    Compare::Eq,
                    Compare::Ne,
                    Compare::Lt,
                    Compare::Le,
                    Compare::Gt,
                    Compare::Ge,
                ]);
                Kind::Compare(op, self.boxed(of, depth), self.boxed(of, depth))
            }
        }
    }
}
