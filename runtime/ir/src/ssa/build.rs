//! The user's interface of a builder: buffers, constants, positions, loops and branches. `builder` has the state.

use super::builder::Len;
use super::handles::{MemoryRef, Operand, Val, Var};
use super::{
    Array, Axis, Builder, Memory, Op, Param, Position, Say, Scalar, Stmt, Table, Type, ValueId,
};
use crate::DType;
use crate::nest::BufferMode;

impl Builder {
    /// Adds a read-only buffer.
    pub fn read(&self, name: impl Into<String>, dtype: DType) -> MemoryRef<'_> {
        self.param(name, dtype, BufferMode::Read)
    }

    /// Adds a buffer of which a launch writes every byte and reads none.
    pub fn write(&self, name: impl Into<String>, dtype: DType) -> MemoryRef<'_> {
        self.param(name, dtype, BufferMode::Write)
    }

    /// Adds a buffer that is written in part, or read and written.
    pub fn update(&self, name: impl Into<String>, dtype: DType) -> MemoryRef<'_> {
        self.param(name, dtype, BufferMode::Update)
    }

    /// Adds a buffer.
    pub fn param(&self, name: impl Into<String>, dtype: DType, mode: BufferMode) -> MemoryRef<'_> {
        let name = name.into();
        let param = Param {
            name,
            dtype,
            mode,
            len: None,
            each: 1,
        };
        let place = self.add(|f| &mut f.params, param);
        MemoryRef::new(self, Memory::Param(place), dtype)
    }

    /// Makes messages count this many elements of a buffer as one.
    pub fn count_each(&self, memory: MemoryRef<'_>, each: u32) {
        if let Some(Memory::Param(param)) = self.checked_memory(memory) {
            self.change(|function| function.params[usize::from(param)].each = each);
        }
    }

    /// Returns the number of elements, `u64`. That of a buffer is a launch word, `{name}_len`, which the first call adds.
    pub fn len<'k>(&'k self, memory: MemoryRef<'k>) -> Val<'k> {
        let of = DType::U64.into();
        match self.len_of(self.checked_memory(memory)) {
            Len::Scalar(index) => self.value(of, Op::Scalar(index)),
            Len::Elements(len) => self.bits(of, len.into()),
        }
    }

    /// Makes devices check accesses, as [`Function::checked`](super::Function::checked) describes. The length of each
    /// buffer is a launch word then: [`Builder::build`] adds those that [`Builder::len`] has not added.
    pub fn check_bounds(&self) {
        self.change(|function| function.checked = true);
    }

    /// Lets devices contract, as [`Function::contract`](super::Function::contract) describes.
    pub fn contract(&self) {
        self.change(|function| function.contract = true);
    }

    /// Sets the source file, for messages.
    pub fn file(&self, name: impl Into<String>) {
        let name = name.into();
        self.change(|function| function.file = name);
    }

    /// Says that the statements from here on come from this line of the source file; 0 if unknown.
    pub fn line(&self, line: u32) {
        self.push(Stmt::Line(line));
    }

    /// Adds a launch word, and reads it.
    pub fn scalar(&self, name: impl Into<String>, dtype: DType) -> Val<'_> {
        let name = name.into();
        let index = self.add(|f| &mut f.scalars, Scalar { name, dtype });
        self.value(dtype.into(), Op::Scalar(index))
    }

    /// Adds an array that the threads of a cube share. As for all arrays and variables, a number is appended to a name
    /// that is taken.
    pub fn shared(&self, name: impl Into<String>, dtype: DType, len: u32) -> MemoryRef<'_> {
        let name = self.unique_name(name.into());
        let index = self.add(|f| &mut f.shared, Array { name, dtype, len });
        MemoryRef::new(self, Memory::Shared(index), dtype)
    }

    /// Adds an array of each thread.
    pub fn local(&self, name: impl Into<String>, dtype: DType, len: u32) -> MemoryRef<'_> {
        let name = self.unique_name(name.into());
        let index = self.add(|f| &mut f.locals, Array { name, dtype, len });
        MemoryRef::new(self, Memory::Local(index), dtype)
    }

    /// Adds a table of constants of this type, by their bits.
    pub fn table(&self, name: impl Into<String>, dtype: DType, bits: Vec<u64>) -> MemoryRef<'_> {
        let name = self.unique_name(name.into());
        let index = self.add(|f| &mut f.tables, Table { name, dtype, bits });
        MemoryRef::new(self, Memory::Table(index), dtype)
    }

    /// Adds a variable with this initial value. An integer without type is an `i64`.
    pub fn var<'k>(&'k self, name: impl Into<String>, value: impl Into<Operand<'k>>) -> Var<'k> {
        let value = value.into().natural(self);
        let var = Var::new(self.local(name, value.of().dtype, 1));
        var.set(value);
        var
    }

    /// Adds a variable without an initial value: it holds zero, or what was stored last.
    pub fn unset(&self, name: impl Into<String>, dtype: DType) -> Var<'_> {
        Var::new(self.local(name, dtype, 1))
    }

    /// Returns a constant.
    pub fn constant<'k>(&'k self, value: impl Into<Operand<'k>>) -> Val<'k> {
        value.into().natural(self)
    }

    /// Returns the position of the thread, or the size of the cube or launch.
    pub fn position(&self, position: Position, axis: Axis) -> Val<'_> {
        self.value(DType::I64.into(), Op::Position(position, axis))
    }

    /// Returns the thread's index along x in its cube.
    pub fn thread(&self) -> Val<'_> {
        self.position(Position::Thread, Axis::X)
    }

    /// Returns the number of threads of a cube along x.
    pub fn threads(&self) -> Val<'_> {
        self.position(Position::Threads, Axis::X)
    }

    /// Returns the index of the thread's cube along x.
    pub fn cube(&self) -> Val<'_> {
        self.position(Position::Cube, Axis::X)
    }

    /// Returns the number of cubes of the launch along x.
    pub fn cubes(&self) -> Val<'_> {
        self.position(Position::Cubes, Axis::X)
    }

    /// Returns the thread's index along x in the launch.
    pub fn index(&self) -> Val<'_> {
        self.cube() * self.threads() + self.thread()
    }

    /// Returns the number of threads of the launch along x: the step of a loop that starts at [`Builder::index`].
    pub fn count(&self) -> Val<'_> {
        self.cubes() * self.threads()
    }

    /// Returns a wide value with these lanes.
    pub fn pack<'k>(&'k self, lanes: &[Val<'k>]) -> Val<'k> {
        let dtype = lanes.first().map_or(DType::Bool, |lane| lane.of().dtype);
        let ids = lanes.iter().map(|lane| self.checked_id(*lane)).collect();
        let lanes = u8::try_from(lanes.len()).unwrap_or(u8::MAX);
        self.value(Type { dtype, lanes }, Op::Pack(ids))
    }

    /// Returns a random `u32` for a counter, `i64`, and a seed, `u64`: Philox4x32-10.
    pub fn random<'k>(&'k self, seed: Val<'k>, counter: Val<'k>) -> Val<'k> {
        let of = counter.of().with(DType::U32);
        self.value(
            of,
            Op::Random(self.checked_id(seed), self.checked_id(counter)),
        )
    }

    /// Adds a loop over the indices from `start` on, below `end`.
    pub fn range<'k>(
        &'k self,
        start: impl Into<Operand<'k>>,
        end: impl Into<Operand<'k>>,
        step: impl Into<Operand<'k>>,
        body: impl FnOnce(Val<'k>),
    ) {
        self.loop_of([start.into(), end.into(), step.into()], false, body);
    }

    /// Adds a loop over the indices `0..times` that devices may unroll: a hint for short loops.
    pub fn unrolled<'k>(&'k self, times: u32, body: impl FnOnce(Val<'k>)) {
        self.loop_of([0.into(), i64::from(times).into(), 1.into()], true, body);
    }

    fn loop_of<'k>(&'k self, bounds: [Operand<'k>; 3], unroll: bool, body: impl FnOnce(Val<'k>)) {
        let (index, bounds) = self.loop_index(bounds);
        self.block(|| body(Val::new(self, index, DType::I64.into())));
        self.push_loop(index, bounds, unroll);
    }

    fn loop_index<'k>(&'k self, bounds: [Operand<'k>; 3]) -> (ValueId, [ValueId; 3]) {
        let of = DType::I64.into();
        let bounds = bounds.map(|bound| self.checked_id(bound.typed(self, of)));
        (self.fresh_id(of), bounds)
    }

    fn push_loop(&self, index: ValueId, bounds: [ValueId; 3], unroll: bool) {
        let ([start, end, step], body) = (bounds, self.take_block());
        self.push(Stmt::For {
            index,
            start,
            end,
            step,
            unroll,
            body,
        });
    }

    /// Adds a block that is repeated until [`Builder::break_`] or [`Builder::return_`] leaves it.
    pub fn loop_(&self, body: impl FnOnce()) {
        self.block(body);
        self.push_repeat();
    }

    fn push_repeat(&self) {
        let body = self.take_block();
        self.push(Stmt::Loop { body });
    }

    /// Adds a block that is repeated as long as the condition, which is computed before each iteration, is true.
    pub fn while_<'k>(&'k self, condition: impl FnOnce() -> Val<'k>, body: impl FnOnce()) {
        self.loop_(|| {
            let ends = !condition();
            self.when(ends, || self.break_());
            body();
        });
    }

    /// Leaves the innermost loop. What the same block adds behind it is dropped, as it is never executed.
    pub fn break_(&self) {
        self.push(Stmt::Break);
    }

    /// Goes on with the next iteration of the innermost loop. What the same block adds behind it is dropped.
    pub fn continue_(&self) {
        self.push(Stmt::Continue);
    }

    /// Ends the thread. What the same block adds behind it is dropped.
    pub fn return_(&self) {
        self.push(Stmt::Return);
    }

    /// Adds statements that run if the condition is true.
    pub fn when<'k>(&'k self, condition: Val<'k>, then: impl FnOnce()) {
        self.either(condition, then, || {});
    }

    /// Adds statements that run if the condition is true, and others that run if it is false.
    pub fn either<'k>(&'k self, condition: Val<'k>, then: impl FnOnce(), otherwise: impl FnOnce()) {
        let condition = self.checked_id(condition);
        self.block(then);
        self.block(otherwise);
        self.push_branch(condition);
    }

    fn push_branch(&self, condition: ValueId) {
        let otherwise = self.take_block();
        let then = self.take_block();
        self.push(Stmt::If {
            condition,
            then,
            otherwise,
        });
    }

    /// Prints a line of values, which the CPU and the simulator can. The text is a format string with a `{}` for each.
    pub fn print<'k>(&'k self, text: impl Into<String>, values: &[Val<'k>]) {
        self.say(false, text.into(), values);
    }

    /// Fails the launch with a text, on the CPU and the simulator. Other devices go on, as if it were not there.
    pub fn fail<'k>(&'k self, text: impl Into<String>, values: &[Val<'k>]) {
        self.say(true, text.into(), values);
    }

    fn say<'k>(&'k self, fails: bool, text: String, values: &[Val<'k>]) {
        let values = values.iter().map(|value| self.checked_id(*value)).collect();
        self.push(Stmt::Say(Box::new(Say {
            fails,
            text,
            values,
        })));
    }

    /// Adds a barrier: waits until all threads of the cube are here, and makes their stores visible.
    pub fn barrier(&self) {
        self.push(Stmt::Barrier);
    }
}
