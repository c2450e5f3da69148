//! Branches and loops.

use millstream_ir::ssa::{Block, Stmt, ValueId};
use millstream_ir::{CompareOp, DType};

use super::{Lane, Lower};
use crate::code::{Affine, Condition, Operand, Path, Place, Reference, Step, Turns, varies};
use crate::kernels;

/// What a thread may leave at a statement.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Leaves {
    /// The iteration or the loop around it.
    repeated: bool,
    function: bool,
}

impl Leaves {
    fn of(block: &Block) -> Self {
        let mut leaves = Self::default();
        for stmt in block {
            let inner = match stmt {
                Stmt::Break | Stmt::Continue => Self {
                    repeated: true,
                    function: false,
                },
                Stmt::Return => Self {
                    repeated: false,
                    function: true,
                },
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let (then, otherwise) = (Self::of(then), Self::of(otherwise));
                    Self {
                        repeated: then.repeated | otherwise.repeated,
                        function: then.function | otherwise.function,
                    }
                }
                Stmt::For { body, .. } | Stmt::Loop { body } => Self {
                    repeated: false,
                    function: Self::of(body).function,
                },
                _ => Self::default(),
            };
            leaves.repeated |= inner.repeated;
            leaves.function |= inner.function;
        }
        leaves
    }
}

impl Lower<'_> {
    /// Returns the column of the current block for the threads that go on, if some may not.
    fn after(&mut self, some_leave: bool) -> Option<Operand> {
        if !some_leave {
            return None;
        }
        let current = self.open.len() - 1;
        if self.open[current].after.is_none() {
            self.open[current].after = Some(self.new_mask());
        }
        self.open[current].after
    }

    pub(super) fn leave(&mut self, stmt: &Stmt) {
        self.leaves = true;
        self.emit(Step::Leave(match stmt {
            Stmt::Break => Path::Loop,
            Stmt::Continue => Path::Iteration,
            _ => Path::Nowhere,
        }));
    }

    fn condition(&mut self, key: (ValueId, u8)) -> Condition {
        match self.get(key) {
            Lane::Scalar(place) => Condition::Scalar(place),
            Lane::Test(test) => Condition::Test(test),
            Lane::All(tests) => Condition::All(self.tests[tests].clone().into()),
            _ => Condition::Column(self.operand(key)),
        }
    }

    pub(super) fn branch(&mut self, condition: ValueId, then: &Block, otherwise: &Block) {
        let leaves = [then, otherwise].map(Leaves::of);
        let some_leave = leaves.iter().any(|leaves| *leaves != Leaves::default());
        let mut condition = self.condition((condition, 0));
        let mut blocks = [then, otherwise].map(|block| self.block(|lower| lower.stmts(block)));
        if let Condition::Test(test) = &mut condition
            && test.op == CompareOp::Ne
        {
            // The threads that are equal follow each other.
            test.op = CompareOp::Eq;
            blocks.reverse();
        }
        let [then, otherwise] = blocks;
        let mask = match condition {
            Condition::Scalar(place) if !varies(place) => Operand::scalar(0),
            _ => self.new_mask(),
        };
        let after = self.after(some_leave);
        self.emit(Step::If {
            condition,
            then,
            otherwise,
            mask,
            after,
        });
    }

    pub(super) fn repeat(&mut self, body: &Block) {
        let returns = Leaves::of(body).function;
        let body = self.block(|lower| lower.stmts(body));
        let mask = self.new_mask();
        let after = self.after(returns);
        self.emit(Step::Repeat {
            turns: Turns::Endless,
            body,
            mask,
            after,
        });
    }

    pub(super) fn repeat_for(&mut self, index: ValueId, bounds: [ValueId; 3], body: &Block) {
        let returns = Leaves::of(body).function;
        let mask = self.new_mask();
        let depth = self.open.len();
        let (turns, body) = match bounds.map(|bound| self.get((bound, 0))) {
            [Lane::Scalar(start), Lane::Scalar(end), Lane::Scalar(step)] => {
                let bounds = [start, end, step];
                let place = self.new_scalar(depth, bounds.into_iter().any(varies));
                let turns = Turns::Scalar {
                    index: place,
                    bounds,
                };
                (turns, self.body(index, Lane::Scalar(place), body))
            }
            [Lane::Affine(start), Lane::Scalar(end), Lane::Scalar(step)] => {
                let differs = start.varies() || varies(end | step);
                let base = self.new_scalar(depth, differs);
                let value = Affine { base, ..start };
                let turns = Turns::Affine {
                    base,
                    start,
                    end,
                    step,
                };
                (turns, self.body(index, Lane::Affine(value), body))
            }
            _ => self.repeat_columns(index, bounds, body),
        };
        let after = self.after(returns);
        self.emit(Step::Repeat {
            turns,
            body,
            mask,
            after,
        });
    }

    fn body(&mut self, index: ValueId, lane: Lane, body: &Block) -> Vec<Step> {
        self.block(|lower| {
            lower.values[index as usize] = vec![lane];
            lower.stmts(body);
        })
    }

    /// A loop whose index is a column.
    fn repeat_columns(
        &mut self,
        index: ValueId,
        [start, end, step]: [ValueId; 3],
        body: &Block,
    ) -> (Turns, Vec<Step>) {
        let of = DType::I64;
        let value = self.operand((start, 0));
        let to = self.new_column(of);
        let (masked, swaps) = (false, false);
        self.emit(Step::Set {
            to,
            value,
            masked,
            swaps,
        });
        let begins = self.at_least_one(step);
        let [end, step] = [end, step].map(|value| self.operand((value, 0)));
        let mut goes_on = to;
        let test = self.block(|lower| {
            goes_on = lower.compared(CompareOp::Lt, of, [to, end]);
        });
        let advance = self.block(|lower| {
            let next = lower.new_column(of);
            let of = [to, step, Operand::scalar(0)];
            lower.emit(match kernels::advance(step.is_scalar(), lower.level) {
                Some(run) => Step::Map { run, to: next, of },
                None => {
                    let f =
                        |index: u64, step: u64| (index as i64).saturating_add(step as i64) as u64;
                    let f = Reference::Binary(f);
                    Step::Each { f, to: next, of }
                }
            });
            lower.emit(Step::Set {
                to,
                value: next,
                masked: false,
                swaps: false,
            });
        });
        let body = self.body(index, Lane::Column(to), body);
        let turns = Turns::Column {
            begins,
            test,
            goes_on,
            advance,
        };
        (turns, body)
    }

    /// Returns the condition that a step is at least one.
    fn at_least_one(&mut self, step: ValueId) -> Condition {
        let one = self.constant(1);
        let compared = |lower: &mut Self, of| lower.compared(CompareOp::Ge, DType::I64, of);
        match self.get((step, 0)) {
            Lane::Scalar(step) => {
                let f = millstream_ir::scalar::compare(CompareOp::Ge, DType::I64);
                let place: Place = self.scalar(Reference::Binary(f), &[step, one]);
                Condition::Scalar(place)
            }
            _ => {
                let step = self.operand((step, 0));
                Condition::Column(compared(self, [step, Operand::scalar(one)]))
            }
        }
    }
}
