//! A function as a list of steps: blocks become jumps, and each operation the function that computes it.

use std::sync::Arc;

use millstream_ir::scalar;
use millstream_ir::ssa::{
    AtomicOp, Axis, Block, Function, Memory, Op, Position, Scope, Shuffle, Stmt, Text, Type,
    ValueId,
};

use super::mistake::SourceLine;

/// What a missing function of [`scalar`] would contradict.
const CHECKED: &str = "the verifier has checked that the type has the operation";

/// An element, or the first of several: the memory, and the value with the index.
pub(super) type Place = (Memory, Option<ValueId>);

/// What a thread does next. It goes on with the step behind it, unless stated otherwise.
pub(super) enum Step {
    Let {
        value: ValueId,
        by: Compute,
    },
    Load {
        value: ValueId,
        from: Place,
    },
    Store {
        to: Place,
        value: ValueId,
    },
    /// An atomic operation.
    Atomic {
        value: ValueId,
        op: AtomicOp,
        on: Place,
    },
    /// Prints, or fails.
    Say {
        fails: bool,
        text: Text,
        values: Vec<ValueId>,
    },
    /// Waits for all threads of the cube.
    Barrier,
    /// Likewise, and combines their values.
    Reduce {
        value: ValueId,
        scope: Scope,
        f: scalar::Binary,
        of: ValueId,
    },
    /// Likewise, and takes the value of another thread of a subgroup.
    Shuffle {
        value: ValueId,
        from: Shuffle,
        width: u32,
        of: ValueId,
        by: ValueId,
    },
    Jump(usize),
    /// Jumps if the condition is false.
    Unless {
        condition: ValueId,
        to: usize,
    },
    /// Jumps if a `for` has no iteration with this index.
    UnlessBelow {
        index: ValueId,
        end: ValueId,
        step: ValueId,
        to: usize,
    },
    /// Adds to the index of a `for`, and jumps back.
    Next {
        index: ValueId,
        step: ValueId,
        to: usize,
    },
}

/// How each lane of a value is computed.
pub(super) enum Compute {
    Const(u64),
    /// A launch word.
    Scalar(u16),
    Position(Position, Axis),
    Lane(ValueId, u8),
    Splat(ValueId),
    Pack(Vec<ValueId>),
    Unary(scalar::Unary, ValueId),
    Binary(scalar::Binary, [ValueId; 2]),
    Ternary(scalar::Ternary, [ValueId; 3]),
}

/// A checked function, ready to run.
pub(crate) struct Code {
    pub(super) function: Function,
    pub(super) steps: Vec<Step>,
    /// The line of each step, 0 if it is unknown.
    lines: Vec<u32>,
    file: Arc<str>,
    /// Where the lanes of each value are among the values of a thread.
    pub(super) values: Vec<usize>,
    /// The number of values of a thread.
    pub(super) values_len: usize,
}

impl Code {
    /// Compiles a function.
    ///
    /// # Errors
    /// The function is invalid, or has an operation that is not supported.
    pub(crate) fn new(function: &Function) -> Result<Self, String> {
        function.check().map_err(|why| why.to_string())?;
        let mut writer = Writer {
            function,
            steps: Vec::new(),
            lines: Vec::new(),
            line: 0,
            loops: Vec::new(),
            returns: Vec::new(),
        };
        writer.block(&function.body)?;
        let returns = std::mem::take(&mut writer.returns);
        writer.land(&returns);
        let Writer { steps, lines, .. } = writer;
        let mut values_len = 0;
        let values = function.values.iter().map(|of| {
            let first = values_len;
            values_len += usize::from(of.lanes);
            first
        });
        Ok(Self {
            values: values.collect(),
            values_len,
            file: function.file.as_str().into(),
            function: function.clone(),
            steps,
            lines,
        })
    }

    pub(super) fn type_of(&self, value: ValueId) -> Type {
        self.function.values[value as usize]
    }

    /// Returns the number of threads of a cube.
    pub(super) fn threads(&self) -> u32 {
        self.function.threads.iter().product()
    }

    /// Returns where a step is in the source, if this is known.
    pub(super) fn line(&self, step: usize) -> Option<SourceLine> {
        let line = self.lines.get(step).copied().filter(|line| *line > 0)?;
        let file = self.file.clone();
        Some(SourceLine { file, line })
    }
}

/// The jumps that leave a loop, and those that leave an iteration of it.
#[derive(Default)]
struct Exits {
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

struct Writer<'a> {
    function: &'a Function,
    steps: Vec<Step>,
    lines: Vec<u32>,
    line: u32,
    /// The open loops.
    loops: Vec<Exits>,
    /// The jumps that end the thread.
    returns: Vec<usize>,
}

