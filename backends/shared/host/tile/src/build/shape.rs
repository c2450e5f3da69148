//! The axes along which each value varies, and the pass that can compute it.

use millstream_ir::Nest;
use millstream_ir::nest::{Level, Op, Stride, ValueId};

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
        let count = nest.values.len();
        let mut shape = Self {
            class: Vec::with_capacity(count),
            varies_outside: Vec::with_capacity(count),
            stage: Vec::with_capacity(count),
            last_pass: vec![0; count],
            is_needed: vec![false; count],
            passes: 1,
        };
        for value in &nest.values {
            let (outside, inside) = shape.varies(nest, &value.op);
            let class = match (inside, outside) {
                (true, _) => Class::Inner,
                (false, true) => Class::Outer,
                (false, false) => Class::Uniform,
            };
            let operands = value.op.operands();
            let stages = operands.iter().map(|id| shape.stage[usize::from(*id)]);
            let stage = stages.max().unwrap_or(0);
            let reduces = matches!(value.op, Op::Reduce(..));
            shape.class.push(class);
            shape.varies_outside.push(outside);
            shape.stage.push(stage + usize::from(reduces));
        }
        shape.find_needed(nest);
        shape.find_passes(nest);
        shape
    }

    /// Returns whether a value varies between rows, and within a row.
    fn varies(&self, nest: &Nest, op: &Op) -> (bool, bool) {
        let moves = |access: u16| {
            let strides = &nest.accesses[usize::from(access)].strides;
            let (outer, inner) = strides.split_at(nest.outer.min(strides.len()));
            let any = |strides: &[Stride]| strides.iter().any(|stride| *stride != Stride::Zero);
            (any(outer), any(inner))
        };
        let either = |a: (bool, bool), b: (bool, bool)| (a.0 || b.0, a.1 || b.1);
        let of = |id: &ValueId| {
            let index = usize::from(*id);
            (
                self.varies_outside[index],
                self.class[index] == Class::Inner,
            )
        };
        match op {
            Op::Index(axis) if usize::from(*axis) < nest.outer => (true, false),
            Op::Index(_) => (false, true),
            Op::Load(access) => moves(*access),
            // At least once a row, because what it reads is not known before.
            Op::Gather { access, index, .. } => {
                either(either(moves(*access), of(index)), (true, false))
            }
            Op::Reduce(..) => (true, false),
            op => op.operands().iter().map(of).fold((false, false), either),
        }
    }

    fn find_needed(&mut self, nest: &Nest) {
        for store in &nest.stores {
            self.is_needed[usize::from(store.value)] = true;
            if let Some(scatter) = &store.scatter {
                self.is_needed[usize::from(scatter.index)] = true;
            }
        }
        for index in (0..nest.values.len()).rev() {
            if self.is_needed[index] {
                for operand in nest.values[index].op.operands().iter() {
                    self.is_needed[usize::from(*operand)] = true;
                }
            }
        }
    }

    /// Finds the number of passes, and the last pass that uses each value.
    fn find_passes(&mut self, nest: &Nest) {
        let mut last = 0;
        for (index, value) in nest.values.iter().enumerate() {
            if self.is_needed[index]
                && let Op::Reduce(_, of) = value.op
            {
                last = last.max(self.stage[usize::from(of)]);
            }
        }
        let stored = nest
            .stores
            .iter()
            .filter(|store| store.level == Level::Inner);
        let stored = stored.flat_map(|store| {
            store
                .scatter
                .iter()
                .map(|scatter| scatter.index)
                .chain([store.value])
        });
        let stored: Vec<ValueId> = stored.collect();
        for value in &stored {
            last = last.max(self.stage[usize::from(*value)]);
        }
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
