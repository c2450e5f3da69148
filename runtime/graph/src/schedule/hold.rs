//! Held inputs, scalars and lengths: those that rarely change. What depends only on them and on constants is computed
//! once, before any number of runs; each run computes the rest.
//!
//! The schedule is divided before fusion, so no kernel belongs to both parts. A store into an existing buffer belongs
//! to runs: ten runs store ten times.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::node::{NodeId, Op};
use crate::lazy::scalar::{Scalar, WordValue};
use crate::schedule::item::Item;
use crate::schedule::order::base_of;
use crate::schedule::split::Parts;
use crate::schedule::walk::{Local, Walk, WalkNode};
use crate::schedule::{Schedule, Steps, schedule};
use crate::size::{Size, Symbol};

/// The inputs, scalars and lengths of a schedule that rarely change.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    pub(crate) inputs: Vec<LazyBuffer>,
    /// The index of each input in `inputs`, which keeps its key from being reused.
    places: HashMap<(usize, NodeId), usize>,
    pub(crate) scalars: Vec<Scalar>,
    pub(crate) lengths: Vec<Symbol>,
}

impl Hold {
    /// Holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds these inputs or buffers.
    pub fn inputs<'a>(mut self, inputs: impl IntoIterator<Item = &'a LazyBuffer>) -> Self {
        for input in inputs {
            if let Some(key) = input.key() {
                self.places.entry(key).or_insert(self.inputs.len());
            }
            self.inputs.push(input.clone());
        }
        self
    }

    /// Adds this scalar.
    pub fn scalar(mut self, scalar: &Scalar) -> Self {
        self.scalars.push(scalar.clone());
        self
    }

    /// Adds this length.
    pub fn length(mut self, symbol: &Symbol) -> Self {
        self.lengths.push(symbol.clone());
        self
    }

    /// Returns the index of a buffer among the held inputs.
    pub(crate) fn place(&self, input: &LazyBuffer) -> Option<usize> {
        self.places.get(&input.key()?).copied()
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

/// A schedule in two parts: what is computed once from held inputs, and what each run computes from that and everything
/// else.
///
/// ```
/// use millstream_graph::{DType, Graph, Hold, Schedule};
///
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [8, 64]);
/// let w = graph.input("w", DType::F32, [64, 64]);
/// // Normalized weights, and a product with them.
/// # Ok::<(), millstream_graph::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeldSchedule {
    first: Schedule,
    rest: Schedule,
    pub(crate) hold: Arc<Hold>,
}

impl Schedule {
    /// Creates the schedule of these roots in two parts: what depends only on constants and *held* inputs is computed
    /// once, and each run computes the rest. Compile it with [`HeldSchedule::compile`].
    ///
    /// The kernels may differ from those of [`Schedule::create`]: a value that is computed once has a buffer of its
    /// own, where a single schedule may fuse it with its reader. Cheap values are still recomputed.
    ///
    /// # Errors
    /// As [`Schedule::create`]; [`ScheduleError::UnknownArgument`] if the roots do not need a held input, scalar or
    /// length; [`ScheduleError::HeldIsStored`] if the schedule stores into a held input.
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
    /// Returns the part that is computed once. Its roots are the values that runs read.
    pub fn first(&self) -> &Schedule {
        &self.first
    }

    /// Returns the part that each run computes.
    pub fn rest(&self) -> &Schedule {
        &self.rest
    }
}

impl fmt::Display for HeldSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "once\n{}each run\n{}", self.first, self.rest)
    }
}

/// Checks that the walk has every held input, scalar and length.
fn check_known(walk: &Walk, hold: &Hold) -> Result<(), ScheduleError> {
    let unknown = |what, name: String| Err(ScheduleError::UnknownArgument { what, name });
    let is_known = |input: &&LazyBuffer| input.id_in(&walk.named).is_some();
    if let Some(input) = hold.inputs.iter().find(|input| !is_known(input)) {
        return unknown("input", format!("{input:?}"));
    }
    for scalar in &hold.scalars {
        let is_it = |node: &WalkNode| match &node.op {
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

/// Returns the sizes that a node itself depends on.
fn sizes(node: &WalkNode) -> Vec<&Size> {
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

/// Returns, for each node, whether it depends on constants and held inputs only.
fn held(walk: &Walk, hold: &Hold) -> Result<Vec<bool>, ScheduleError> {
    let ids = hold.inputs.iter();
    let ids: HashSet<NodeId> = ids.filter_map(|input| input.id_in(&walk.named)).collect();
    let mut held: Vec<bool> = Vec::with_capacity(walk.nodes.len());
    for node in &walk.nodes {
        let stored = base_of(node);
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

/// Divides a schedule into items that are held and items that are not. The roots of the first part are the values that
/// the second reads.
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
        firsts: steps.firsts.clone(),
    };
    let mut rest = Steps {
        items: rest,
        nodes: steps.nodes,
        roots: steps.roots,
        named: steps.named,
        firsts: steps.firsts,
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
