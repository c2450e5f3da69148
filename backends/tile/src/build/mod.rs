//! From a nest to a [`Plan`].
//!
//! | module | what it does |
//! | --- | --- |
//! | `shape` | what each value varies with, and in which pass it can be computed |
//! | `stores` | where values are stored |
//! | `slots` | gives out slots and registers |
//! | `emit` | instructions of values |
//! | `fusing` | which values of a body become one loop |

mod emit;
mod fusing;
mod shape;
mod slots;
mod stores;

use millstream_ir::Nest;
use millstream_ir::nest::{Level as NestLevel, Op, ValueId};

use crate::level::Level;
use crate::plan::{
    Accumulator, IndexedAxis, Instruction, Pass, Plan, Scope, SlotId, Template, Walk, Walked,
};
pub(crate) use crate::unfit::Unfit;
use fusing::{Arranged, Reduces};
use shape::{Class, Shape};
use slots::Slots;

/// Compiles a nest that was checked. `keeps`: is what a later pass needs kept, rather than computed again? `fuses`: does what can
/// be machine code become it?
pub(crate) fn build(
    nest: &Nest,
    template: Template,
    keeps: bool,
    level: Level,
    fuses: bool,
) -> Result<Plan, Unfit> {
    let shape = Shape::of(nest);
    let mut builder = Builder::new(nest, &shape, template, keeps, level);
    builder.fuses = fuses;
    builder.scalars();
    builder.outer_values(0)?;
    for pass in 0..shape.passes {
        builder.pass(pass)?;
    }
    builder.finish()?;
    Ok(builder.plan)
}

/// A plan in the making.
struct Builder<'a> {
    nest: &'a Nest,
    shape: &'a Shape,
    keeps: bool,
    level: Level,
    /// Does what can be machine code become it?
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "there is none for this processor")
    )]
    fuses: bool,
    plan: Plan,
    slots: Slots,
    /// Where each value is, if it is anywhere yet.
    places: Vec<Option<SlotId>>,
    /// Where instructions go now.
    code: Vec<Instruction>,
    /// The pass that is made, its walks so far, and whether they go in its body.
    now: usize,
    walks: Vec<u16>,
    in_body: bool,
}

impl<'a> Builder<'a> {
    fn new(
        nest: &'a Nest,
        shape: &'a Shape,
        template: Template,
        keeps: bool,
        level: Level,
    ) -> Self {
        let mut slots = Slots::default();
        // The position of a step comes first.
        slots.scalar(0);
        let plan = Plan {
            template,
            slots: Vec::new(),
            scalars: Vec::new(),
            words: Vec::new(),
            indexed: Vec::new(),
            walks: Vec::new(),
            launch_walks: Vec::new(),
            row_walks: Vec::new(),
            targets: Vec::new(),
            once: Vec::new(),
            before: Vec::new(),
            passes: Vec::new(),
            finish: Vec::new(),
            unit: 0,
            registers: 0,
            kept: 0,
            cost: 0,
        };
        Self {
            nest,
            shape,
            keeps,
            level,
            fuses: false,
            plan,
            slots,
            places: vec![None; nest.values.len()],
            code: Vec::new(),
            now: 0,
            walks: Vec::new(),
            in_body: false,
        }
    }

    /// Is the value one element for all lanes?
    fn is_one(&self, value: ValueId) -> bool {
        let value = usize::from(value);
        match self.plan.template {
            Template::Flat => self.shape.class[value] == Class::Uniform,
            Template::Row => self.shape.class[value] != Class::Inner,
            Template::Column => !self.shape.varies_outside[value],
        }
    }

    /// In the flat template everything that varies is computed in the one pass.
    fn body_class(&self) -> Class {
        match self.plan.template {
            Template::Flat => Class::Outer,
            _ => Class::Inner,
        }
    }

