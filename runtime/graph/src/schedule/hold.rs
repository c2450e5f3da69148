//! What is held: inputs, scalars and lengths that rarely change. What depends on them and on constants alone is made once, before
//! any number of runs, and each run does the rest.
//!
//! The cut is made before kernels are fused, so that no kernel lies on both sides of it. Whatever stores into a buffer that is
//! there belongs to runs: a run that is made ten times stores ten times.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::node::{NodeId, Op};
use crate::lazy::scalar::{Scalar, WordValue};
use crate::schedule::item::Item;
use crate::schedule::order::base_of;
use crate::schedule::parts::Parts;
use crate::schedule::walk::{Local, Seen, Walk};
use crate::schedule::{Schedule, Steps, schedule};
use crate::size::{Size, Symbol};

/// Which inputs, scalars and lengths of a schedule rarely change.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    pub(crate) inputs: Vec<LazyBuffer>,
    pub(crate) scalars: Vec<Scalar>,
    pub(crate) lengths: Vec<Symbol>,
}

impl Hold {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// These as well: inputs, or buffers that are there.
    pub fn inputs<'a>(mut self, inputs: impl IntoIterator<Item = &'a LazyBuffer>) -> Self {
        self.inputs.extend(inputs.into_iter().cloned());
        self
    }

    /// This scalar as well.
    pub fn scalar(mut self, scalar: &Scalar) -> Self {
        self.scalars.push(scalar.clone());
        self
    }

    /// This length as well.
    pub fn length(mut self, symbol: &Symbol) -> Self {
        self.lengths.push(symbol.clone());
        self
    }

    /// Where a buffer is among those that are held.
    pub(crate) fn place(&self, input: &LazyBuffer) -> Option<usize> {
        self.inputs.iter().position(|known| known.is(input))
    }

    pub(crate) fn has_scalar(&self, scalar: &Scalar) -> bool {
        let mut known = self.scalars.iter();
        known.any(|known| known.key() == scalar.key())
    }

    pub(crate) fn has_length(&self, symbol: &Symbol) -> bool {
        self.lengths.contains(symbol)
    }

    fn has_size(&self, size: &Size) -> bool {
        size.symbols().all(|symbol| self.has_length(symbol))
    }
}

/// A schedule in two: what is made of what is held, once, and what each run makes of that and of all else.
///
/// ```
/// use millstream_graph::{DType, Graph, Hold, Schedule};
///
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [8, 64]);
/// let w = graph.input("w", DType::F32, [64, 64]);
/// // Normalized weights, and what is done with them.
/// let y = x.matmul(&w.softmax(-1));
/// let held = Schedule::create_holding(&[&y], &Hold::new().inputs([&w]))?;
/// assert_eq!(held.first().items().len(), 1, "the softmax");
/// assert_eq!(held.rest().items().len(), 1, "the product");
/// # Ok::<(), millstream_graph::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeldSchedule {
    first: Schedule,
    rest: Schedule,
    pub(crate) hold: Arc<Hold>,
}

impl Schedule {
    /// The schedule of these roots, cut in two: what depends on nothing but constants and what is *held* is made once, and runs do
    /// the rest. Compile it with [`HeldSchedule::compile`].
    ///
    /// Kernels may be others than without: a value that is made once is a buffer of its own, where a single schedule might
    /// have computed it inside of its reader. What is cheap to compute again is.
    ///
    /// # Errors
    /// As [`Schedule::create`]; [`ScheduleError::UnknownArgument`] for what the roots do not need;
    /// [`ScheduleError::HeldIsStored`] for an input that the schedule stores into.
    pub fn create_holding(
        roots: &[&LazyBuffer],
        hold: &Hold,
    ) -> Result<HeldSchedule, ScheduleError> {
        let mut walk = Walk::new(roots)?;
        check_known(&walk, hold)?;
        walk.held = held(&walk, hold)?;
        let (steps, held) = schedule(walk, &Parts::default())?;
        let (first, rest) = cut(steps, &held);
        let whole = |steps| Schedule {
            shared: Arc::new(steps),
        };
        Ok(HeldSchedule {
            first: whole(first),
            rest: whole(rest),
            hold: Arc::new(hold.clone()),
        })
    }
}

impl HeldSchedule {
    /// What is made once. Its roots are the values that runs read.
    pub fn first(&self) -> &Schedule {
        &self.first
    }

    /// What each run makes.
    pub fn rest(&self) -> &Schedule {
        &self.rest
    }
}

impl fmt::Display for HeldSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "once\n{}each run\n{}", self.first, self.rest)
    }
}