impl Writer<'_> {
    /// Adds a step, and returns its index.
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.lines.push(self.line);
        self.steps.len() - 1
    }

    /// Adds a jump whose target [`Writer::land`] sets.
    fn jump(&mut self) -> usize {
        self.push(Step::Jump(usize::MAX))
    }

    /// Makes the next step the target of these jumps.
    fn land(&mut self, jumps: &[usize]) {
        let target = self.steps.len();
        for jump in jumps {
            match &mut self.steps[*jump] {
                Step::Jump(to) | Step::Unless { to, .. } | Step::UnlessBelow { to, .. } => {
                    *to = target;
                }
                _ => debug_assert!(false, "step {jump} is a jump"),
            }
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), String> {
        match stmt {
            Stmt::Let { value, op } => {
                let step = self.define(*value, op)?;
                self.push(step);
            }
            Stmt::Store { to, at, value } => {
                let (to, value) = ((*to, *at), *value);
                self.push(Step::Store { to, value });
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                let condition = *condition;
                let skip = self.push(Step::Unless { condition, to: 0 });
                self.block(then)?;
                let end = self.jump();
                self.land(&[skip]);
                self.block(otherwise)?;
                self.land(&[end]);
            }
            Stmt::For {
                index,
                start,
                end,
                step,
                body,
                ..
            } => {
                let (index, end, step) = (*index, *end, *step);
                let by = Compute::Unary(|start| start, *start);
                self.push(Step::Let { value: index, by });
                let to = usize::MAX;
                let head = self.push(Step::UnlessBelow {
                    index,
                    end,
                    step,
                    to,
                });
                let exits = self.looped(body)?;
                self.land(&exits.continues);
                let to = head;
                self.push(Step::Next { index, step, to });
                self.land(&[head]);
                self.land(&exits.breaks);
            }
            Stmt::Loop { body } => {
                let head = self.steps.len();
                let exits = self.looped(body)?;
                self.land(&exits.continues);
                self.push(Step::Jump(head));
                self.land(&exits.breaks);
            }
            Stmt::Break => self.leave(|exits| &mut exits.breaks),
            Stmt::Continue => self.leave(|exits| &mut exits.continues),
            Stmt::Return => {
                let jump = self.jump();
                self.returns.push(jump);
            }
            Stmt::Barrier => {
                self.push(Step::Barrier);
            }
            Stmt::Say(say) => {
                let text = Text::try_from(&**say).map_err(|why| why.to_string())?;
                let (fails, values) = (say.fails, say.values.clone());
                self.push(Step::Say {
                    fails,
                    text,
                    values,
                });
            }
            Stmt::Line(line) => self.line = *line,
        }
        Ok(())
    }

    /// Adds the body of a loop, and returns the jumps that leave it.
    fn looped(&mut self, body: &Block) -> Result<Exits, String> {
        self.loops.push(Exits::default());
        self.block(body)?;
        Ok(self.loops.pop().unwrap_or_default())
    }

    fn leave(&mut self, exits: impl FnOnce(&mut Exits) -> &mut Vec<usize>) {
        let jump = self.jump();
        if let Some(innermost) = self.loops.last_mut() {
            exits(innermost).push(jump);
        }
    }

    fn define(&self, value: ValueId, op: &Op) -> Result<Step, String> {
        let of = |value: &ValueId| self.function.values[*value as usize].dtype;
        let dtype = of(&value);
        let by = match op {
            Op::Load(memory, at) => {
                let from = (*memory, *at);
                return Ok(Step::Load { value, from });
            }
            Op::Reduce(scope, op, a) => {
                let by = scalar::combines(*op);
                let f = by.and_then(|by| scalar::binary(by, of(a)));
                let (scope, f, of) = (*scope, f.expect(CHECKED), *a);
                return Ok(Step::Reduce {
                    value,
                    scope,
                    f,
                    of,
                });
            }
            Op::Atomic(op, memory, at) => {
                let (op, on) = (*op, (*memory, Some(*at)));
                return Ok(Step::Atomic { value, op, on });
            }
            Op::Shuffle(from, width, of, by) => {
                let (from, width, of, by) = (*from, *width, *of, *by);
                return Ok(Step::Shuffle {
                    value,
                    from,
                    width,
                    of,
                    by,
                });
            }
            Op::Const(bits) => Compute::Const(*bits),
            Op::Scalar(index) => Compute::Scalar(*index),
            Op::Position(position, axis) => Compute::Position(*position, *axis),
            Op::Lane(a, lane) => Compute::Lane(*a, *lane),
            Op::Splat(a) => Compute::Splat(*a),
            Op::Pack(lanes) => Compute::Pack(lanes.clone()),
            Op::Bits(a) => Compute::Unary(|bits| bits, *a),
            Op::Unary(op, a) => Compute::Unary(scalar::unary(*op, dtype).expect(CHECKED), *a),
            Op::Cast(a) => Compute::Unary(scalar::cast(of(a), dtype), *a),
            Op::Binary(op, a, b) => {
                Compute::Binary(scalar::binary(*op, dtype).expect(CHECKED), [*a, *b])
            }
            Op::Compare(op, a, b) => Compute::Binary(scalar::compare(*op, of(a)), [*a, *b]),
            Op::Random(seed, counter) => Compute::Binary(scalar::random, [*seed, *counter]),
            Op::Select(condition, a, b) => Compute::Ternary(scalar::select, [*condition, *a, *b]),
            Op::Fma(a, b, c) => Compute::Ternary(scalar::fma(dtype).expect(CHECKED), [*a, *b, *c]),
            other => return Err(format!("the simulator does not support `{other:?}`")),
        };
        Ok(Step::Let { value, by })
    }
}
