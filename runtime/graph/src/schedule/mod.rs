//! Turns lazy buffers into a schedule: items in order, each with the buffers that it reads and writes.
//!
//! | module | contents |
//! | --- | --- |
//! | [`walk`] | the nodes that the roots need, in topological order |
//! | [`split`] | decides which reductions are split into two stages, and where |
//! | [`two_stage`] | rewrites those reductions |
//! | [`fuse`] | assigns nodes to groups: each group becomes one kernel |
//! | [`group`] | a kernel under construction |
//! | [`axes`] | index arithmetic over the axes of a kernel |
//! | [`materialize`] | opens the groups that fill a node's buffer |
//! | [`multi_output`] | merges groups that read the same buffers |
//! | [`cost`] | the cost of recomputing a node |
//! | [`emit`] | turns a group into an item |
//! | [`mod@lower`] | turns a group into a nest |
//! | [`values`] | the values of that nest |
//! | [`product`] | turns a group into a matrix product |
//! | [`order`] | versions of buffers, and the order of items |
//! | [`item`] | one step of a schedule; schedules as text and as Graphviz graphs |
//! | [`memory`] | the buffers of the items |
//! | [`slots`] | the launch words that each run computes |
//! | [`expression`] | programs as readable expressions |

pub(crate) mod axes;
mod cost;
mod emit;
mod expression;
pub(crate) mod fuse;
pub(crate) mod group;
pub(crate) mod item;
pub(crate) mod lower;
mod materialize;
pub(crate) mod memory;
mod multi_output;
mod order;
pub(crate) mod product;
pub(crate) mod slots;
pub(crate) mod split;
mod two_stage;
mod values;
pub(crate) mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millstream_ir::DType;

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::Graph;
use crate::lazy::scalar::Scalar;
use crate::schedule::emit::lower;
use crate::schedule::fuse::Fuser;
use crate::schedule::group::Group;
use crate::schedule::item::{Item, WordValue};
use crate::schedule::memory::{External, Memory};
use crate::schedule::order::Versions;
use crate::schedule::slots::Slots;
use crate::schedule::split::Parts;
use crate::schedule::two_stage::rewrite_long_reductions;
use crate::schedule::walk::{Local, Walk, WalkNode};
use crate::shape::Shape;
use crate::size::{Size, Symbol};

/// The steps that compute some lazy buffers, the *roots*: fused kernels, products and kernels of users, in order.
///
/// A schedule does not depend on a device and can be compiled for several.
///
/// ```
/// use millstream_graph::{DType, Graph, ItemKind, Schedule};
///
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [64, 128]);
/// let schedule = Schedule::create_one(&x.softmax(-1))?;
/// // Two reductions and two passes over each row, in one kernel.
/// let kinds: Vec<ItemKind> = schedule.items().iter().map(|item| item.kind()).collect();
/// assert_eq!(kinds, [ItemKind::Kernel]);
/// # Ok::<(), millstream_graph::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) shared: Arc<Steps>,
}

/// An input of a schedule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InputInfo {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
    /// The items that use the buffer, as indices into [`Schedule::items`].
    pub items: Vec<usize>,
}

/// An output of a schedule: the result for one root.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputInfo {
    /// The type of the elements.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
    /// The name of the input whose buffer holds the output, if the root is an input or a new version of one.
    pub input: Option<String>,
}

/// The content of a schedule.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) items: Vec<Item>,
    pub(crate) nodes: Vec<WalkNode>,
    /// The node of each root.
    pub(crate) roots: Vec<Local>,
    /// The graph of the nodes.
    graph: Graph,
    /// For each node that stores into an existing buffer, the node that the buffer was allocated for: the first version.
    firsts: HashMap<Local, Local>,
    pub(crate) memory: Memory,
    pub(crate) slots: Slots,
}

impl Schedule {
    /// Creates the schedule of these roots. A root counts as a use of its node.
    ///
    /// # Errors
    /// [`ScheduleError::NoRoots`], [`ScheduleError::Graph`] with the first refused operation,
    /// [`ScheduleError::Graphs`], [`ScheduleError::Devices`], [`ScheduleError::TooLarge`].
    pub fn create(roots: &[&LazyBuffer]) -> Result<Self, ScheduleError> {
        Self::create_split(roots, Parts::default())
    }

