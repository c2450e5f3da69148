//! The axes along which each value varies, and the pass that can compute it.

use millstream_ir::Nest;
use millstream_ir::nest::{Level, Op, Store, Stride, ValueId};

/// How often a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    /// Once a launch.
    Uniform,
    /// Once a row.
    Outer,
    /// For each element of a row.
    Inner,
}

pub(super) struct Shape {
    pub(super) class: Vec<Class>,
    /// Whether it varies between rows.
    pub(super) varies_outside: Vec<bool>,
    /// The number of passes that must have ended before it can be computed.
    pub(super) stage: Vec<usize>,
    /// The last pass that uses it.
    pub(super) last_pass: Vec<usize>,
    /// Whether a stored value depends on it.
    pub(super) is_needed: Vec<bool>,
    pub(super) passes: usize,
}

impl Shape {
    pub(super) fn of(nest: &Nest) -> Self {
        let mut varies_outside: Vec<bool> = Vec::with_capacity(nest.values.len());
        for value in &nest.values {
            varies_outside.push(match &value.op {
                Op::Index(axis) => usize::from(*axis) < nest.outer,
                Op::Load(access) => {
                    let strides = &nest.accesses[usize::from(*access)].strides;
                    let mut outer = strides.iter().take(nest.outer);
                    outer.any(|stride| *stride != Stride::Zero)
                }
                // A gather at least once a row, because what it reads is not known before.
                Op::Gather { .. } | Op::Reduce(..) => true,
                op => {
                    let operands = op.operands();
                    let mut operands = operands.iter();
                    operands.any(|id| varies_outside[usize::from(*id)])
                }
            });
        }
        let levels = nest.levels().into_iter().zip(&varies_outside);
        let class = levels.map(|(level, outside)| match (level, outside) {
            (Level::Inner, _) => Class::Inner,
            // Without inner axes, a row is one element.
            (Level::Outer, true) if nest.inner == 0 => Class::Inner,
            (Level::Outer, true) => Class::Outer,
            (Level::Outer, false) => Class::Uniform,
        });
        let mut shape = Self {
            class: class.collect(),
            varies_outside,
            stage: nest.stages(),
            last_pass: vec![0; nest.values.len()],
            is_needed: nest.needed(nest.stores.iter().flat_map(Store::values), |_| true),
            passes: 1,
        };
        shape.find_passes(nest);
        shape
    }

    /// Finds the number of passes, and the last pass that uses each value.
    fn find_passes(&mut self, nest: &Nest) {
        let stored = nest.stores.iter();
        let stored = stored.filter(|store| store.level == Level::Inner);
        let stored: Vec<ValueId> = stored.flat_map(Store::values).collect();
        let reduces = |index: &usize| {
            self.is_needed[*index] && matches!(nest.values[*index].op, Op::Reduce(..))
        };
        let reduced = (0..nest.values.len()).filter(reduces);
        let stages = stored.iter().map(|value| self.stage[usize::from(*value)]);
        let last = reduced
            .map(|index| self.stage[index] - 1)
            .chain(stages)
            .max();
        let last = last.unwrap_or(0);
        self.passes = if nest.inner == 0 { 1 } else { last + 1 };
        for value in &stored {
            self.last_pass[usize::from(*value)] = last;
        }
        for (index, value) in nest.values.iter().enumerate().rev() {
            // A reduction uses its operand in the pass before its own result exists.
            let pass = match value.op {
                Op::Reduce(..) => self.stage[index] - 1,
                _ => self.last_pass[index].max(self.stage[index]),
            };
            if self.is_needed[index] {
                for operand in value.op.operands().iter() {
                    let last = &mut self.last_pass[usize::from(*operand)];
                    *last = (*last).max(pass);
                }
            }
        }
    }

    /// Returns the reductions of a pass.
    pub(super) fn reductions_of<'a>(
        &'a self,
        nest: &'a Nest,
        pass: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let reduces = move |index: &usize| match nest.values[*index].op {
            Op::Reduce(..) => self.is_needed[*index] && self.stage[*index] == pass + 1,
            _ => false,
        };
        (0..nest.values.len()).filter(reduces)
    }
}
