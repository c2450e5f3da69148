//! The state of a builder: the function so far, and its open blocks. Values are ids here; `handles` and `build` are the
//! user's interface.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::{Array, Block, Function, Memory, Op, Scalar, Stmt, Type, ValueId};
use crate::{DType, ProgramError, scalar};

/// Builds a [`Function`]: values are Rust values with operators.
///
/// ```
/// use millstream_ir::{DType, ReduceOp, UnaryOp, ssa::Builder};
///
/// // A cube for each row: y = exp(x - max) / sum(exp(x - max)).
/// let k = Builder::new("softmax", [128, 1, 1]);
/// let (x, y) = (k.read("x", DType::F32), k.update("y", DType::F32));
/// let columns = k.scalar("columns", DType::I64);
///
/// let (first, threads, row) = (k.thread(), k.threads(), k.cube() * columns);
/// let greatest = k.var("greatest", f32::NEG_INFINITY);
/// k.range(first, columns, threads, |i| greatest.set(greatest.get().max(x.get(row + i))));
/// let greatest = greatest.get().reduce(ReduceOp::Max);
///
/// let sum = k.var("sum", 0.0_f32);
/// k.range(first, columns, threads, |i| {
///     let e = (x.get(row + i) - greatest).unary(UnaryOp::Exp);
///     y.set(row + i, e);
///     sum.set(sum.get() + e);
/// });
/// let sum = sum.get().reduce(ReduceOp::Sum);
/// k.range(first, columns, threads, |i| y.set(row + i, y.get(row + i) / sum));
/// let softmax = k.build()?;
/// # assert_eq!(softmax.scalars.len(), 1);
/// # Ok::<(), millstream_ir::ProgramError>(())
/// ```
///
/// [`Builder::build`] returns the first error. An operation that was computed before from the same values is reused.
/// What a block adds behind its `break_`, `continue_` or `return_` is never executed, and dropped.
#[derive(Debug)]
pub struct Builder {
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    function: Function,
    /// The open blocks, innermost last, with the operations that each has computed.
    open: Vec<OpenBlock>,
    /// The blocks that ended, and whose statements are still to come.
    closed: Vec<Block>,
    /// The names of arrays and variables, with the last number appended to each.
    names: HashMap<String, u32>,
    /// The line of the source file of what is added now.
    line: u32,
    /// Why the function is invalid, if that is known before it is complete.
    refused: Option<String>,
}

#[derive(Debug, Default)]
struct OpenBlock {
    body: Block,
    computed: HashMap<(Type, Op), ValueId>,
    constants: HashMap<ValueId, u64>,
    /// Whether what is added from here on is never executed.
    is_dead: bool,
}

/// The id of all values that are never computed. No statement that names it is kept.
const DEAD: ValueId = ValueId::MAX;

/// The number of elements of memory.
pub(super) enum Len {
    /// The launch word that has it.
    Scalar(u16),
    /// The number.
    Elements(u32),
}

impl State {
    /// Returns whether what is added now is never executed.
    fn is_dead(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_dead)
    }
}

impl Builder {
    /// Starts a function with this number of threads in a cube, along x, y and z.
    pub fn new(name: impl Into<String>, threads: [u32; 3]) -> Self {
        let state = State {
            function: Function::begun(name.into(), threads),
            open: vec![OpenBlock::default()],
            closed: Vec::new(),
            names: HashMap::new(),
            line: 0,
            refused: None,
        };
        Self {
            state: RefCell::new(state),
        }
    }

    /// Returns the function.
    ///
    /// # Errors
    /// The first error.
    pub fn build(self) -> Result<Function, ProgramError> {
        let params = self.state.borrow().function.params.len();
        if self.state.borrow().function.checked {
            for param in 0..u16::try_from(params).unwrap_or(u16::MAX) {
                self.len_of_param(param);
            }
        }
        let State {
            mut function,
            open,
            refused,
            ..
        } = self.state.into_inner();
        if let Some(why) = refused {
            return Err(ProgramError::new(format!("`{}` {why}", function.name)));
        }
        // A closure that panicked left its block open: its statements belong to the surrounding block.
        function.body = open.into_iter().flat_map(|block| block.body).collect();
        function.check()?;
        Ok(function)
    }

    /// Returns whether devices check accesses.
    pub fn checks_bounds(&self) -> bool {
        self.state.borrow().function.checked
    }

    /// Adds an item to a list of the function, and returns its index. The check refuses lists that exceed the range of an
    /// index.
    pub(super) fn add<T>(&self, list: impl FnOnce(&mut Function) -> &mut Vec<T>, item: T) -> u16 {
        let mut state = self.state.borrow_mut();
        let list = list(&mut state.function);
        list.push(item);
        u16::try_from(list.len() - 1).unwrap_or(u16::MAX)
    }

    /// Returns the name, with a number appended if it is taken.
    pub(super) fn unique_name(&self, name: String) -> String {
        let mut state = self.state.borrow_mut();
        let State {
            function, names, ..
        } = &mut *state;
        let params = function.params.iter().map(|param| &param.name);
        let scalars = function.scalars.iter().map(|scalar| &scalar.name);
        let taken: HashSet<&String> = params.chain(scalars).chain(names.keys()).collect();
        let mut unique = name.clone();
        let mut number = names.get(&name).copied().unwrap_or(1);
        while taken.contains(&unique) {
            number += 1;
            unique = format!("{name}_{number}");
        }
        names.insert(name, number);
        names.entry(unique.clone()).or_insert(1);
        unique
    }