    /// Creates the schedule of these roots, and splits reductions of few long rows as `parts` says.
    ///
    /// # Errors
    /// As [`Schedule::create`].
    pub fn create_split(roots: &[&LazyBuffer], parts: Parts) -> Result<Self, ScheduleError> {
        let span = tracing::debug_span!(target: "millstream", "schedule", roots = roots.len());
        let _entered = span.enter();
        let steps = schedule(Walk::new(roots)?, &parts)?;
        Ok(Self {
            shared: Arc::new(steps),
        })
    }

    /// Creates the schedule of one root.
    ///
    /// # Errors
    /// As [`Schedule::create`].
    pub fn create_one(root: &LazyBuffer) -> Result<Self, ScheduleError> {
        Self::create(&[root])
    }

    /// Returns the items, in order.
    pub fn items(&self) -> &[Item] {
        &self.shared.items
    }

    /// Returns the names of the inputs that a run binds. The name of a buffer of the graph is that of its slice.
    pub fn inputs(&self) -> impl Iterator<Item = String> {
        self.shared.inputs().map(|(_, name)| name.to_string())
    }

    /// Returns `true` if the buffer is an input of this schedule. An input that no item uses is not one.
    pub fn takes(&self, input: &LazyBuffer) -> bool {
        self.shared.input(input).is_some()
    }

    /// Returns the first input of this name.
    ///
    /// # Errors
    /// [`ScheduleError::UnknownArgument`].
    pub fn input(&self, name: &str) -> Result<InputInfo, ScheduleError> {
        let found = self.shared.inputs().find(|(_, known)| **known == *name);
        let Some((External { node, .. }, _)) = found else {
            return Err(ScheduleError::unknown("input", name));
        };
        let readers = self.shared.items.iter().enumerate();
        let readers = readers.filter(|(_, item)| {
            let mut touched = item.touched();
            touched.any(|touched| self.shared.storage(touched) == *node)
        });
        let seen = self.shared.node(*node);
        Ok(InputInfo {
            name: name.to_owned(),
            dtype: seen.dtype,
            shape: seen.shape.clone(),
            items: readers.map(|(index, _)| index).collect(),
        })
    }

    /// Returns the outputs, one for each root in order.
    pub fn outputs(&self) -> impl Iterator<Item = OutputInfo> {
        self.shared.roots.iter().map(|root| {
            let (seen, storage) = (self.shared.node(*root), self.shared.storage(*root));
            let input = self.shared.node(storage).input_name();
            OutputInfo {
                dtype: seen.dtype,
                shape: seen.shape.clone(),
                input: input.map(|name| name.to_string()),
            }
        })
    }

    /// Returns the scalars that a run can set.
    pub fn scalars(&self) -> Vec<Scalar> {
        let scalars = self.shared.slots.all.iter().filter_map(|word| match word {
            WordValue::Scalar(scalar) => Some(scalar.clone()),
            _ => None,
        });
        scalars.collect()
    }

    /// Returns the lengths that each run must set.
    pub fn lengths(&self) -> Vec<Symbol> {
        let mut known = HashSet::new();
        let symbols = self.shared.symbols();
        let first = symbols.filter(|symbol| known.insert(*symbol));
        first.cloned().collect()
    }

    /// Returns the number of roots.
    pub fn roots(&self) -> usize {
        self.shared.roots.len()
    }
}

impl Steps {
    pub(crate) fn node(&self, local: Local) -> &WalkNode {
        &self.nodes[local as usize]
    }

    /// Returns the inputs with their names.
    fn inputs(&self) -> impl Iterator<Item = (&External, Arc<str>)> {
        let externals = self.memory.externals.iter();
        externals.filter_map(|external| Some((external, self.node(external.node).input_name()?)))
    }

