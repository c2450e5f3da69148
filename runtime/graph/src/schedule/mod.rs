//! A schedule: what is computed with what, in which order, into which buffers.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`hold`] | what is made once, of inputs that rarely change, and what each run makes |
//! | [`walk`] | the part of the graph that the roots need, in order |
//! | [`parts`] | which rows are reduced in parts |
//! | [`stages`] | reductions of such rows, rewritten in two stages |
//! | [`fuse`] | which nodes are computed together |
//! | [`group`] | a kernel while it is made |
//! | [`axes`] | where elements lie in terms of a kernel's axes |
//! | [`realize`] | the groups that fill a buffer |
//! | [`sinks`] | groups that read the same, as one |
//! | [`cost`] | what it costs to compute something again |
//! | [`make`] | a group as an item |
//! | [`mod@lower`] | a group as a nest |
//! | [`values`] | what the nodes of a group are in a nest |
//! | [`product`] | a group as a product of matrices |
//! | [`order`] | versions of buffers, and the order of items |
//! | [`late`] | readers that come after a store |
//! | [`uses`] | who reads and writes what, while versions are settled |
//! | [`item`] | one step |
//! | [`display`] | the schedule as text and as a drawing |

pub(crate) mod axes;
mod cost;
mod display;
mod express;
pub(crate) mod fuse;
pub(crate) mod group;
pub(crate) mod hold;
pub(crate) mod item;
mod late;
pub(crate) mod lower;
mod make;
pub(crate) mod order;
pub(crate) mod parts;
pub(crate) mod product;
mod realize;
mod sinks;
mod stages;
mod uses;
mod values;
pub(crate) mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::DType;

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::Named;
use crate::lazy::node::Op;
use crate::lazy::scalar::Scalar;
use crate::schedule::fuse::Fuser;
use crate::schedule::item::{Item, WordValue};
use crate::schedule::make::{lower, through_a_buffer, too_large};
use crate::schedule::order::Versions;
use crate::schedule::parts::Parts;
use crate::schedule::stages::in_stages;
use crate::schedule::walk::{Local, Seen, Walk};
use crate::shape::Shape;
use crate::size::{Size, Symbol};

/// What it takes to compute some lazy buffers, the *roots*: fused kernels, products and kernels of users, in order. It knows no
/// device yet, and may be compiled for several.
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
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// The items that use its buffer, by their place in [`Schedule::items`].
    pub items: Vec<usize>,
}

/// What comes out of a schedule for one root.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputInfo {
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// The name of the input whose buffer it is in, if it is a new version of one, or the input itself.
    pub input: Option<String>,
}

/// The parts of a schedule.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) items: Vec<Item>,
    pub(crate) nodes: Vec<Seen>,
    /// The node of each root.
    pub(crate) roots: Vec<Local>,
    /// The buffers of the graph among the nodes.
    pub(crate) named: Arc<Named>,
    /// For each node that stores into a buffer that is there, whose buffer it is.
    bases: HashMap<Local, Local>,
}

impl Schedule {
    /// The schedule of these roots. Each of them is a use of its node.
    ///
    /// # Errors
    /// [`ScheduleError::NoRoots`], [`ScheduleError::Graph`] with what was refused first, [`ScheduleError::Graphs`],
    /// [`ScheduleError::Devices`].
    pub fn create(roots: &[&LazyBuffer]) -> Result<Self, ScheduleError> {
        Self::create_in_parts(roots, Parts::default())
    }

    /// The same, with few long rows reduced in parts as `parts` says.
    ///
    /// # Errors
    /// As [`Schedule::create`].
    pub fn create_in_parts(roots: &[&LazyBuffer], parts: Parts) -> Result<Self, ScheduleError> {
        let span = tracing::debug_span!(target: "millstream", "schedule", roots = roots.len());
        let _entered = span.enter();
        let (steps, _) = schedule(Walk::new(roots)?, &parts)?;
        Ok(Self {
            shared: Arc::new(steps),
        })
    }

    /// The schedule of one root.
    ///
    /// # Errors
    /// As [`Schedule::create`].
    pub fn create_one(root: &LazyBuffer) -> Result<Self, ScheduleError> {
        Self::create(&[root])
    }

    /// What runs, in order.
    pub fn items(&self) -> &[Item] {
        &self.shared.items
    }

    /// The names of its inputs: what a run binds, or may bind. Buffers that are there are named by their slices.
    pub fn inputs(&self) -> impl Iterator<Item = String> {
        self.input_nodes().map(|(_, name)| name)
    }

    /// Is the buffer one of its inputs? Those that nothing is computed from are not.
    pub fn takes(&self, input: &LazyBuffer) -> bool {
        let (steps, used) = (&self.shared, self.shared.storages());
        let mut buffers = used.iter().map(|node| steps.node(*node));
        let number = input.number_in(&steps.named);
        number.is_some_and(|id| buffers.any(|node| node.is_buffer() && node.id == id))
    }

