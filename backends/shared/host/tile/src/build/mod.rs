//! Builds a [`Plan`] from a nest.
//!
//! | module | contents |
//! | --- | --- |
//! | `shape` | the axes each value varies along, and the pass that computes it |
//! | `stores` | targets and stores |
//! | `slots` | allocates slots and registers |
//! | `emit` | instructions of values |
//! | `runs` | gathers that are read in runs |
//! | `passes` | passes over the inner axes |
//! | `fusing` | the values of a body that become one loop |

mod emit;
mod fusing;
mod passes;
mod runs;
mod shape;
mod slots;
mod stores;

use millstream_ir::Nest;
use millstream_ir::nest::{Level as NestLevel, Op, ValueId, Word};

use crate::plan::{
    IndexedAxis, Input, InputKind, Instruction, Pass, Plan, Prefetch, Scope, Template, Way,
};
use crate::prepare_error::CompileError;
use crate::slot::SlotId;
use millstream_loops::level::Level;
pub(crate) use runs::STEPS_MAX;
use shape::{Class, Shape};
use slots::Slots;

/// Compiles a checked nest.
pub(crate) fn build(nest: &Nest, way: Way) -> Result<Plan, CompileError> {
    let shape = Shape::of(nest);
    let mut slots = Slots::default();
    // The first slot is the position of a step.
    slots.scalar(0);
    let plan = Plan {
        template: way.template,
        ..Plan::default()
    };
    let mut builder = Builder {
        nest,
        shape: &shape,
        way,
        level: way.level,
        plan,
        slots,
        places: vec![None; nest.values.len()],
        code: Vec::new(),
        now: 0,
        inputs: Vec::new(),
        directs: Vec::new(),
        in_body: false,
        prefetches: Vec::new(),
    };
    builder.scalars();
    builder.outer_values(0)?;
    for pass in 0..shape.passes {
        builder.pass(pass)?;
    }
    builder.finish()?;
    Ok(builder.plan)
}

/// A plan under construction.
struct Builder<'a> {
    nest: &'a Nest,
    shape: &'a Shape,
    way: Way,
    level: Level,
    plan: Plan,
    slots: Slots,
    /// The slot of each value that was emitted.
    places: Vec<Option<SlotId>>,
    /// The instructions that are being emitted.
    code: Vec<Instruction>,
    /// The current pass, its inputs so far, and whether they are emitted into its body.
    now: usize,
    inputs: Vec<u16>,
    in_body: bool,
    /// The values of the body that are computed directly into a target, with the targets.
    directs: Vec<(ValueId, usize)>,
    /// What the body prefetches.
    prefetches: Vec<(Prefetch, SlotId)>,
}