    /// Returns the lengths that a run depends on, by a kernel or the shape of a root, each as often as it occurs.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        let of_slots = self.slots.all.iter().filter_map(|slot| match slot {
            WordValue::Size(size) => Some(size),
            _ => None,
        });
        let roots = self.roots.iter();
        let of_roots = roots.flat_map(|root| self.node(*root).shape.iter());
        of_slots.chain(of_roots).flat_map(Size::symbols)
    }

    /// Returns the node that a node's memory was allocated for: the first version.
    pub(crate) fn storage(&self, local: Local) -> Local {
        self.firsts.get(&local).copied().unwrap_or(local)
    }
}

/// Schedules a walk.
fn schedule(walk: Walk, parts: &Parts) -> Result<Steps, ScheduleError> {
    check_devices(&walk)?;
    let mut walk = rewrite_long_reductions(walk, parts);
    let items = loop {
        let (items, conflicts) = fused(&walk)?;
        if conflicts.is_empty() {
            break items;
        }
        compute_apart(&mut walk, conflicts)?;
    };
    let mut versions = Versions::new(&mut walk, items);
    versions.place_stores()?;
    let (items, firsts) = (versions.order()?, versions.firsts);
    let mut steps = Steps {
        slots: Slots::new(&items),
        items,
        roots: walk.roots,
        graph: walk.graph,
        nodes: walk.nodes,
        firsts,
        memory: Memory::default(),
    };
    steps.memory = Memory::new(&mut steps)?;
    Ok(steps)
}

/// Gives values that cannot be computed where they are stored buffers of their own.
fn compute_apart(walk: &mut Walk, values: Vec<Local>) -> Result<(), ScheduleError> {
    if values.iter().any(|value| walk.apart.contains(value)) {
        // Another round would find the same conflict.
        return Err(ScheduleError::Bug("a value conflicts with its store"));
    }
    walk.apart.extend(values);
    Ok(())
}

/// Returns the items of a walk, and the values that cannot be computed where they are stored.
fn fused(walk: &Walk) -> Result<(Vec<Item>, Vec<Local>), ScheduleError> {
    let (mut items, mut conflicts, mut mergeable) = (Vec::new(), Vec::new(), Vec::new());
    let mut made = |group: Group| {
        match lower(walk, &group)? {
            Some(item) => items.push(item),
            None => conflicts.extend(walk.node(group.sink().node).operands.last()),
        }
        Ok(())
    };
    Fuser::new(walk).run(|group| {
        if multi_output::may_merge(walk, &group) {
            mergeable.push(group);
            return Ok(());
        }
        made(group)
    })?;
    for group in multi_output::merge(mergeable) {
        made(group)?;
    }
    Ok((items, conflicts))
}

/// Checks that all buffers are of one device.
fn check_devices(walk: &Walk) -> Result<(), ScheduleError> {
    let mut handles = walk.nodes.iter().filter_map(WalkNode::handle);
    let Some(first) = handles.next() else {
        return Ok(());
    };
    match handles.find(|handle| !handle.is_same_device(first)) {
        None => Ok(()),
        Some(other) => Err(ScheduleError::Devices {
            first: first.id(),
            second: other.id(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lazy::graph::Graph;

    #[test]
    fn conflict_that_a_buffer_does_not_resolve_is_an_error() {
        let x = Graph::new().input("x", DType::F32, [4]);
        let mut walk = Walk::new(&[&x]).expect("the root is valid");
        compute_apart(&mut walk, vec![0]).expect("the value has no buffer yet");
        let again = compute_apart(&mut walk, vec![0]);
        assert!(matches!(again, Err(ScheduleError::Bug(_))));
    }

    /// So looking up the buffer of a version takes one step, however many versions there are.
    #[test]
    fn first_version_of_each_store_is_known() {
        let graph = Graph::new();
        let first = graph.input("x", DType::F32, [4]);
        let mut x = first.clone();
        for _ in 0..1000 {
            x = x.set(&(&x + 1.0));
        }
        let schedule = Schedule::create_one(&x).expect("the root is valid");
        let steps = &schedule.shared;
        assert_eq!(steps.firsts.len(), 1000);
        let mut firsts = steps.firsts.values();
        assert!(firsts.all(|first| steps.node(*first).is_buffer()));
        assert_eq!(steps.memory.externals.len(), 1);
    }
}