    /// The input of this name, as the first of them.
    ///
    /// # Errors
    /// [`ScheduleError::UnknownArgument`].
    pub fn input(&self, name: &str) -> Result<InputInfo, ScheduleError> {
        let found = self.input_nodes().find(|(_, known)| known == name);
        let Some((node, name)) = found else {
            let (what, name) = ("input", name.to_owned());
            return Err(ScheduleError::UnknownArgument { what, name });
        };
        let readers = self.shared.items.iter().enumerate();
        let readers = readers.filter(|(_, item)| {
            let mut touched = item.touched();
            touched.any(|touched| self.shared.storage(touched) == node)
        });
        let items = readers.map(|(index, _)| index).collect();
        let seen = self.shared.node(node);
        Ok(InputInfo {
            name,
            dtype: seen.dtype,
            shape: seen.shape.clone(),
            items,
        })
    }

    fn input_nodes(&self) -> impl Iterator<Item = (Local, String)> {
        let used = self.shared.storages();
        let nodes = self.shared.nodes.iter().enumerate();
        let nodes = nodes.filter(move |(local, _)| used.contains(&(*local as Local)));
        nodes.filter_map(|(local, node)| match &node.op {
            Op::Input(name) => Some((local as Local, name.to_string())),
            Op::Buffer(handle) => Some((local as Local, handle.id().to_string())),
            _ => None,
        })
    }

    /// What comes out, for each root in order.
    pub fn outputs(&self) -> impl Iterator<Item = OutputInfo> {
        self.shared.roots.iter().map(|root| {
            let (seen, storage) = (self.shared.node(*root), self.shared.storage(*root));
            let mut inputs = self.input_nodes();
            let input = inputs.find(|(node, _)| *node == storage);
            OutputInfo {
                dtype: seen.dtype,
                shape: seen.shape.clone(),
                input: input.map(|(_, name)| name),
            }
        })
    }

    /// The scalars that runs may change.
    pub fn scalars(&self) -> Vec<Scalar> {
        let mut all: Vec<Scalar> = Vec::new();
        for word in self.shared.items.iter().flat_map(|item| &item.words) {
            if let WordValue::Scalar(scalar) = word
                && all.iter().all(|known| known.key() != scalar.key())
            {
                all.push(scalar.clone());
            }
        }
        all
    }

    /// The lengths that each run must say.
    pub fn lengths(&self) -> Vec<Symbol> {
        let words = self.shared.items.iter().flat_map(|item| &item.words);
        let of_words = words.filter_map(|word| match word {
            WordValue::Size(size) => Some(size),
            _ => None,
        });
        let roots = self.shared.roots.iter().map(|root| self.shared.node(*root));
        let of_roots = roots.flat_map(|root| root.shape.iter());
        let mut all: Vec<Symbol> = Vec::new();
        for symbol in of_words.chain(of_roots).flat_map(Size::symbols) {
            if !all.contains(symbol) {
                all.push(symbol.clone());
            }
        }
        all
    }

    /// How many roots there are.
    pub fn roots(&self) -> usize {
        self.shared.roots.len()
    }
}

impl Steps {
    pub(crate) fn node(&self, local: Local) -> &Seen {
        &self.nodes[local as usize]
    }

    /// What is touched, or asked for: by the first versions.
    pub(crate) fn storages(&self) -> HashSet<Local> {
        let touched = self.items.iter().flat_map(Item::touched);
        let all = touched.chain(self.roots.iter().copied());
        all.map(|node| self.storage(node)).collect()
    }

    /// The buffers that are there.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Handle<u8>> {
        self.nodes.iter().filter_map(|node| match &node.op {
            Op::Buffer(handle) => Some(handle),
            _ => None,
        })
    }

    /// The node that a node's memory was made for: the first version.
    pub(crate) fn storage(&self, mut local: Local) -> Local {
        while let Some(base) = self.bases.get(&local) {
            local = *base;
        }
        local
    }
}

/// What a walk takes, in order, and which of its nodes are held.
fn schedule(walk: Walk, parts: &Parts) -> Result<(Steps, Vec<bool>), ScheduleError> {
    check_devices(&walk)?;
    let walk = in_stages(walk, parts);
    let mut items = Vec::new();
    let (mut conflicts, mut alone) = (Vec::new(), Vec::new());
    let mut made = |group| {
        match lower(&walk, &group)? {
            Some(item) => items.push(item),
            None => conflicts.push(group),
        }
        Ok(())
    };
    Fuser::new(&walk).run(|group| {
        if sinks::may_join(&walk, &group) {
            alone.push(group);
            return Ok(());
        }
        made(group)
    })?;
    sinks::joined(&walk, alone).into_iter().try_for_each(made)?;
    let mut walk = walk;
    for group in conflicts {
        items.extend(through_a_buffer(&mut walk, group)?);
    }
    let mut versions = Versions::new(&mut walk, items, |walk, group| {
        lower(walk, group)?.ok_or_else(|| too_large(walk, group))
    });
    versions.settle()?;
    versions.sort()?;
    let Versions { items, bases, .. } = versions;
    let steps = Steps {
        items,
        roots: walk.roots,
        named: walk.named,
        nodes: walk.nodes,
        bases,
    };
    Ok((steps, walk.held))
}

/// Buffers of one device, all of them?
fn check_devices(walk: &Walk) -> Result<(), ScheduleError> {
    let mut handles = walk.nodes.iter().filter_map(|node| match &node.op {
        Op::Buffer(handle) => Some(handle),
        _ => None,
    });
    let Some(first) = handles.next() else {
        return Ok(());
    };
    if handles.all(|handle| handle.is_of_the_same_device(first)) {
        Ok(())
    } else {
        Err(ScheduleError::Devices)
    }
}