    /// Constants, words, and what is made of them alone.
    fn scalars(&mut self) {
        for (index, value) in self.nest.values.iter().enumerate() {
            if !self.shape.is_needed[index] {
                continue;
            }
            match value.op {
                Op::Const(bits) => self.places[index] = Some(self.slots.scalar(bits)),
                Op::Word(word) => {
                    let scalar = self.slots.scalars.len() as u32;
                    self.plan
                        .words
                        .push((word, scalar, value.dtype.size() as u32));
                    self.places[index] = Some(self.slots.scalar(0));
                }
                _ => {}
            }
        }
    }

    /// Emits all values of the outer level that a stage makes possible; stage 0 with those of the launch.
    fn outer_values(&mut self, stage: usize) -> Result<(), Unfit> {
        self.in_body = false;
        if stage == 0 {
            for value in 0..self.nest.values.len() {
                if self.shape.class[value] == Class::Uniform {
                    self.outer_value(value)?;
                }
            }
            self.plan.once = std::mem::take(&mut self.code);
        }
        if self.plan.template == Template::Flat {
            return Ok(());
        }
        for value in 0..self.nest.values.len() {
            let (class, at) = (self.shape.class[value], self.shape.stage[value]);
            let reduced = matches!(self.nest.values[value].op, Op::Reduce(..));
            if class == Class::Outer && at == stage && !reduced {
                self.outer_value(value)?;
            }
        }
        if stage == 0 {
            self.plan.before = std::mem::take(&mut self.code);
        }
        Ok(())
    }

    fn outer_value(&mut self, value: usize) -> Result<(), Unfit> {
        if self.shape.is_needed[value] && self.places[value].is_none() {
            self.value(value as ValueId, None)?;
        }
        Ok(())
    }

    /// One pass: its body, its reductions, and what follows from them.
    fn pass(&mut self, pass: usize) -> Result<(), Unfit> {
        self.now = pass;
        let mut made = Pass::default();
        let is_last = pass + 1 == self.shape.passes;
        let (nest, shape) = (self.nest, self.shape);
        let reduces: Vec<usize> = shape.reductions_of(nest, pass).collect();
        for &value in &reduces {
            made.accumulators.push(self.accumulator(value)?);
        }
        for accumulator in &made.accumulators {
            let (slot, best) = (accumulator.slot, accumulator.best);
            self.push(
                accumulator.reducer.begin,
                slot,
                slot,
                best,
                slot,
                self.rows_are_one(),
            );
        }
        made.begin = std::mem::take(&mut self.code);

        self.in_body = true;
        let mut stored: Vec<ValueId> = Vec::new();
        if is_last {
            for store in nest
                .stores
                .iter()
                .filter(|store| self.is_in_body(store.level))
            {
                stored.push(store.value);
                stored.extend(store.scatter.iter().map(|scatter| scatter.index));
            }
        }
        let mut roots = stored.clone();
        for &value in &reduces {
            roots.extend(nest.values[value].op.operands().iter());
        }
        let body = self.body_values(&roots);
        let Arranged { body, fused } = self.arranged(body, &roots, &reduces);
        let mut last_use = self.last_uses(&body);
        if is_last {
            self.stored_last(&mut last_use);
        }
        let directs = if is_last {
            self.body_targets(&body)
        } else {
            Vec::new()
        };
        let start = fused.as_ref().map_or(0, |fused| fused.start);
        let (early, inside) = body.split_at(start);
        for &value in &reduces {
            // The loop may fold what comes before it.
            let of = nest.values[value].op.operands();
            for of in of.iter().filter(|of| early.contains(of)) {
                last_use[usize::from(*of)] = usize::MAX;
            }
        }
        let mut folded = Vec::new();
        for position in 0..=body.len() {
            if position == start {
                if let Some(fused) = &fused {
                    let reduces = Reduces {
                        values: &reduces,
                        accumulators: &made.accumulators,
                        stored: &stored,
                    };
                    folded = self.fuse(&body, fused.clone(), &reduces, &directs)?;
                }
                // Of what is there from before.
                let folds = |by: usize, of: ValueId| !inside.contains(&of) && !folded.contains(&by);
                self.fold(&made.accumulators, &reduces, folds)?;
            }
            let Some(&value) = body.get(position) else {
                break;
            };
            if !fused
                .as_ref()
                .is_some_and(|fused| fused.contains(&position))
            {
                self.value(value, target_of(&directs, value))?;
            }
            let folds =
                |by: usize, of: ValueId| position >= start && of == value && !folded.contains(&by);
            self.fold(&made.accumulators, &reduces, folds)?;
            self.free_after(position, value, &last_use);
        }
        if is_last {
            self.body_stores(&directs)?;
        }
        made.body = std::mem::take(&mut self.code);
        made.walks = std::mem::take(&mut self.walks);
        self.forget(&body);

        self.in_body = false;
        for (accumulator, &value) in made.accumulators.iter().zip(&reduces) {
            let size = nest.values[value].dtype.size();
            let d = self.outer_register(size);
            self.places[value] = Some(d);
            let (slot, one) = (accumulator.slot, self.rows_are_one());
            self.push(accumulator.reducer.end, d, slot, slot, slot, one);
        }
        self.outer_values(pass + 1)?;
        made.end = std::mem::take(&mut self.code);
        self.plan.passes.push(made);
        Ok(())
    }