/// Is everything that is to be held there?
fn check_known(walk: &Walk, hold: &Hold) -> Result<(), ScheduleError> {
    let unknown = |what, name: String| Err(ScheduleError::UnknownArgument { what, name });
    let is_known = |input: &&LazyBuffer| input.number_in(&walk.named).is_some();
    if let Some(input) = hold.inputs.iter().find(|input| !is_known(input)) {
        return unknown("input", format!("{input:?}"));
    }
    for scalar in &hold.scalars {
        let is_it = |node: &Seen| match &node.op {
            Op::Scalar(known) | Op::Random(known) => known.key() == scalar.key(),
            Op::Custom(custom) => {
                let is_it = |word: &WordValue| matches!(word, WordValue::Scalar(known) if known.key() == scalar.key());
                custom.scalars.iter().any(is_it)
            }
            _ => false,
        };
        if !walk.nodes.iter().any(is_it) {
            return unknown("scalar", scalar.name().to_owned());
        }
    }
    for symbol in &hold.lengths {
        let mut sizes = walk.nodes.iter().flat_map(sizes);
        if !sizes.any(|size| size.symbols().any(|known| known == symbol)) {
            return unknown("length", symbol.name().to_owned());
        }
    }
    Ok(())
}

/// The sizes that a node itself depends on.
fn sizes(node: &Seen) -> Vec<&Size> {
    let mut sizes: Vec<&Size> = node.shape.iter().collect();
    match &node.op {
        Op::Narrow { start, .. } => sizes.push(start),
        Op::Length(length) => sizes.push(length),
        Op::Set(layout) => sizes.extend(layout.strides.iter().chain([&layout.offset])),
        Op::Custom(custom) => sizes.extend(custom.scalars.iter().filter_map(|word| match word {
            WordValue::Size(size) => Some(size),
            _ => None,
        })),
        _ => {}
    }
    sizes
}

/// Which nodes depend on nothing but constants and what is held.
fn held(walk: &Walk, hold: &Hold) -> Result<Vec<bool>, ScheduleError> {
    let ids = hold.inputs.iter();
    let ids: HashSet<NodeId> = ids
        .filter_map(|input| input.number_in(&walk.named))
        .collect();
    let mut held: Vec<bool> = Vec::with_capacity(walk.nodes.len());
    for node in &walk.nodes {
        let stored = base_of(walk, node);
        let stored = stored.filter(|base| walk.node(*base).is_buffer());
        if let Some(base) = stored.map(|base| walk.node(base))
            && ids.contains(&base.id)
        {
            let name = match &base.op {
                Op::Buffer(handle) => handle.id().to_string(),
                Op::Input(name) => name.to_string(),
                other => other.name().to_owned(),
            };
            return Err(ScheduleError::HeldIsStored { name });
        }
        let by_itself = match &node.op {
            Op::Input(_) | Op::Buffer(_) => ids.contains(&node.id),
            Op::Scalar(scalar) | Op::Random(scalar) => hold.has_scalar(scalar),
            Op::Custom(custom) => {
                let mut scalars = custom.scalars.iter();
                let is_held = |word: &WordValue| match word {
                    WordValue::Scalar(scalar) => hold.has_scalar(scalar),
                    WordValue::Size(_) | WordValue::Bits(_) => true,
                };
                !custom.in_place && scalars.all(is_held)
            }
            Op::Set(_) => stored.is_none(),
            _ => true,
        };
        held.push(
            by_itself
                && sizes(node).into_iter().all(|size| hold.has_size(size))
                && node.operands.iter().all(|operand| held[*operand as usize]),
        );
    }
    Ok(held)
}

/// Cuts a schedule between what is held and what is not. What the second part reads of the first are the first's roots.
fn cut(steps: Steps, held: &[bool]) -> (Steps, Steps) {
    let is_held = |node: Local| held.get(node as usize).copied().unwrap_or(false);
    let (first, rest): (Vec<_>, Vec<_>) = steps
        .items
        .into_iter()
        .partition(|item| item.written().all(is_held));
    let mut first = Steps {
        items: first,
        nodes: steps.nodes.clone(),
        roots: Vec::new(),
        named: steps.named.clone(),
        bases: steps.bases.clone(),
    };
    let mut rest = Steps {
        items: rest,
        nodes: steps.nodes,
        roots: steps.roots,
        named: steps.named,
        bases: steps.bases,
    };
    let made = first.items.iter().flat_map(Item::written);
    let made = made.map(|node| first.storage(node));
    let made: HashSet<Local> = made.collect();
    let mut values: Vec<Local> = rest.storages().intersection(&made).copied().collect();
    values.sort_unstable();
    for (index, value) in values.iter().enumerate() {
        rest.nodes[*value as usize].op = Op::Prepared(index as u32);
    }
    first.roots = values;
    (first, rest)
}
