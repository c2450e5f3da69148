//! Writing a function.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::handles::{Operand, Place, Val, Var};
use super::{
    Array, Axis, Block, Function, Memory, Op, Param, Position, Scalar, Scope, SsaError, Stmt, Type,
    ValueId,
};
use crate::nest::BufferMode;
use crate::{DType, ReduceOp};

/// Writes a [`Function`]: values are Rust values, with operators.
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
/// # Ok::<(), millstream_ir::ssa::SsaError>(())
/// ```
///
/// What is wrong with a function is told by [`Builder::build`]. A value that was computed before from the same values is not
/// computed again.
#[derive(Debug)]
pub struct Builder {
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    function: Function,
    /// The blocks that are open, the inner ones last, and what each has computed.
    open: Vec<Open>,
    /// Names of arrays and variables, and the last number given to each.
    names: HashMap<String, u32>,
    /// Was something of another builder used?
    foreign: bool,
}

#[derive(Debug, Default)]
struct Open {
    body: Block,
    known: HashMap<(Type, Op), ValueId>,
}

impl Builder {
    /// Begins a function of cubes of so many threads along x, y and z.
    pub fn new(name: impl Into<String>, threads: [u32; 3]) -> Self {
        let function = Function {
            name: name.into(),
            threads,
            params: Vec::new(),
            scalars: Vec::new(),
            shared: Vec::new(),
            locals: Vec::new(),
            values: Vec::new(),
            body: Vec::new(),
        };
        let state = State {
            function,
            open: vec![Open::default()],
            names: HashMap::new(),
            foreign: false,
        };
        Self {
            state: RefCell::new(state),
        }
    }