    /// Are values of the outer level scalars?
    fn rows_are_one(&self) -> bool {
        self.plan.template == Template::Row
    }

    fn is_in_body(&self, level: NestLevel) -> bool {
        level == NestLevel::Inner || self.plan.template == Template::Flat
    }

    fn accumulator(&mut self, value: usize) -> Result<Accumulator, Unfit> {
        let Op::Reduce(op, of) = self.nest.values[value].op else {
            return Err(Unfit::Value(value));
        };
        let dtype = self.nest.values[usize::from(of)].dtype;
        let reducer = crate::kernels::reduce::reducer(op, dtype, self.level);
        let reducer = reducer.ok_or(Unfit::Value(value))?;
        let slot = self.outer_register(reducer.kept);
        let best = if reducer.is_index {
            self.outer_register(dtype.size())
        } else {
            slot
        };
        Ok(Accumulator {
            reducer,
            slot,
            best,
        })
    }

    /// Room for a value of the outer level.
    fn outer_register(&mut self, size: usize) -> SlotId {
        match self.rows_are_one() {
            true => self.slots.scalar(0),
            false => self.slots.lasting(size),
        }
    }

    /// The values that a pass computes for each element, in order.
    fn body_values(&self, roots: &[ValueId]) -> Vec<ValueId> {
        let mut wanted = vec![false; self.nest.values.len()];
        roots
            .iter()
            .for_each(|root| wanted[usize::from(*root)] = true);
        for index in (0..wanted.len()).rev() {
            if !wanted[index] {
                continue;
            }
            // What an earlier pass has kept, and what is computed once a row, is there.
            wanted[index] =
                self.shape.class[index] == self.body_class() && self.places[index].is_none();
            if wanted[index] {
                let operands = self.nest.values[index].op.operands();
                operands
                    .iter()
                    .for_each(|operand| wanted[usize::from(*operand)] = true);
            }
        }
        (0..wanted.len())
            .filter(|index| wanted[*index])
            .map(|index| index as ValueId)
            .collect()
    }

    /// The position in `body` after which nobody uses a value of it any more.
    fn last_uses(&self, body: &[ValueId]) -> Vec<usize> {
        let mut last = vec![0; self.nest.values.len()];
        for (position, value) in body.iter().enumerate() {
            last[usize::from(*value)] = position;
            for operand in self.nest.values[usize::from(*value)].op.operands().iter() {
                last[usize::from(*operand)] = position;
            }
        }
        last
    }

