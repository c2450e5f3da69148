//! Random statements.

use super::Maker;
use super::shape::{composite, passed};
use crate::number::{ALL, Binary, INTEGERS, Ty};
use crate::tree::{
    Block, Expr, Kind, Mode, Operator, Range, RangeKind, Root, Shape, Statement, Var,
};

impl Maker<'_> {
    /// Returns statements, which are nested at most so deep.
    pub(super) fn statements(&mut self, most: usize, depth: usize) -> Vec<Statement> {
        let mut statements = Vec::new();
        for _ in 0..1 + self.dice.below(most + 2) {
            if self.left == 0 {
                break;
            }
            statements.push(self.statement(depth));
        }
        statements
    }

    fn statement(&mut self, depth: usize) -> Statement {
        let is_flat = depth == 0;
        match self.dice.below(21) {
            20 => self.atomic().unwrap_or_else(|| self.declare()),
            0..=4 => self.declare(),
            5 => self.later(),
            6 | 7 => self.apart(),
            8 | 9 if !is_flat => self.branch(depth - 1),
            10 if !is_flat => self.choose(depth - 1),
            11 | 12 if !is_flat => self.for_loop(depth - 1),
            13 | 14 if !is_flat => self.counted(depth - 1),
            15 if !is_flat => self.leave(depth - 1),
            _ => self.assign().unwrap_or_else(|| self.declare()),
        }
    }

    fn declare(&mut self) -> Statement {
        let is_mut = self.dice.percent(60);
        let shape = match self.dice.percent(40) {
            true => composite(self.dice, self.structs),
            false => Shape::One(self.dice.of(ALL)),
        };
        let depth = if matches!(shape, Shape::One(_)) { 3 } else { 2 };
        let value = self.value(&shape, depth);
        let var = self.variable(shape, is_mut);
        self.bind(var);
        Statement::Let(var, value)
    }

    fn later(&mut self) -> Statement {
        let of = passed(self.dice, self.structs);
        let condition = self.expr(Ty::Bool, 2);
        let (a, b) = (self.value(&of, 2), self.value(&of, 2));
        let var = self.variable(of, false);
        // The arms do not see it, so it hides no name that they have.
        self.variables[var].name = format!("v{var}");
        self.bind(var);
        Statement::Later(var, condition, a, b)
    }

    fn apart(&mut self) -> Statement {
        let returns = self.helpers.iter().map(|helper| helper.returns.clone());
        let mut tuples: Vec<_> = returns.filter(|it| matches!(it, Shape::Tuple(_))).collect();
        let parts = [(); 2].map(|()| passed(self.dice, self.structs));
        tuples.push(Shape::Tuple(parts.to_vec()));
        let tuple = self.dice.of(&tuples);
        let value = self.value(&tuple, 3);
        let Shape::Tuple(parts) = tuple else {
            unreachable!("a tuple");
        };
        let vars: Vec<Var> = parts
            .into_iter()
            .map(|of| {
                let is_mut = self.dice.percent(50);
                let var = self.variable(of, is_mut);
                self.variables[var].name = format!("v{var}");
                var
            })
            .collect();
        vars.iter().for_each(|var| self.bind(*var));
        Statement::Apart(vars, value)
    }

    fn branch(&mut self, depth: usize) -> Statement {
        let condition = self.expr(Ty::Bool, 2);
        let then = self.inside(|it| it.statements(2, depth));
        let otherwise = self.dice.percent(50);
        let otherwise = otherwise.then(|| self.inside(|it| it.statements(2, depth)));
        Statement::If(condition, then, otherwise)
    }

    fn choose(&mut self, depth: usize) -> Statement {
        let of = self.dice.of(INTEGERS);
        let value = self.expr(of, 2);
        let arms = self.arms(of, |it, _| Block {
            statements: it.statements(1, depth),
            value: None,
        });
        Statement::Match(value, arms)
    }

    /// `if .. { jump }`.
    fn leave(&mut self, depth: usize) -> Statement {
        let condition = self.expr(Ty::Bool, 2);
        let then = self.inside(|it| {
            let mut statements = if it.dice.percent(40) {
                it.statements(1, depth)
            } else {
                Vec::new()
            };
            statements.extend(it.jump());
            statements
        });
        Statement::If(condition, then, None)
    }

    fn looped(&mut self, depth: usize, id: usize) -> Vec<Statement> {
        self.loops.push(id);
        let body = self.inside(|it| it.statements(3, depth));
        self.loops.pop();
        body
    }

    fn loop_id(&mut self) -> usize {
        self.loops_made += 1;
        self.loops_made
    }

    fn for_loop(&mut self, depth: usize) -> Statement {
        let of = self.dice.of(INTEGERS);
        // A start near the edge of the type, at times.
        let start = match self.dice.percent(20) {
            true => of.int(of.random(self.dice)),
            false => self.dice.below(6) as i128 - if of.is_signed() { 3 } else { 0 },
        };
        let greatest = of.int(of.cut(i128::MAX)).max(of.int(of.cut(-1)));
        let end = start + self.dice.below(5) as i128;
        let greatest = if of.is_signed() {
            of.int(of.cut(-1) >> 1)
        } else {
            greatest
        };
        let end = end.min(greatest);
        let literal = |value| Expr {
            ty: of,
            kind: Kind::Literal(of.cut(value)),
        };
        let kind = match self.dice.below(6) {
            0 => RangeKind::Closed,
            1 => RangeKind::Reversed,
            2 => RangeKind::Steps(1 + self.dice.below(3) as u64),
            _ => RangeKind::HalfOpen,
        };
        let end = match self.dice.percent(35) && start >= 0 && !of.is_signed() {
            // An end that only the thread knows.
            true => {
                let value = self.boxed(of, 1);
                let five = Box::new(literal(5));
                Expr {
                    ty: of,
                    kind: Kind::Binary(Binary::Rem, value, five),
                }
            }
            false => literal(end),
        };
        let range = Range {
            start: literal(start),
            end,
            kind,
        };
        let id = self.loop_id();
        let var = self.variable(Shape::One(of), false);
        let body = self.inside(|it| {
            it.bind(var);
            it.looped(depth, id)
        });
        Statement::For(id, var, range, body)
    }

    /// `while` and `loop`.
    fn counted(&mut self, depth: usize) -> Statement {
        let (of, most, id) = (
            self.dice.of(INTEGERS),
            1 + self.dice.below(4) as u64,
            self.loop_id(),
        );
        let counter = self.variable(Shape::One(of), false);
        self.variables[counter].name = format!("c{counter}");
        self.bind(counter);
        if self.dice.percent(50) {
            return Statement::Loop(id, counter, most, self.looped(depth, id));
        }
        let condition = self.dice.percent(60);
        let condition = condition.then(|| self.without_jumps(|it| it.expr(Ty::Bool, 2)));
        Statement::While(id, counter, most, condition, self.looped(depth, id))
    }

    /// Assigns to one of the places, if there is one.
    fn assign(&mut self) -> Option<Statement> {
        let (place, shape) = self.target()?;
        let is_stored_only =
            matches!(place.root, Root::Own(it) if self.buffers[it].mode == Mode::Whole);
        let of = match shape {
            Shape::One(of) if !is_stored_only && self.dice.percent(55) => of,
            shape => {
                let value = self.value(&shape, 3);
                return Some(Statement::Assign(place, value));
            }
        };
        let operator = self.operator(of);
        let value = match operator {
            Operator::Shift(_) => self.dice.of(INTEGERS),
            Operator::Binary(_) => of,
        };
        let value = self.expr(value, 3);
        Some(Statement::Change(place, operator, value))
    }

    fn operator(&mut self, of: Ty) -> Operator {
        let float = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div];
        let bits = [Binary::And, Binary::Or, Binary::Xor];
        match of {
            Ty::Bool => Operator::Binary(self.dice.of(&bits)),
            of if of.is_float() => Operator::Binary(self.dice.of(&float)),
            _ if self.dice.percent(20) => Operator::Shift(self.dice.percent(50)),
            _ => {
                let all: Vec<_> = float
                    .iter()
                    .chain(&bits)
                    .chain(&[Binary::Rem])
                    .copied()
                    .collect();
                Operator::Binary(self.dice.of(&all))
            }
        }
    }
}
