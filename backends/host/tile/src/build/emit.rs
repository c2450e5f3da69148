//! Instructions of values.

use millstream_ir::nest::{Op, Stride, ValueId};

use super::{Builder, Unfit};
use crate::kernels::{cast, function, map, place, random};
use crate::level::Kernel;
use crate::plan::{Instruction, Loop, Scope, Template, Walked};
use crate::slot::SlotId;

impl Builder<'_> {
    /// Appends an instruction.
    pub(super) fn push(
        &mut self,
        run: Kernel,
        d: SlotId,
        a: SlotId,
        b: SlotId,
        c: SlotId,
        one: bool,
    ) {
        self.code.push(Instruction::Loop(Loop {
            run,
            d,
            a,
            b,
            c,
            fixed: one.then_some(1),
        }));
    }

    /// Emits a value whose operands are there; straight to where it is stored, if it is to.
    pub(super) fn value(&mut self, id: ValueId, direct: Option<usize>) -> Result<(), Unfit> {
        let index = usize::from(id);
        let value = &self.nest.values[index];
        let (dtype, level) = (value.dtype, self.level);
        let unfit = Unfit::Value(index);
        let one = self.is_one(id);
        match value.op {
            Op::Const(_) | Op::Word(_) | Op::Reduce(..) => {}
            Op::Index(axis) => {
                let (scope, one) = self.scope_of_axis(axis);
                let slot = self.walk(Walked::Index(axis), 8, scope, one);
                self.places[index] = Some(slot);
            }
            Op::Load(access) => {
                let (scope, one) = self.scope_of(access);
                let slot = self.walk(Walked::Elements(access), dtype.size(), scope, one);
                self.places[index] = Some(slot);
            }
            Op::Gather { .. } if self.is_in_runs(id) => self.gather_in_runs(id)?,
            Op::Gather {
                access,
                index: at,
                stride,
                len,
            } => {
                let (offsets, at) = (self.offsets(access, one)?, self.of(at, one)?);
                let axis = self.indexed(access, stride, len, false);
                let run = place::gather(dtype.size(), level);
                let d = self.destination(id, one, direct);
                self.push(run, d, offsets, at, axis, one);
            }
            Op::Unary(op, a) => {
                let a = self.of(a, one)?;
                let (run, b) = match map::unary(op, dtype, level) {
                    Some(run) => (run, a),
                    None => {
                        let found = function::by_reference(op, dtype, level);
                        let (run, which) = found.ok_or(unfit)?;
                        (run, self.slots.scalar(which))
                    }
                };
                let d = self.destination(id, one, direct);
                self.push(run, d, a, b, a, one);
            }
            Op::Binary(op, a, b) => {
                let run = map::binary(op, dtype, self.scalars_among(one, a, b), level);
                self.two(id, run.ok_or(unfit)?, a, b, direct)?;
            }
            Op::Compare(op, a, b) => {
                let of = self.nest.values[usize::from(a)].dtype;
                let run = map::compare(op, of, self.scalars_among(one, a, b), level);
                self.two(id, run.ok_or(unfit)?, a, b, direct)?;
            }
            Op::Select(condition, a, b) => {
                let run = map::choose(dtype.size(), self.scalars_among(one, a, b), level);
                let condition = self.of(condition, one)?;
                let (a, b) = (self.at(a)?, self.at(b)?);
                let d = self.destination(id, one, direct);
                self.push(run, d, condition, a, b, one);
            }
            Op::Cast(a) => {
                let from = self.nest.values[usize::from(a)].dtype;
                let run = cast::cast(from, dtype, level).ok_or(unfit)?;
                let a = self.of(a, one)?;
                let d = self.destination(id, one, direct);
                self.push(run, d, a, a, a, one);
            }
            Op::Random { seed, counter } => {
                let scalar = self.slots.scalars.len() as u32;
                self.plan.words.push((seed, scalar, 8));
                let seed = self.slots.scalar(0);
                let counter = self.of(counter, one)?;
                let d = self.destination(id, one, direct);
                self.push(random::random(level), d, counter, seed, seed, one);
            }
            _ => return Err(unfit),
        }
        Ok(())
    }

    fn two(
        &mut self,
        id: ValueId,
        run: Kernel,
        a: ValueId,
        b: ValueId,
        direct: Option<usize>,
    ) -> Result<(), Unfit> {
        let (a, b, one) = (self.at(a)?, self.at(b)?, self.is_one(id));
        let d = self.destination(id, one, direct);
        self.push(run, d, a, b, a, one);
        Ok(())
    }

    /// Which of two operands are scalars beside tiles.
    fn scalars_among(&self, one: bool, a: ValueId, b: ValueId) -> [bool; 2] {
        [!one && self.is_one(a), !one && self.is_one(b)]
    }

    /// Where a value is.
    pub(super) fn at(&self, id: ValueId) -> Result<SlotId, Unfit> {
        self.places[usize::from(id)].ok_or(Unfit::Value(usize::from(id)))
    }

    /// Where a value is, as the one element or as a tile.
    fn of(&mut self, id: ValueId, one: bool) -> Result<SlotId, Unfit> {
        if one { self.at(id) } else { self.lanes_of(id) }
    }

    /// A value as a tile.
    pub(super) fn lanes_of(&mut self, id: ValueId) -> Result<SlotId, Unfit> {
        let slot = self.at(id)?;
        if !self.is_one(id) {
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

    /// Room for a value.
    pub(super) fn destination(&mut self, id: ValueId, one: bool, direct: Option<usize>) -> SlotId {
        let index = usize::from(id);
        let size = self.nest.values[index].dtype.size();
        let slot = match direct {
            Some(target) => self.plan.targets[target].slot,
            None if one => self.slots.scalar(0),
            None if !self.in_body => self.slots.lasting(size),
            None if self.is_kept(id) => self.slots.kept(size),
            None => self.slots.register(size),
        };
        self.places[index] = Some(slot);
        slot
    }

    /// How often an access changes its place, and whether it is the same for all lanes.
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
            (true, _) => Scope::Inner,
            (false, true) => Scope::Outer,
            (false, false) => Scope::Launch,
        };
        let one = match self.plan.template {
            Template::Flat | Template::Column => !outer,
            Template::Row => !inner,
        };
        (scope, one)
    }

    /// Where the elements of an access lie, for all lanes or for the one.
    fn offsets(&mut self, access: u16, one: bool) -> Result<SlotId, Unfit> {
        let (scope, same) = self.scope_of(access);
        let slot = self.walk(Walked::Offsets(access), 8, scope, same);
        Ok(if same && !one {
            self.filled(slot, 8)
        } else {
            slot
        })
    }

    /// Copies a value to where it is stored.
    pub(super) fn store(&mut self, value: ValueId, target: usize) -> Result<(), Unfit> {
        let a = self.at(value)?;
        let target = self.plan.targets[target];
        let run = match self.is_one(value) && !target.one {
            true => place::fill(target.size, self.level),
            false => place::copy(target.size, self.level),
        };
        self.push(run, target.slot, a, a, a, target.one);
        Ok(())
    }

    /// Stores a value where another says.
    pub(super) fn scatter(&mut self, store: usize, one: bool) -> Result<(), Unfit> {
        let found = &self.nest.stores[store];
        let Some(scatter) = &found.scatter else {
            return Err(Unfit::Store(store));
        };
        let dtype = self.nest.values[usize::from(found.value)].dtype;
        let run = place::scatter(dtype, scatter.adds, self.level).ok_or(Unfit::Store(store))?;
        let offsets = self.offsets(found.access, one)?;
        let (index, value) = (self.of(scatter.index, one)?, self.of(found.value, one)?);
        let axis = self.indexed(found.access, scatter.stride, scatter.len, true);
        self.push(run, axis, offsets, index, value, one);
        Ok(())
    }
}
