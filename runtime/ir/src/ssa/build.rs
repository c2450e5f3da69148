//! What users write functions with: buffers, constants, positions, loops and branches. The state is the builder's own, see `builder`.

use super::handles::{Operand, Place, Val, Var};
use super::{Array, Axis, Builder, Memory, Op, Param, Position, Scalar, Stmt, Type};
use crate::DType;
use crate::nest::BufferMode;

impl Builder {
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
        let place = self.add_param(param);
        Place::new(self, Memory::Param(place), dtype)
    }

    /// Adds a launch word, and reads it.
    pub fn scalar(&self, name: impl Into<String>, dtype: DType) -> Val<'_> {
        let name = name.into();
        let scalar = Scalar { name, dtype };
        let index = self.add_scalar(scalar);
        self.value(dtype.into(), Op::Scalar(index))
    }

    /// Adds an array that the threads of a cube share. A name that is taken is numbered, as of all arrays and variables.
    pub fn shared(&self, name: impl Into<String>, dtype: DType, len: u32) -> Place<'_> {
        let name = self.free(name.into());
        let array = Array { name, dtype, len };
        let index = self.add_shared(array);
        Place::new(self, Memory::Shared(index), dtype)
    }

    /// Adds an array of each thread's own.
    pub fn local(&self, name: impl Into<String>, dtype: DType, len: u32) -> Place<'_> {
        let name = self.free(name.into());
        let array = Array { name, dtype, len };
        let index = self.add_local(array);
        Place::new(self, Memory::Local(index), dtype)
    }

    /// Adds a variable that begins with this value. A whole number is an `i64`, if it says no type.
    pub fn var<'k>(&'k self, name: impl Into<String>, value: impl Into<Operand<'k>>) -> Var<'k> {
        let value = value.into().natural(self);
        let var = Var::new(self.local(name, value.of().dtype, 1));
        var.set(value);
        var
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
        let of = DType::I64.into();
        let index_id = self.fresh_id(of);
        let index = Val::new(self, index_id, of);
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
}
