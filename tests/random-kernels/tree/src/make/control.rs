//! Random branches and jumps.

use super::Maker;
use crate::number::{INTEGERS, Ty};
use crate::tree::{Arm, Block, Kind, Pattern, Shape, Statement};

impl Maker<'_> {
    pub(super) fn conditional(&mut self, ty: Ty, depth: usize) -> Kind {
        let condition = self.boxed(Ty::Bool, depth);
        let a = self.block(ty, depth, false);
        let b = self.block(ty, depth, a.value.is_some());
        Kind::If(condition, a, b)
    }

    /// Returns a block with a value, or one that ends with a jump.
    fn block(&mut self, ty: Ty, depth: usize, may_jump: bool) -> Block {
        self.inside(|it| {
            let mut statements = Vec::new();
            if it.dice.percent(25) {
                statements = it.statements(2, 1);
            }
            if may_jump
                && it.dice.percent(12)
                && let Some(jump) = it.jump()
            {
                statements.push(jump);
                return Block {
                    statements,
                    value: None,
                };
            }
            let value = Some(it.boxed(ty, depth));
            Block { statements, value }
        })
    }

    pub(super) fn choice(&mut self, ty: Ty, depth: usize) -> Kind {
        let of = self.dice.of(INTEGERS);
        let value = self.boxed(of, depth);
        let arms = self.arms(of, |it, may_jump| it.block(ty, depth, may_jump));
        Kind::Match(value, arms)
    }

    /// Returns arms that cover all integers of a type.
    pub(super) fn arms(
        &mut self,
        of: Ty,
        mut block: impl FnMut(&mut Self, bool) -> Block,
    ) -> Vec<Arm> {
        let mut arms = Vec::new();
        for _ in 0..1 + self.dice.below(3) {
            arms.push(self.inside(|it| {
                let pattern = it.pattern(of);
                let must_guard = matches!(pattern, Pattern::Bind(_));
                let guard = must_guard || it.dice.percent(20);
                let guard = guard.then(|| it.without_jumps(|it| it.expr(Ty::Bool, 1)));
                let block = block(it, false);
                Arm {
                    pattern,
                    guard,
                    block,
                }
            }));
        }
        arms.push(self.inside(|it| {
            let pattern = match it.dice.percent(40) {
                true => it.bound(of),
                false => Pattern::Any,
            };
            let block = block(it, true);
            Arm {
                pattern,
                guard: None,
                block,
            }
        }));
        arms
    }

    fn bound(&mut self, of: Ty) -> Pattern {
        let var = self.variable(Shape::One(of), false);
        self.bind(var);
        Pattern::Bind(var)
    }

    fn pattern(&mut self, of: Ty) -> Pattern {
        match self.dice.below(6) {
            0 => self.bound(of),
            1 | 2 => {
                let (a, b) = (of.random(self.dice), of.random(self.dice));
                let (a, b) = if of.int(a) < of.int(b) {
                    (a, b)
                } else {
                    (b, a)
                };
                let is_closed = a == b || self.dice.percent(50);
                match self.dice.below(3) {
                    0 => Pattern::Range(Some(a), None, false),
                    1 => Pattern::Range(None, Some(b), true),
                    _ => Pattern::Range(Some(a), Some(b), is_closed),
                }
            }
            _ => {
                let literals = 1 + self.dice.below(3);
                Pattern::Literals((0..literals).map(|_| of.random(self.dice)).collect())
            }
        }
    }

    /// Returns a jump, if one is possible here.
    pub(super) fn jump(&mut self) -> Option<Statement> {
        if !self.loops.is_empty() && self.dice.percent(80) {
            let id = match self.dice.percent(75) {
                true => *self.loops.last()?,
                false => self.dice.of(&self.loops),
            };
            return Some(match self.dice.percent(50) {
                true => Statement::Break(id),
                false => Statement::Continue(id),
            });
        }
        let value = self.returns.clone()?.map(|of| self.value(&of, 1));
        Some(Statement::Return(value))
    }
}
