//! Emits the instructions of values.

use millstream_ir::nest::{Op, Stride, ValueId};

use super::Builder;
use crate::kernels::{cast, function, map, place};
use crate::plan::{InputKind, Instruction, Loop, Scope, Template};
use crate::prepare_error::{CompileError, unsupported, unsupported_store};
use crate::slot::SlotId;
use millstream_loops::level::Kernel;

impl Builder<'_> {
    /// Appends an instruction.
    pub(super) fn push(
        &mut self,
        run: Kernel,
        d: SlotId,
        a: SlotId,
        b: SlotId,
        c: SlotId,
        is_uniform: bool,
    ) {
        self.code.push(Instruction::Loop(Loop {
            run,
            d,
            a,
            b,
            c,
            fixed: is_uniform.then_some(1),
        }));
    }

    /// Emits a value whose operands exist already.
    pub(super) fn value(&mut self, id: ValueId) -> Result<(), CompileError> {
        let index = usize::from(id);
        let value = &self.nest.values[index];
        let (dtype, level) = (value.dtype, self.level);
        let nest = self.nest;
        let compile_error = || unsupported(nest, index);
        let is_uniform = self.is_uniform(id);
        match value.op {
            Op::Const(_) | Op::Word(_) | Op::Reduce(..) => {}
            Op::Index(axis) => {
                let (scope, is_uniform) = self.scope_of_axis(axis);
                let slot = self.input(InputKind::Index(axis), 8, scope, is_uniform);
                self.places[index] = Some(slot);
            }
            Op::Load(access) => {
                let (scope, is_uniform) = self.scope_of(access);
                let slot = self.input(InputKind::Elements(access), dtype.size(), scope, is_uniform);
                self.places[index] = Some(slot);
            }
            Op::Gather { .. } if self.is_in_runs(id) => self.gather_in_runs(id)?,
            Op::Gather {
                access,
                index: at,
                stride,
                len,
            } => {
                let (offsets, at) = (self.offsets(access, is_uniform)?, self.of(at, is_uniform)?);
                let axis = self.indexed(access, stride, len, false);
                let run = place::gather(dtype.size(), level);
                let d = self.destination(id, is_uniform);
                self.push(run, d, offsets, at, axis, is_uniform);
            }
            Op::Unary(op, a) => {
                let a = self.of(a, is_uniform)?;
                let (run, b) = match function::unary(op, dtype, level) {
                    Some(run) => (run, a),
                    None => {
                        let found = function::by_reference(op, dtype, level);
                        let (run, which) = found.ok_or_else(compile_error)?;
                        (run, self.slots.scalar(which))
                    }
                };
                let d = self.destination(id, is_uniform);
                self.push(run, d, a, b, a, is_uniform);
            }
            Op::Binary(op, a, b) => {
                let run = map::binary(op, dtype, self.scalars_among(is_uniform, a, b), level);
                self.two(id, run.ok_or_else(compile_error)?, a, b)?;
            }
            Op::Compare(op, a, b) => {
                let of = self.nest.values[usize::from(a)].dtype;
                let run = map::compare(op, of, self.scalars_among(is_uniform, a, b), level);
                self.two(id, run.ok_or_else(compile_error)?, a, b)?;
            }
            Op::Select(condition, a, b) => {
                let run = map::select(dtype.size(), self.scalars_among(is_uniform, a, b), level);
                let condition = self.of(condition, is_uniform)?;
                let (a, b) = (self.at(a)?, self.at(b)?);
                let d = self.destination(id, is_uniform);
                self.push(run, d, condition, a, b, is_uniform);
            }
            Op::Cast(a) => {
                let from = self.nest.values[usize::from(a)].dtype;
                let run = cast::cast(from, dtype, level).ok_or_else(compile_error)?;
                let a = self.of(a, is_uniform)?;
                let d = self.destination(id, is_uniform);
                self.push(run, d, a, a, a, is_uniform);
            }
            Op::Random { seed, counter } => {
                let seed = self.word(seed);
                let counter = self.of(counter, is_uniform)?;
                let d = self.destination(id, is_uniform);
                self.push(function::random(level), d, counter, seed, seed, is_uniform);
            }
            _ => return Err(compile_error()),
        }
        Ok(())
    }

    fn two(
        &mut self,
        id: ValueId,
        run: Kernel,
        a: ValueId,
        b: ValueId,
    ) -> Result<(), CompileError> {
        let (a, b, is_uniform) = (self.at(a)?, self.at(b)?, self.is_uniform(id));
        let d = self.destination(id, is_uniform);
        self.push(run, d, a, b, a, is_uniform);
        Ok(())
    }

    /// Returns which of two operands are scalars next to tiles.
    fn scalars_among(&self, is_uniform: bool, a: ValueId, b: ValueId) -> [bool; 2] {
        [
            !is_uniform && self.is_uniform(a),
            !is_uniform && self.is_uniform(b),
        ]
    }

    /// Returns the slot of a value.
    pub(super) fn at(&self, id: ValueId) -> Result<SlotId, CompileError> {
        self.places[usize::from(id)].ok_or_else(|| unsupported(self.nest, usize::from(id)))
    }

    /// Returns the slot of a value, as a scalar or as a tile.
    fn of(&mut self, id: ValueId, is_uniform: bool) -> Result<SlotId, CompileError> {
        if is_uniform {
            self.at(id)
        } else {
            self.lanes_of(id)
        }
    }

    /// Returns the slot of a value as a tile.
    pub(super) fn lanes_of(&mut self, id: ValueId) -> Result<SlotId, CompileError> {
        let slot = self.at(id)?;
        if !self.is_uniform(id) {
            return Ok(slot);
        }
        Ok(self.filled(slot, self.nest.values[usize::from(id)].dtype.size()))
    }

    fn filled(&mut self, scalar: SlotId, size: usize) -> SlotId {
        let d = match self.in_body {
            true => self.slots.register(size),
            false => self.slots.lasting(size),
        };
        self.push(
            place::fill(size, self.level),
            d,
            scalar,
            scalar,
            scalar,
            false,
        );
        d
    }

    /// Allocates the slot of a value: that of its target, if it is computed directly into one.
    pub(super) fn destination(&mut self, id: ValueId, is_uniform: bool) -> SlotId {
        let index = usize::from(id);
        let size = self.nest.values[index].dtype.size();
        let slot = match self.target_of(id) {
            Some(target) => self.plan.targets[target].slot,
            None if is_uniform => self.slots.scalar(0),
            None if !self.in_body => self.slots.lasting(size),
            None if self.is_retained(id) => self.slots.retained(size),
            None => self.slots.register(size),
        };
        self.places[index] = Some(slot);
        slot
    }

    /// Returns how often the address of an access changes, and whether it is uniform.
    pub(super) fn scope_of(&self, access: u16) -> (Scope, bool) {
        let strides = &self.nest.accesses[usize::from(access)].strides;
        let (outer, inner) = strides.split_at(self.nest.outer);
        let moves = |strides: &[Stride]| strides.iter().any(|stride| *stride != Stride::Zero);
        self.scope(moves(outer), moves(inner))
    }

    pub(super) fn scope_of_axis(&self, axis: u16) -> (Scope, bool) {
        let is_outer = usize::from(axis) < self.nest.outer;
        self.scope(is_outer, !is_outer)
    }

    fn scope(&self, outer: bool, inner: bool) -> (Scope, bool) {
        let scope = match (inner, outer) {
            (false, false) => Scope::Launch,
            (false, true) if self.nest.inner > 0 => Scope::Outer,
            _ => Scope::Inner,
        };
        let is_uniform = match self.plan.template {
            Template::Column => !outer,
            Template::Row => !inner,
        };
        (scope, is_uniform)
    }

    /// Emits the offsets of an access, as a tile or as a scalar.
    fn offsets(&mut self, access: u16, is_uniform: bool) -> Result<SlotId, CompileError> {
        let (scope, same) = self.scope_of(access);
        let slot = self.input(InputKind::Offsets(access), 8, scope, same);
        Ok(if same && !is_uniform {
            self.filled(slot, 8)
        } else {
            slot
        })
    }

    /// Copies a value to its target.
    pub(super) fn store(&mut self, value: ValueId, target: usize) -> Result<(), CompileError> {
        let a = self.at(value)?;
        let target = self.plan.targets[target];
        let run = match self.is_uniform(value) && !target.is_uniform {
            true => place::fill(target.size, self.level),
            false => place::copy(target.size, self.level),
        };
        self.push(run, target.slot, a, a, a, target.is_uniform);
        Ok(())
    }

    /// Scatters a value.
    pub(super) fn scatter(&mut self, store: usize, is_uniform: bool) -> Result<(), CompileError> {
        let found = &self.nest.stores[store];
        let Some(scatter) = &found.scatter else {
            return Err(unsupported_store(self.nest, store));
        };
        let dtype = self.nest.values[usize::from(found.value)].dtype;
        let run = place::scatter(dtype, scatter.adds, self.level)
            .ok_or_else(|| unsupported_store(self.nest, store))?;
        let offsets = self.offsets(found.access, is_uniform)?;
        let (index, value) = (
            self.of(scatter.index, is_uniform)?,
            self.of(found.value, is_uniform)?,
        );
        let axis = self.indexed(found.access, scatter.stride, scatter.len, true);
        self.push(run, axis, offsets, index, value, is_uniform);
        Ok(())
    }
}