    /// Adds statements that may come from other lines, such as those of a function that is called. What is added next comes
    /// from the same line as what was added before.
    pub fn elsewhere<R>(&self, add: impl FnOnce() -> R) -> R {
        let line = self.state.borrow().line;
        let result = add();
        self.back_to(line);
        result
    }

    fn back_to(&self, line: u32) {
        if self.state.borrow().line != line {
            self.push(Stmt::Line(line));
        }
    }

    /// Changes the function.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Function) -> T) -> T {
        change(&mut self.state.borrow_mut().function)
    }

    /// Returns the number of elements of memory, 0 of another builder's; that of a buffer becomes a launch word.
    pub(super) fn len_of(&self, memory: Option<Memory>) -> Len {
        let len = |arrays: &[Array], index: u16| Len::Elements(arrays[usize::from(index)].len);
        match memory {
            None => Len::Elements(0),
            Some(Memory::Param(param)) => Len::Scalar(self.len_of_param(param)),
            Some(Memory::Shared(index)) => self.change(|function| len(&function.shared, index)),
            Some(Memory::Local(index)) => self.change(|function| len(&function.locals, index)),
            Some(Memory::Table(index)) => {
                let len = self.change(|function| function.tables[usize::from(index)].bits.len());
                Len::Elements(u32::try_from(len).unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns the launch word with the number of elements of a buffer, which the first call adds.
    fn len_of_param(&self, param: u16) -> u16 {
        let param = usize::from(param);
        let known = self.change(|function| match function.params[param].len {
            Some(index) => Ok(index),
            None => Err(format!("{}_len", function.params[param].name)),
        });
        known.unwrap_or_else(|name| {
            let (name, dtype) = (self.unique_name(name), DType::U64);
            let index = self.add(|function| &mut function.scalars, Scalar { name, dtype });
            self.change(|function| function.params[param].len = Some(index));
            index
        })
    }

    /// Adds a block that [`Builder::take_block`] returns. It waits with the builder: what has a closure, of which a program
    /// of users has hundreds of instances, does as little as possible.
    pub(super) fn block(&self, body: impl FnOnce()) {
        self.open_block();
        body();
        self.close_block();
    }

    fn open_block(&self) {
        let mut state = self.state.borrow_mut();
        let is_dead = state.is_dead();
        state.open.push(OpenBlock {
            is_dead,
            ..OpenBlock::default()
        });
    }

    fn close_block(&self) {
        let mut state = self.state.borrow_mut();
        let open = state.open.pop().unwrap_or_default();
        state.closed.push(open.body);
    }

    /// Returns the last block that ended.
    pub(super) fn take_block(&self) -> Block {
        self.state.borrow_mut().closed.pop().unwrap_or_default()
    }

    pub(super) fn push(&self, stmt: Stmt) {
        let mut state = self.state.borrow_mut();
        let State { open, line, .. } = &mut *state;
        if let Some(open) = open.last_mut()
            && !open.is_dead
        {
            if let Stmt::Line(now) = stmt {
                *line = now;
            }
            open.is_dead = stmt.is_terminator();
            // The last of several lines counts.
            if let (Stmt::Line(_), Some(Stmt::Line(_))) = (&stmt, open.body.last()) {
                open.body.pop();
            }
            open.body.push(stmt);
        }
    }

    /// Returns a new value, without a statement that defines it.
    pub(super) fn fresh_id(&self, of: Type) -> ValueId {
        let mut state = self.state.borrow_mut();
        if state.is_dead() {
            return DEAD;
        }
        let values = &mut state.function.values;
        let id = values.len() as ValueId;
        values.push(of);
        id
    }

    /// Returns a cast of a constant as a constant. `None` if the check refuses it.
    fn folded(&self, of: Type, op: &Op) -> Option<Op> {
        let (Op::Cast(a) | Op::Bits(a)) = op else {
            return None;
        };
        let state = self.state.borrow();
        let mut open = state.open.iter();
        let bits = *open.find_map(|open| open.constants.get(a))?;
        let from = state.function.values[*a as usize].dtype;
        match op {
            Op::Cast(_) => Some(Op::Const(scalar::cast(from, of.dtype)(bits))),
            _ => from.has_bits_of(of.dtype).then_some(Op::Const(bits)),
        }
    }

    /// Returns the value of an operation; an equal one if that is computed already. Another type of a constant is one.
    pub(super) fn value_id(&self, of: Type, op: Op) -> ValueId {
        let op = self.folded(of, &op).unwrap_or(op);
        let pure = op.is_pure();
        let key = (of, op);
        if pure {
            let state = self.state.borrow();
            let computed = state.open.iter().rev();
            let computed = computed.filter_map(|open| open.computed.get(&key)).next();
            if let Some(id) = computed {
                return *id;
            }
        }
        let value = self.fresh_id(of);
        let mut state = self.state.borrow_mut();
        if let Some(open) = state.open.last_mut()
            && !open.is_dead
        {
            let op = key.1.clone();
            if let Op::Const(bits) = op {
                open.constants.insert(value, bits);
            }
            if pure {
                open.computed.insert(key, value);
            }
            open.body.push(Stmt::Let { value, op });
        }
        value
    }

    /// Makes [`Builder::build`] fail with this reason: a predicate of the function, such as "calls itself". The first reason
    /// is kept.
    pub fn refuse(&self, why: impl Into<String>) {
        let mut state = self.state.borrow_mut();
        state.refused.get_or_insert_with(|| why.into());
    }

    /// Returns whether it is this builder. Otherwise [`Builder::build`] will fail.
    pub(super) fn check_owner(&self, other: &Builder) -> bool {
        let is_own = std::ptr::eq(self, other);
        if !is_own {
            self.refuse("uses a value of another function: build it with this builder");
        }
        is_own
    }
}
