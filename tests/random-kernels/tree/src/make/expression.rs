//! Random expressions.

use super::Maker;
use crate::number::{ALL, Binary, Compare, INTEGERS, Ty, Unary};
use crate::tree::{
    Arm, Block, Call, ELEMENTS_MIN, Expr, Index, Kind, Mode, Pattern, Shape, Statement,
};

const UNSIGNED: &[Ty] = &[Ty::U8, Ty::U16, Ty::U32, Ty::U64, Ty::Usize];
const SIGNED: &[Ty] = &[Ty::I8, Ty::I16, Ty::I32, Ty::I64, Ty::Isize];

impl Maker<'_> {
    /// Returns an expression that is nested at most so deep.
    pub(super) fn expr(&mut self, ty: Ty, depth: usize) -> Expr {
        self.left = self.left.saturating_sub(1);
        if depth == 0 || self.left == 0 || self.dice.percent(20) {
            return self.leaf(ty);
        }
        let inner = depth - 1;
        let kind = match self.dice.below(20) {
            0 | 1 => Kind::Cast(self.castable(ty, inner)),
            2 | 3 => self.conditional(ty, inner),
            4 => self.choice(ty, inner),
            5 | 6 => match self.call(&[ty], inner) {
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

    fn conditional(&mut self, ty: Ty, depth: usize) -> Kind {
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

    fn choice(&mut self, ty: Ty, depth: usize) -> Kind {
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

    /// Returns a call of a helper function with these results, if there is one.
    pub(super) fn call(&mut self, returns: &[Ty], depth: usize) -> Option<Call> {
        let helpers = self.helpers;
        let fits: Vec<usize> = (0..helpers.len())
            .filter(|index| helpers[*index].returns == returns && self.left > 4)
            .filter(|index| {
                helpers[*index]
                    .buffer
                    .is_none_or(|of| self.readable(of).is_some())
            })
            .collect();
        if fits.is_empty() {
            return None;
        }
        let helper = self.dice.of(&fits);
        let of = &helpers[helper];
        let values = of.variables[..of.params]
            .iter()
            .map(|param| match param.shape {
                Shape::One(of) => self.expr(of, depth.min(1)),
                _ => unreachable!("parameters are numbers"),
            });
        let values = values.collect();
        let buffer = of.buffer.and_then(|of| self.readable(of));
        Some(Call {
            helper,
            values,
            buffer,
        })
    }

    /// Returns a buffer with elements of a type that may be passed to a function.
    fn readable(&self, of: Ty) -> Option<usize> {
        let is_read = |mode| matches!(mode, Mode::Read | Mode::Along);
        self.buffers
            .iter()
            .position(|buffer| buffer.of == of && is_read(buffer.mode))
    }

    /// Returns an expression without parts.
    fn leaf(&mut self, ty: Ty) -> Expr {
        let mut found = Vec::new();
        for var in &self.scope {
            match &self.variables[*var].shape {
                Shape::One(of) if *of == ty => found.push(Kind::Name(*var)),
                Shape::Tuple(parts) => {
                    let parts = parts.iter().enumerate().filter(|(_, of)| **of == ty);
                    found.extend(parts.map(|(part, _)| Kind::Part(*var, part)));
                }
                _ => {}
            }
        }
        let arrays: Vec<_> = self
            .scope
            .iter()
            .copied()
            .filter(|var| matches!(self.variables[*var].shape, Shape::Array(of, _) if of == ty))
            .collect();
        for var in arrays {
            let index = self.index_of_array(var);
            found.push(Kind::Element(var, index));
        }
        for index in 0..self.buffers.len() {
            let buffer = self.buffers[index];
            match buffer.mode {
                Mode::Read | Mode::Along if buffer.of == ty => {
                    let at = self.index(buffer.mode == Mode::Along, ELEMENTS_MIN);
                    found.push(Kind::Load(index, at));
                }
                Mode::Own | Mode::Reversed if buffer.of == ty => found.push(Kind::Own(index)),
                _ => {}
            }
            if ty == Ty::Usize && self.dice.percent(20) {
                found.push(Kind::Len(index));
            }
        }
        if ty == Ty::Usize && self.is_kernel {
            found.push(Kind::Thread(self.dice.percent(60)));
            if self.dice.percent(20) {
                found.push(Kind::Threads);
            }
        }
        let is_literal = self.dice.percent(20);
        let kind = match found.is_empty() {
            false if !is_literal => self.dice.of(&found),
            true if !is_literal => self.converted(ty),
            _ => Kind::Literal(self.literal(ty)),
        };
        Expr { ty, kind }
    }

    /// Returns a literal, of floats none that is zero: Mesa's driver for the processor takes `x + 0.0` for `x`, which differs
    /// if `x` is `-0.0`.
    fn literal(&mut self, ty: Ty) -> u64 {
        let bits = ty.random(self.dice);
        match ty.is_float() && ty.compare(Compare::Eq, bits, 0) {
            true => Ty::U8.cast(1, ty),
            false => bits,
        }
    }

    /// Returns a value of another type in this type.
    fn converted(&mut self, ty: Ty) -> Kind {
        let mut found = Vec::new();
        for var in &self.scope {
            if let Shape::One(of) = self.variables[*var].shape {
                found.push(Expr {
                    ty: of,
                    kind: Kind::Name(*var),
                });
            }
        }
        for index in 0..self.buffers.len() {
            let buffer = self.buffers[index];
            if matches!(buffer.mode, Mode::Read | Mode::Along) {
                let at = self.index(buffer.mode == Mode::Along, ELEMENTS_MIN);
                found.push(Expr {
                    ty: buffer.of,
                    kind: Kind::Load(index, at),
                });
            }
        }
        if found.is_empty() {
            return Kind::Literal(ty.random(self.dice));
        }
        let from = self.dice.of(&found);
        match ty == Ty::Bool {
            false => Kind::Cast(Box::new(from)),
            true => {
                let literal = Kind::Literal(from.ty.random(self.dice));
                let literal = Expr {
                    ty: from.ty,
                    kind: literal,
                };
                let op = self.dice.of(&[Compare::Lt, Compare::Ge, Compare::Ne]);
                Kind::Compare(op, Box::new(from), Box::new(literal))
            }
        }
    }

    pub(super) fn index_of_array(&mut self, var: usize) -> Index {
        let Shape::Array(_, len) = self.variables[var].shape else {
            unreachable!("an array");
        };
        self.index(false, len)
    }

    /// Returns an index below `len`.
    fn index(&mut self, is_along: bool, len: usize) -> Index {
        if is_along && self.is_kernel && self.dice.percent(60) {
            return Index::Thread;
        }
        let depth = usize::from(self.left > 8);
        match self.dice.below(3) {
            0 => {
                let of = self.dice.of(UNSIGNED);
                Index::Rest(self.boxed_leaf(of, depth), len as u64)
            }
            1 if len.is_power_of_two() => {
                let of = self.dice.of(SIGNED);
                Index::Masked(self.boxed_leaf(of, depth), len as u64 - 1)
            }
            _ => {
                let of = self.dice.of(INTEGERS);
                Index::Usize(self.boxed_leaf(of, depth))
            }
        }
    }

    /// Returns a small expression: a name or a literal, or a sum of them.
    fn boxed_leaf(&mut self, ty: Ty, depth: usize) -> Box<Expr> {
        let name = self
            .scope
            .iter()
            .copied()
            .find(|var| self.variables[*var].shape == Shape::One(ty));
        let leaf =
            match name {
                Some(var) => Kind::Name(var),
                None if ty == Ty::Usize && self.is_kernel => Kind::Thread(true),
                None => {
                    let from = self.scope.iter().copied().find_map(|var| {
                        match self.variables[var].shape {
                            Shape::One(of) if of != ty => Some(Expr {
                                ty: of,
                                kind: Kind::Name(var),
                            }),
                            _ => None,
                        }
                    });
                    match from {
                        Some(from) => Kind::Cast(Box::new(from)),
                        None => Kind::Literal(ty.random(self.dice)),
                    }
                }
            };
        let leaf = Expr { ty, kind: leaf };
        if depth == 0 {
            return Box::new(leaf);
        }
        let literal = Expr {
            ty,
            kind: Kind::Literal(ty.random(self.dice)),
        };
        let kind = Kind::Binary(Binary::Add, Box::new(leaf), Box::new(literal));
        Box::new(Expr { ty, kind })
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
        let returns = self.returns.clone()?;
        let values = returns.iter().map(|of| self.expr(*of, 1)).collect();
        Some(Statement::Return(values))
    }
}
