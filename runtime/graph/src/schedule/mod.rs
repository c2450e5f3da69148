//! A schedule: what is computed with what, in which order, into which buffers.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`hold`] | what is made once, of inputs that rarely change, and what each run makes |
//! | [`walk`] | the part of the graph that the roots need, in order |
//! | [`fuse`] | which nodes are computed together |
//! | [`group`] | a kernel while it is made |
//! | [`axes`] | where elements lie in terms of a kernel's axes |
//! | [`lower`] | a group as a nest |
//! | [`product`] | a group as a product of matrices |
//! | [`order`] | versions of buffers, and the order of items |
//! | [`item`] | one step |
//! | [`display`] | the schedule as text and as a drawing |

pub(crate) mod axes;
mod display;
mod express;
pub(crate) mod fuse;
pub(crate) mod group;
pub(crate) mod hold;
pub(crate) mod item;
pub(crate) mod lower;
pub(crate) mod order;
pub(crate) mod product;
pub(crate) mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millstream_core::handle::Handle;
use millstream_ir::{DType, Program};

use crate::error::ScheduleError;
use crate::lazy::buffer::{Held, LazyBuffer};
use crate::lazy::custom::Callee;
use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes};
use crate::schedule::fuse::Fuser;
use crate::schedule::group::{Group, Kind, Reach};
use crate::schedule::item::{Item, ItemKind, WordValue, Work};
use crate::schedule::lower::{Lowering, lower_nest};
use crate::schedule::order::{Versions, base_of, moving_group};
use crate::schedule::product::lower_product;
use crate::schedule::walk::{Local, Seen, Walk};
use crate::shape::Shape;
use crate::size::Size;

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

/// The parts of a schedule.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) items: Vec<Item>,
    pub(crate) nodes: Vec<Seen>,
    /// The node of each root.
    pub(crate) roots: Vec<Local>,
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
        let (steps, _) = schedule(Walk::new(roots)?)?;
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
        let mut is_it = |held: &Held| buffers.any(|node| node.is_buffer() && node.id == held.id);
        input.held().is_ok_and(&mut is_it)
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
            let bound = item.bindings.iter().chain([&item.writes]);
            bound
                .into_iter()
                .any(|bound| self.shared.storage(*bound) == node)
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
        let items = self.items.iter();
        let bound = items.flat_map(|item| item.bindings.iter().chain([&item.writes]));
        let all = bound.chain(&self.roots);
        all.map(|node| self.storage(*node)).collect()
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
fn schedule(walk: Walk) -> Result<(Steps, Vec<bool>), ScheduleError> {
    check_devices(&walk)?;
    let mut items = Vec::new();
    let mut conflicts = Vec::new();
    Fuser::new(&walk).run(|group| {
        match lower(&walk, &group)? {
            Some(item) => items.push(item),
            None => conflicts.push(group),
        }
        Ok(())
    })?;
    let mut walk = walk;
    for group in conflicts {
        items.extend(through_a_buffer(&mut walk, group)?);
    }
    let mut versions = Versions {
        walk: &mut walk,
        items,
        bases: HashMap::new(),
        lower: |walk, group| lower(walk, group)?.ok_or_else(|| too_large(walk, group)),
    };
    versions.settle()?;
    versions.sort();
    let Versions { items, bases, .. } = versions;
    let steps = Steps {
        items,
        roots: walk.roots,
        nodes: walk.nodes,
        bases,
    };
    Ok((steps, walk.held))
}

/// The item of a group, or none where it must go through a buffer.
fn lower(walk: &Walk, group: &Group) -> Result<Option<Item>, ScheduleError> {
    let made = match group.kind {
        Kind::Call => call(walk, group),
        Kind::Product => product(walk, group),
        _ if group.product.is_some() => product(walk, group),
        _ => match lower_nest(walk, group, base_of(walk.node(group.sink.node))) {
            Some(Lowering::Conflict) => return Ok(None),
            Some(Lowering::Nest(lowered)) => nest(walk, group, *lowered),
            None => None,
        },
    };
    made.map(Some).ok_or_else(|| too_large(walk, group))
}

fn too_large(walk: &Walk, group: &Group) -> ScheduleError {
    ScheduleError::TooLarge(walk.node(group.sink.node).shape.to_string())
}

fn nest(walk: &Walk, group: &Group, lowered: lower::Lowered) -> Option<Item> {
    let sink = walk.node(group.sink.node);
    let kind = match sink.op {
        Op::Set(_) => ItemKind::Set,
        Op::Copy => ItemKind::Copy,
        _ => ItemKind::Kernel,
    };
    let nest = &lowered.nest;
    let stored = nest.accesses[usize::from(nest.stores[0].access)].buffer;
    let lengths = group.axes.outer().into_iter().chain(group.axes.inner());
    let elements = Size::product(
        lengths
            .map(|axis| group.axes.length(axis))
            .collect::<Vec<_>>(),
    )?;
    let work = nest.values.len() as i64;
    Some(Item {
        kind,
        flops: elements.times(&Size::fixed(work))?,
        expression: express::nest(nest, &lowered.words),
        in_place: in_place(nest),
        bindings: lowered.buffers,
        words: lowered.words,
        reads: lowered.reads,
        writes: group.sink.node,
        output: usize::from(stored),
        work: Work::Program(Arc::new(Program::Nest(lowered.nest))),
    })
}