    /// What is stored is in use until the end.
    fn stored_last(&self, last: &mut [usize]) {
        for store in self
            .nest
            .stores
            .iter()
            .filter(|store| self.is_in_body(store.level))
        {
            last[usize::from(store.value)] = usize::MAX;
            if let Some(scatter) = &store.scatter {
                last[usize::from(scatter.index)] = usize::MAX;
            }
        }
    }

    /// Frees the registers whose last use is at this position: operands of its value, or the value itself.
    fn free_after(&mut self, position: usize, value: ValueId, last: &[usize]) {
        let operands = self.nest.values[usize::from(value)].op.operands();
        for id in operands.iter().copied().chain([value]).map(usize::from) {
            if last[id] == position
                && let Some(slot) = self.places[id]
            {
                self.slots.free(slot);
            }
        }
    }

    /// After a pass its values are nowhere, unless they are kept.
    fn forget(&mut self, body: &[ValueId]) {
        for &value in body {
            if !self.is_kept(value) {
                self.places[usize::from(value)] = None;
            }
        }
        self.slots.free_all();
    }

    /// Does a value of a pass stay where it is for later ones? What is only read is read again.
    fn is_kept(&self, value: ValueId) -> bool {
        let index = usize::from(value);
        let is_read = matches!(self.nest.values[index].op, Op::Load(_) | Op::Index(_));
        self.keeps && !is_read && !self.is_one(value) && self.shape.last_pass[index] > self.now
    }

    /// Folds values into the accumulators of their reductions.
    fn fold(
        &mut self,
        accumulators: &[Accumulator],
        reduces: &[usize],
        folds: impl Fn(usize, ValueId) -> bool,
    ) -> Result<(), Unfit> {
        for (accumulator, &reduce) in accumulators.iter().zip(reduces) {
            let Op::Reduce(_, of) = self.nest.values[reduce].op else {
                continue;
            };
            if !folds(reduce, of) {
                continue;
            }
            let a = self.lanes_of(of)?;
            let run = match self.rows_are_one() {
                true => accumulator.reducer.row,
                false => accumulator.reducer.lanes,
            };
            let position = self.slots.position();
            self.push(run, accumulator.slot, a, accumulator.best, position, false);
        }
        Ok(())
    }

    /// The walk that brings something, new for each use in a body.
    fn walk(&mut self, walked: Walked, size: usize, scope: Scope, one: bool) -> SlotId {
        let (slot, home) = (
            self.slots.placed(),
            match one {
                true => self.slots.scalar(0),
                false => self.slots.lasting(size),
            },
        );
        let index = self.plan.walks.len() as u16;
        self.plan.walks.push(Walk {
            walked,
            size,
            scope,
            one,
            slot,
            home,
        });
        match scope {
            Scope::Launch => self.plan.launch_walks.push(index),
            Scope::Outer if self.plan.template != Template::Flat => self.plan.row_walks.push(index),
            _ => self.walks.push(index),
        }
        slot
    }

    /// Three scalars for a gather or scatter.
    fn indexed(&mut self, access: u16, stride: millstream_ir::nest::Stride, len: u16) -> SlotId {
        let scalar = self.slots.scalars.len() as u32;
        let slot = self.slots.scalar(0);
        self.slots.scalar(0);
        self.slots.scalar(0);
        self.plan.indexed.push(IndexedAxis {
            access,
            stride,
            len,
            scalar,
        });
        slot
    }
}

/// Where a value of a body is stored, if it is computed there.
fn target_of(directs: &[(ValueId, usize)], value: ValueId) -> Option<usize> {
    let found = directs.iter().find(|(stored, _)| *stored == value);
    found.map(|(_, target)| *target)
}

/// About what an element costs: loops over tiles in the first cache do some sixteen bytes a nanosecond and operand, functions
/// take longer.
fn cost(plan: &Plan) -> u64 {
    let bodies: usize = plan
        .passes
        .iter()
        .map(|pass| 2 * pass.body.len() + pass.walks.len())
        .sum();
    bodies.max(1) as u64 * (crate::COST_UNIT / 16)
}
