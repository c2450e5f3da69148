//! What the threads of a cube do together, at random.

use super::Maker;
use crate::number::{Binary, Compare, ELEMENTS, INTEGERS, Ty};
use crate::tree::{
    Expr, Fold, Kind, Operation, Place, Root, Shape, Shuffle, Statement, Tally, Together,
};

impl Maker<'_> {
    /// Returns statements of all threads, with what they do together between them.
    pub(super) fn phases(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        for _ in 0..2 + self.dice.below(3) {
            statements.extend(self.phase(1));
        }
        statements
    }

    fn phase(&mut self, depth: usize) -> Vec<Statement> {
        let mut statements = Vec::new();
        if self.dice.percent(60) {
            statements = self.statements(1, 2);
        }
        let together = self.together(depth);
        statements.push(Statement::Together(together));
        statements
    }

    fn together(&mut self, depth: usize) -> Together {
        match self.dice.below(10) {
            0 if depth > 0 => {
                let var = self.variable(Shape::One(Ty::U32), false);
                let end = self.same_end();
                self.uniform.push(var);
                let body = self.inside(|it| {
                    it.bind(var);
                    (0..1 + it.dice.below(2))
                        .flat_map(|_| it.phase(depth - 1))
                        .collect()
                });
                Together::For(var, end, body)
            }
            1 if depth > 0 => {
                let condition = self.same_for_all();
                let body = self.inside(|it| it.phase(depth - 1));
                Together::If(condition, body)
            }
            2 | 3 => self.reduce(),
            4 => self.shuffle(),
            5 => self.tally(),
            6 => self.exchange(),
            _ => {
                let array = self.dice.below(self.shared.len());
                let shape = self.shared[array].clone();
                let value = self.value(&shape, 2);
                if !self.stored.contains(&array) {
                    self.stored.push(array);
                }
                Together::Store(array, value)
            }
        }
    }

    fn exchange(&mut self) -> Together {
        let array = self.dice.below(self.shared.len());
        let shape = self.shared[array].clone();
        let (value, index) = (self.value(&shape, 2), self.index_of_shared());
        let is_mut = self.dice.percent(30);
        let var = self.variable(shape, is_mut);
        self.bind(var);
        if !self.stored.contains(&array) {
            self.stored.push(array);
        }
        Together::Exchange(var, array, value, index)
    }

    fn tally(&mut self) -> Together {
        let of = self.dice.of(&[Ty::I32, Ty::U32, Ty::I64, Ty::U64]);
        let operation = self.dice.of(&[
            Operation::Add,
            Operation::Sub,
            Operation::Min,
            Operation::Max,
            Operation::And,
            Operation::Or,
            Operation::Xor,
        ]);
        let first = self.expr(of, 2);
        let (at, value, from) = (
            self.index_of_shared(),
            self.expr(of, 2),
            self.index_of_shared(),
        );
        let var = self.variable(Shape::One(of), false);
        self.bind(var);
        self.tallies.push(of);
        Together::Tally(Tally {
            var,
            array: self.tallies.len() - 1,
            first,
            operation,
            at,
            value,
            from,
        })
    }

    /// Returns numbers that are the same for all threads, with their types.
    fn same_numbers(&self) -> Vec<(Expr, Ty)> {
        let uniform = self.uniform.iter().filter(|var| self.scope.contains(var));
        let numbers = uniform.filter_map(|var| {
            let Shape::One(ty) = self.variables[*var].shape else {
                return None;
            };
            let (root, steps) = (Root::Variable(*var), Vec::new());
            let kind = Kind::Place(Place { root, steps });
            (ty != Ty::Bool).then_some((Expr { ty, kind }, ty))
        });
        numbers.collect()
    }

    /// Returns the end of a loop that all threads run as often.
    fn same_end(&mut self) -> Expr {
        let ty = Ty::U32;
        let literal = |value: usize| {
            let kind = Kind::Literal(value as u64);
            Expr { ty, kind }
        };
        let numbers = self.same_numbers();
        let found = numbers.get(self.dice.below(numbers.len()));
        match found.filter(|_| self.dice.percent(60)) {
            Some((number, _)) => {
                let kind = Kind::Cast(Box::new(number.clone()));
                let number = Box::new(Expr { ty, kind });
                let most = Box::new(literal(4));
                let kind = Kind::Binary(Binary::Rem, number, most);
                Expr { ty, kind }
            }
            None => literal(1 + self.dice.below(3)),
        }
    }

    /// Returns a condition that is the same for all threads.
    fn same_for_all(&mut self) -> Expr {
        let numbers = self.same_numbers();
        let ty = Ty::Bool;
        let Some((number, of)) = numbers.get(self.dice.below(numbers.len())).cloned() else {
            let kind = Kind::Literal(u64::from(self.dice.percent(80)));
            return Expr { ty, kind };
        };
        let literal = Kind::Literal(of.literal(self.dice));
        let literal = Box::new(Expr {
            ty: of,
            kind: literal,
        });
        let op = self.dice.of(&[Compare::Ne, Compare::Lt, Compare::Ge]);
        let kind = Kind::Compare(op, Box::new(number), literal);
        Expr { ty, kind }
    }

    fn width(&mut self) -> usize {
        let cube = self.cube.unwrap_or(1);
        let widths = [2, 4, 8, 16, 32];
        let widths: Vec<_> = widths
            .into_iter()
            .filter(|it| cube.is_multiple_of(*it))
            .collect();
        self.dice.of(&widths)
    }

    fn reduce(&mut self) -> Together {
        let of = self.dice.of(ELEMENTS);
        let width = self.dice.percent(60).then(|| self.width());
        let fold = match width.is_none() && of.is_float() {
            // The order of a sum of the cube depends on the device.
            true => self.dice.of(&[Fold::Min, Fold::Max]),
            false => self
                .dice
                .of(&[Fold::Sum, Fold::Product, Fold::Min, Fold::Max]),
        };
        let value = self.expr(of, 2);
        let is_mut = self.dice.percent(30);
        let var = self.variable(Shape::One(of), is_mut);
        self.bind(var);
        if width.is_none() && !is_mut {
            self.uniform.push(var);
        }
        Together::Reduce(var, fold, width, value)
    }

    fn shuffle(&mut self) -> Together {
        let of = self.dice.of(ELEMENTS);
        let shuffle = self
            .dice
            .of(&[Shuffle::Lane, Shuffle::Xor, Shuffle::Down, Shuffle::Up]);
        let (width, by) = (self.width(), self.dice.of(INTEGERS));
        let value = self.expr(of, 2);
        let by = match self.dice.percent(50) {
            true => Expr {
                ty: by,
                kind: Kind::Literal(self.dice.below(width + 1) as u64),
            },
            false => self.expr(by, 1),
        };
        let is_mut = self.dice.percent(30);
        let var = self.variable(Shape::One(of), is_mut);
        self.bind(var);
        Together::Shuffle(var, shuffle, width, value, by)
    }
}