    /// The function.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn build(self) -> Result<Function, SsaError> {
        let State {
            mut function,
            open,
            foreign,
            ..
        } = self.state.into_inner();
        if foreign {
            let name = function.name;
            return Err(SsaError::Foreign { name });
        }
        // A closure of a block that did not return left it open: what it wrote belongs to what is around it.
        function.body = open.into_iter().flat_map(|open| open.body).collect();
        function.check()?;
        Ok(function)
    }

    /// Adds a buffer that is only read.
    pub fn read(&self, name: impl Into<String>, dtype: DType) -> Place<'_> {
        self.param(name, dtype, BufferMode::Read)
    }

    /// Adds a buffer of which a launch writes every byte, and reads none.
    pub fn write(&self, name: impl Into<String>, dtype: DType) -> Place<'_> {
        self.param(name, dtype, BufferMode::Write)
    }

    /// Adds a buffer that is written in part, or read and written.
    pub fn update(&self, name: impl Into<String>, dtype: DType) -> Place<'_> {
        self.param(name, dtype, BufferMode::Update)
    }

    /// Adds a buffer.
    pub fn param(&self, name: impl Into<String>, dtype: DType, mode: BufferMode) -> Place<'_> {
        let name = name.into();
        let param = Param { name, dtype, mode };
        let place = push(&mut self.state.borrow_mut().function.params, param);
        Place::new(self, Memory::Param(place), dtype)
    }

    /// Adds a launch word, and reads it.
    pub fn scalar(&self, name: impl Into<String>, dtype: DType) -> Val<'_> {
        let name = name.into();
        let scalar = Scalar { name, dtype };
        let index = push(&mut self.state.borrow_mut().function.scalars, scalar);
        self.value(dtype.into(), Op::Scalar(index))
    }

    /// Adds an array that the threads of a cube share. A name that is taken is numbered, as of all arrays and variables.
    pub fn shared(&self, name: impl Into<String>, dtype: DType, len: u32) -> Place<'_> {
        let name = self.free(name.into());
        let array = Array { name, dtype, len };
        let index = push(&mut self.state.borrow_mut().function.shared, array);
        Place::new(self, Memory::Shared(index), dtype)
    }

    /// Adds an array of each thread's own.
    pub fn local(&self, name: impl Into<String>, dtype: DType, len: u32) -> Place<'_> {
        let name = self.free(name.into());
        let array = Array { name, dtype, len };
        let index = push(&mut self.state.borrow_mut().function.locals, array);
        Place::new(self, Memory::Local(index), dtype)
    }

    /// The name, or it with a number behind.
    fn free(&self, name: String) -> String {
        let mut state = self.state.borrow_mut();
        let State {
            function, names, ..
        } = &mut *state;
        let params = function.params.iter().map(|param| &param.name);
        let scalars = function.scalars.iter().map(|scalar| &scalar.name);
        let taken: HashSet<&String> = params.chain(scalars).chain(names.keys()).collect();
        let mut free = name.clone();
        let mut number = names.get(&name).copied().unwrap_or(1);
        while taken.contains(&free) {
            number += 1;
            free = format!("{name}_{number}");
        }
        names.insert(name, number);
        names.entry(free.clone()).or_insert(1);
        free
    }

    /// Adds a variable that begins with this value. A whole number is an `i64`, if it says no type.
    pub fn var<'k>(&'k self, name: impl Into<String>, value: impl Into<Operand<'k>>) -> Var<'k> {
        let value = value.into().natural(self);
        let var = Var::new(self.local(name, value.of().dtype, 1));
        var.set(value);
        var
    }

    /// A constant of this type, by its bits.
    pub fn bits(&self, of: impl Into<Type>, bits: u64) -> Val<'_> {
        self.value(of.into(), Op::Const(bits))
    }

    /// A constant.
    pub fn constant<'k>(&'k self, value: impl Into<Operand<'k>>) -> Val<'k> {
        value.into().natural(self)
    }

    /// Where the thread is, or among how many.
    pub fn position(&self, position: Position, axis: Axis) -> Val<'_> {
        self.value(DType::I64.into(), Op::Position(position, axis))
    }

    /// The thread's index along x in its cube.
    pub fn thread(&self) -> Val<'_> {
        self.position(Position::Thread, Axis::X)
    }

    /// Threads of a cube along x.
    pub fn threads(&self) -> Val<'_> {
        self.position(Position::Threads, Axis::X)
    }

    /// The index of the thread's cube along x.
    pub fn cube(&self) -> Val<'_> {
        self.position(Position::Cube, Axis::X)
    }

    /// Cubes of the launch along x.
    pub fn cubes(&self) -> Val<'_> {
        self.position(Position::Cubes, Axis::X)
    }

    /// The thread's index along x among all of the launch.
    pub fn index(&self) -> Val<'_> {
        self.cube() * self.threads() + self.thread()
    }

    /// All threads of the launch along x: the step of a loop that begins at [`Builder::index`].
    pub fn count(&self) -> Val<'_> {
        self.cubes() * self.threads()
    }

    /// A wide value of these lanes.
    pub fn pack<'k>(&'k self, lanes: &[Val<'k>]) -> Val<'k> {
        let dtype = lanes.first().map_or(DType::Bool, |lane| lane.of().dtype);
        let ids = lanes.iter().map(|lane| self.own(*lane)).collect();
        let lanes = u8::try_from(lanes.len()).unwrap_or(u8::MAX);
        self.value(Type { dtype, lanes }, Op::Pack(ids))
    }

    /// A random `u32` for a counter, `i64`, by a seed, `u64`: Philox4x32-10.
    pub fn random<'k>(&'k self, seed: Val<'k>, counter: Val<'k>) -> Val<'k> {
        let of = counter.of().with(DType::U32);
        self.value(of, Op::Random(self.own(seed), self.own(counter)))
    }

    /// Does something for each index from `start` on, below `end`.
    pub fn range<'k>(
        &'k self,
        start: impl Into<Operand<'k>>,
        end: impl Into<Operand<'k>>,
        step: impl Into<Operand<'k>>,
        body: impl FnOnce(Val<'k>),
    ) {
        self.loop_of([start.into(), end.into(), step.into()], false, body);
    }

    /// As [`Builder::range`] from 0 on, written out: a short loop.
    pub fn unrolled<'k>(&'k self, times: u32, body: impl FnOnce(Val<'k>)) {
        self.loop_of([0.into(), i64::from(times).into(), 1.into()], true, body);
    }

    fn loop_of<'k>(&'k self, bounds: [Operand<'k>; 3], unroll: bool, body: impl FnOnce(Val<'k>)) {
        let [start, end, step] = bounds.map(|bound| self.own(bound.typed(self, DType::I64.into())));
        let index = self.fresh(DType::I64.into());
        let index_id = self.own(index);
        let body = self.block(|| body(index));
        self.push(Stmt::For {
            index: index_id,
            start,
            end,
            step,
            unroll,
            body,
        });
    }

    /// Does something where the condition is true.
    pub fn when<'k>(&'k self, condition: Val<'k>, then: impl FnOnce()) {
        self.either(condition, then, || {});
    }

    /// Does one thing or the other.
    pub fn either<'k>(&'k self, condition: Val<'k>, then: impl FnOnce(), otherwise: impl FnOnce()) {
        let condition = self.own(condition);
        let then = self.block(then);
        let otherwise = self.block(otherwise);
        self.push(Stmt::If {
            condition,
            then,
            otherwise,
        });
    }

    /// Waits until all threads of the cube are here, and sees what they wrote.
    pub fn barrier(&self) {
        self.push(Stmt::Barrier);
    }

    fn block(&self, body: impl FnOnce()) -> Block {
        self.state.borrow_mut().open.push(Open::default());
        body();
        let open = self.state.borrow_mut().open.pop();
        open.map_or_else(Block::new, |open| open.body)
    }

    pub(super) fn push(&self, stmt: Stmt) {
        let mut state = self.state.borrow_mut();
        if let Some(open) = state.open.last_mut() {
            open.body.push(stmt);
        }
    }

    /// A value without a statement that defines it.
    fn fresh(&self, of: Type) -> Val<'_> {
        let values = &mut self.state.borrow_mut().function.values;
        let id = values.len() as ValueId;
        values.push(of);
        Val::new(self, id, of)
    }

    /// The value of an operation: one that is known, where it is the same.
    pub(super) fn value(&self, of: Type, op: Op) -> Val<'_> {
        let pure = op.is_pure();
        let key = (of, op);
        if pure {
            let state = self.state.borrow();
            let known = state.open.iter().rev();
            let known = known.filter_map(|open| open.known.get(&key)).next();
            if let Some(id) = known {
                return Val::new(self, *id, of);
            }
        }
        let made = self.fresh(of);
        let value = self.own(made);
        let mut state = self.state.borrow_mut();
        if let Some(open) = state.open.last_mut() {
            let op = key.1.clone();
            if pure {
                open.known.insert(key, value);
            }
            open.body.push(Stmt::Let { value, op });
        }
        made
    }

    /// A value's id; notes one of another builder's.
    pub(super) fn own(&self, value: Val<'_>) -> ValueId {
        self.note(value.builder());
        value.id()
    }

    pub(super) fn note(&self, other: &Builder) {
        if !std::ptr::eq(self, other) {
            self.state.borrow_mut().foreign = true;
        }
    }

    pub(super) fn reduce<'k>(&'k self, scope: Scope, op: ReduceOp, value: Val<'k>) -> Val<'k> {
        self.value(value.of(), Op::Reduce(scope, op, self.own(value)))
    }
}

/// Adds to a list, and tells where. The verifier refuses lists that are too long to be told.
fn push<T>(list: &mut Vec<T>, item: T) -> u16 {
    let index = u16::try_from(list.len()).unwrap_or(u16::MAX);
    list.push(item);
    index
}