impl Builder<'_> {
    /// Returns `true` if the value is one element for all lanes.
    fn is_uniform(&self, value: ValueId) -> bool {
        let value = usize::from(value);
        match self.plan.template {
            Template::Row => self.shape.class[value] != Class::Inner,
            Template::Column => !self.shape.varies_outside[value],
        }
    }

    /// Allocates scalars for constants and words.
    fn scalars(&mut self) {
        for (index, value) in self.nest.values.iter().enumerate() {
            if !self.shape.is_needed[index] {
                continue;
            }
            match value.op {
                Op::Const(bits) => self.places[index] = Some(self.slots.scalar(bits)),
                Op::Word(word) => {
                    self.places[index] = Some(self.word(word));
                }
                _ => {}
            }
        }
    }

    /// Allocates a scalar for a word.
    fn word(&mut self, word: Word) -> SlotId {
        self.plan
            .words
            .push((word, self.slots.scalars.len() as u32));
        self.slots.scalar(0)
    }

    /// Emits all values of the outer level that a stage makes possible; stage 0 includes the values of the launch.
    fn outer_values(&mut self, stage: usize) -> Result<(), CompileError> {
        self.in_body = false;
        if stage == 0 {
            for value in 0..self.nest.values.len() {
                if self.shape.class[value] == Class::Uniform {
                    self.outer_value(value)?;
                }
            }
            self.plan.launch_values = std::mem::take(&mut self.code);
        }
        for value in 0..self.nest.values.len() {
            let (class, at) = (self.shape.class[value], self.shape.stage[value]);
            let reduced = matches!(self.nest.values[value].op, Op::Reduce(..));
            if class == Class::Outer && at == stage && !reduced {
                self.outer_value(value)?;
            }
        }
        if stage == 0 {
            self.plan.row_values = std::mem::take(&mut self.code);
        }
        Ok(())
    }

    fn outer_value(&mut self, value: usize) -> Result<(), CompileError> {
        if self.shape.is_needed[value] && self.places[value].is_none() {
            self.value(value as ValueId)?;
        }
        Ok(())
    }

    /// Returns `true` if values of the outer level are scalars.
    fn rows_are_uniform(&self) -> bool {
        self.plan.template == Template::Row
    }

    fn is_in_body(&self, level: NestLevel) -> bool {
        level == NestLevel::Inner || self.nest.inner == 0
    }

    /// Allocates a slot for a value of the outer level.
    fn outer_register(&mut self, size: usize) -> SlotId {
        match self.rows_are_uniform() {
            true => self.slots.scalar(0),
            false => self.slots.lasting(size),
        }
    }

    /// Returns `true` if a value is retained for later passes. Inputs are read again instead.
    fn is_retained(&self, value: ValueId) -> bool {
        let index = usize::from(value);
        self.way.retains
            && !self.is_read(value)
            && !self.is_uniform(value)
            && self.shape.last_pass[index] > self.now
    }

    /// Returns `true` if the value is an input rather than computed.
    fn is_read(&self, value: ValueId) -> bool {
        match self.nest.values[usize::from(value)].op {
            Op::Load(_) | Op::Index(_) => true,
            Op::Gather { .. } => self.is_in_runs(value),
            _ => false,
        }
    }

    /// Adds an input and returns its slot. Each use in a body adds its own.
    fn input(&mut self, kind: InputKind, size: usize, scope: Scope, is_uniform: bool) -> SlotId {
        let index = self.unplaced_input(kind, size, scope, is_uniform);
        let slot = self.plan.inputs[usize::from(index)].slot;
        match scope {
            Scope::Launch => self.plan.launch_inputs.push(index),
            Scope::Outer => self.plan.row_inputs.push(index),
            Scope::Inner => self.inputs.push(index),
        }
        slot
    }

    /// Adds an input that is not placed.
    fn unplaced_input(
        &mut self,
        kind: InputKind,
        size: usize,
        scope: Scope,
        is_uniform: bool,
    ) -> u16 {
        let (slot, staging) = (
            self.slots.placed(),
            match is_uniform {
                true => self.slots.scalar(0),
                false => self.slots.lasting(size),
            },
        );
        self.plan.inputs.push(Input {
            kind,
            size,
            scope,
            is_uniform,
            slot,
            staging,
            direct_target: None,
        });
        self.plan.inputs.len() as u16 - 1
    }

    /// Allocates the four scalars of a gather or scatter.
    fn indexed(
        &mut self,
        access: u16,
        stride: millstream_ir::nest::Stride,
        len: u16,
        writes: bool,
    ) -> SlotId {
        let scalar = self.slots.scalars.len() as u32;
        let slot = self.slots.scalar(0);
        (0..3).for_each(|_| _ = self.slots.scalar(0));
        self.plan.indexed.push(IndexedAxis {
            access,
            stride,
            len,
            scalar,
            writes,
        });
        slot
    }
}

/// Returns `true` if elements are only moved by a plan without inner axes.
fn moves(plan: &Plan) -> bool {
    let direct_target = |input: &u16| plan.inputs[usize::from(*input)].direct_target.is_some();
    let mut passes = plan.passes.iter();
    let only =
        |pass: &Pass| pass.body.len() == pass.inputs.len() && pass.inputs.iter().all(direct_target);
    passes.all(only)
}

/// Returns the approximate cost of an element: loops over tiles in the L1 cache process some sixteen bytes per
/// nanosecond and operand; functions take longer.
fn cost(plan: &Plan) -> u64 {
    let bodies: usize = plan
        .passes
        .iter()
        .map(|pass| 2 * pass.body.len() + pass.inputs.len())
        .sum();
    bodies.max(1) as u64 * (crate::COST_UNIT / 16)
}