/// The bindings whose memory the output may take: those that are loaded where the output is stored, and nowhere else.
fn in_place(nest: &millstream_ir::Nest) -> Vec<usize> {
    let Some(store) = nest.stores.first().filter(|store| store.scatter.is_none()) else {
        return Vec::new();
    };
    let stored = &nest.accesses[usize::from(store.access)];
    let output = nest.buffers[usize::from(stored.buffer)];
    // Equal accesses have the same words, so they are the same places.
    let fits = |index: usize| {
        let mut walks = nest
            .accesses
            .iter()
            .filter(|a| usize::from(a.buffer) == index);
        let same =
            walks.all(|access| access.strides == stored.strides && access.offset == stored.offset);
        same && nest.buffers[index].dtype == output.dtype && index != usize::from(stored.buffer)
    };
    let gathers = nest
        .values
        .iter()
        .any(|value| matches!(value.op, millstream_ir::nest::Op::Gather { .. }));
    if gathers {
        return Vec::new();
    }
    (0..nest.buffers.len())
        .filter(|index| fits(*index))
        .collect()
}

fn product(walk: &Walk, group: &Group) -> Option<Item> {
    let lowered = lower_product(walk, group)?;
    let Program::Matmul(matmul) = &lowered.program else {
        return None;
    };
    Some(Item {
        kind: ItemKind::Matmul,
        expression: express::product(matmul, &lowered.words),
        flops: lowered.flops,
        in_place: Vec::new(),
        bindings: lowered.bindings,
        words: lowered.words,
        reads: lowered.reads,
        writes: group.sink.node,
        output: 2,
        work: Work::Program(Arc::new(lowered.program)),
    })
}

fn call(walk: &Walk, group: &Group) -> Option<Item> {
    let node = walk.node(group.sink.node);
    let Op::Custom(custom) = &node.op else {
        return None;
    };
    let of_reach = |reach: &u32| {
        let mut at = *reach;
        // Through reshapes, which are the same buffer.
        loop {
            let member = group.members.iter().find(|member| member.reach == at)?;
            match member.operands.first() {
                Some(operand) if matches!(member.how, Reach::Whole(None)) => at = *operand,
                _ => return Some(member.node),
            }
        }
    };
    let mut bindings: Vec<Local> = group
        .arguments
        .iter()
        .map(of_reach)
        .collect::<Option<_>>()?;
    let reads = if custom.in_place {
        bindings[..bindings.len() - 1].to_vec()
    } else {
        let reads = bindings.clone();
        bindings.push(group.sink.node);
        reads
    };
    let kind = match (&custom.callee, custom.in_place) {
        (Callee::Ssa(_), _) => ItemKind::Ssa,
        (Callee::Kernel(_), true) => ItemKind::CustomInPlace,
        (Callee::Kernel(_), false) => ItemKind::Custom,
    };
    Some(Item {
        kind,
        expression: custom.callee.name().to_owned(),
        flops: Size::ZERO,
        in_place: Vec::new(),
        words: custom
            .scalars
            .iter()
            .map(|bits| WordValue::Bits(*bits))
            .collect(),
        reads,
        writes: group.sink.node,
        output: bindings.len() - 1,
        bindings,
        work: Work::Custom(custom.clone()),
    })
}

/// The items of a group that reads what it stores to, elsewhere: one fills a buffer, and one moves it.
fn through_a_buffer(walk: &mut Walk, mut group: Group) -> Result<[Item; 2], ScheduleError> {
    let (into, address) = (group.sink.node, group.sink.address.clone());
    let failed = || ScheduleError::TooLarge("a buffer that is stored to".to_owned());
    let outer = group.axes.outer().into_iter().chain(group.axes.inner());
    let resolved = group.axes.resolve(&address).ok_or_else(failed)?;
    // The axes in the order of the buffer: those that the store walks.
    let mut walked: Vec<_> = outer
        .filter(|axis| resolved.terms.iter().any(|(known, _)| known == axis))
        .collect();
    walked.sort_unstable();
    let lengths: Vec<Size> = walked
        .iter()
        .map(|axis| group.axes.length(*axis).clone())
        .collect();
    let shape = Shape::new(lengths);
    let strides = shape.dense_strides().ok_or_else(failed)?;
    let mut dense = Affine::zero();
    let mut moved = Affine {
        constant: address.constant.clone(),
        ..Affine::zero()
    };
    let (axes, map) = Axes::of(&shape);
    for (place, axis) in walked.iter().enumerate() {
        dense
            .add(&Affine::axis(*axis), &strides[place])
            .ok_or_else(failed)?;
        moved
            .add(&map[place], &resolved.factor(*axis))
            .ok_or_else(failed)?;
    }
    let seen = Seen {
        op: Op::Copy,
        operands: smallvec::SmallVec::new(),
        shape,
        dtype: walk.node(into).dtype,
        id: walk.node(into).id,
    };
    let is_held = walk.is_held(into);
    let buffer = walk.add(seen, is_held);
    group.sink.node = buffer;
    group.sink.address = dense;
    group.sink.partial = false;
    let mut first = lower(walk, &group)?.ok_or_else(failed)?;
    first.kind = ItemKind::Kernel;
    let second = moving_group(axes, Reach::At(map.into()), buffer, into, moved, true);
    let second = lower(walk, &second)?.ok_or_else(failed)?;
    Ok([first, second])
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
