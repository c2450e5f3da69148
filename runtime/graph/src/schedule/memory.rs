//! The buffers of a schedule: *externals*, which a run binds or allocates, and temporaries, which share one allocation,
//! the *arena*.
//!
//! # Protocol
//! [`Memory::new`] assigns a [`Place`] to each storage (the first version of a buffer):
//!
//! 1. Every root is an external: an input keeps its own buffer, any other root is an output.
//! 2. Every other input that an item uses is an external, too. Any other storage is a temporary, which records the items
//!    that use it: its lifetime is from the first to the last of them.
//! 3. Two temporaries of equal size are one if the last user of the first is the item that creates the second, and this
//!    item reads each element of the first only where it writes the second. The item's program is rewritten to work in
//!    place.
//!
//! For each device [`plan`](crate::plan) assigns offsets in the arena. Temporaries whose lifetimes overlap never share
//! bytes (I4).
//!
//! Placement decides only what shares bytes. The order of the items of a run follows from the bytes that they access,
//! as for any recording: two items that use the same bytes of the arena, one of them writing, run in schedule order
//! (I2).
//!
//! `plan.rs` has property tests of the offsets. `tests/graph` (`running`, `random`) and `tests/graph-fuzz` would compute
//! wrong values if two live temporaries shared bytes.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ir::Program;
use millstream_ir::nest::{BufferMode, Nest, Op as Ir, Store};
use millstream_protocol::Access;
use millstream_protocol::hazard::order::{Order, Touch};

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::plan::{Plan, Temporary};
use crate::schedule::Steps;
use crate::schedule::item::{Item, Work};
use crate::schedule::walk::Local;
use crate::size::Size;

/// The place of a storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// An index into [`Memory::externals`].
    External(usize),
    /// An index into [`Memory::temporaries`].
    Temporary(usize),
}

/// A buffer that a run binds: an input, or an output, which the run allocates if none is bound.
#[derive(Debug)]
pub(crate) struct External {
    /// The first version.
    pub(crate) node: Local,
    pub(crate) is_input: bool,
    /// Whether the schedule stores into it.
    pub(crate) is_stored: bool,
    /// The number of bytes, with every length at its maximum.
    pub(crate) bytes: u64,
    /// The number of bytes that a run needs, as a function of its lengths.
    pub(crate) size: Size,
}

/// The bytes of a storage: a range of a parameter of the recording. The parameters are the externals, in order, and
/// behind them the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Region {
    pub(crate) parameter: usize,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// The buffers of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The externals.
    pub(crate) externals: Vec<External>,
    /// The external of each root.
    pub(crate) roots: Vec<usize>,
    /// The externals that are inputs, by when their nodes were written.
    inputs: HashMap<u64, usize>,
    temporaries: Vec<Temporary>,
    places: HashMap<Local, Place>,
    /// The bytes of all temporaries without sharing.
    pub(crate) unplanned_bytes: u64,
}

impl Memory {
    /// Assigns the buffers of a schedule, and rewrites items to work in place.
    pub(crate) fn new(steps: &mut Steps) -> Result<Self, ScheduleError> {
        let mut memory = Self::default();
        for root in &steps.roots {
            let external = memory.external(steps, steps.storage(*root))?;
            memory.roots.push(external);
        }
        // The last item that uses each storage.
        let mut last: HashMap<Local, usize> = HashMap::new();
        for (index, item) in steps.items.iter().enumerate() {
            for node in item.touched() {
                let storage = steps.storage(node);
                last.insert(storage, index);
                if steps.node(storage).is_buffer() {
                    memory.external(steps, storage)?;
                }
            }
        }
        for index in 0..steps.items.len() {
            memory.work_in_place(steps, index, &last);
            let item = &steps.items[index];
            for node in item.touched() {
                memory.add_use(steps, index, steps.storage(node))?;
            }
            for written in item.written() {
                if let Place::External(external) = memory.places[&steps.storage(written)] {
                    memory.externals[external].is_stored = true;
                }
            }
        }
        Ok(memory)
    }

    /// Returns the external of a storage; adds one if there is none.
    fn external(&mut self, steps: &Steps, storage: Local) -> Result<usize, ScheduleError> {
        if let Some(Place::External(known)) = self.places.get(&storage) {
            return Ok(*known);
        }
        let (bytes, size) = extent(steps, storage)?;
        let (index, node) = (self.externals.len(), steps.node(storage));
        self.places.insert(storage, Place::External(index));
        if node.is_buffer() {
            self.inputs.insert(node.written, index);
        }
        self.externals.push(External {
            node: storage,
            is_input: node.is_buffer(),
            is_stored: false,
            bytes,
            size,
        });
        Ok(index)
    }

    /// Records that an item uses a storage: a temporary if it is no external.
    fn add_use(
        &mut self,
        steps: &Steps,
        index: usize,
        storage: Local,
    ) -> Result<(), ScheduleError> {
        let place = match self.places.get(&storage) {
            Some(place) => *place,
            None => {
                let (bytes, items) = (extent(steps, storage)?.0, Vec::new());
                let place = Place::Temporary(self.temporaries.len());
                self.temporaries.push(Temporary { bytes, items });
                self.unplanned_bytes = self.unplanned_bytes.saturating_add(bytes);
                self.places.insert(storage, place);
                place
            }
        };
        match place {
            Place::External(external) => {
                // A kernel of a user does not know the lengths of the run, so it needs the whole buffer.
                if let Work::Custom(_) = steps.items[index].work {
                    let external = &mut self.externals[external];
                    external.size = Size::fixed(external.bytes as i64);
                }
            }
            Place::Temporary(temporary) => {
                let items = &mut self.temporaries[temporary].items;
                if items.last() != Some(&index) {
                    items.push(index);
                }
            }
        }
        Ok(())
    }

    /// Lets an item write an output that begins with it over an input that ends with it, if the nest allows it. At most
    /// one output of an item: another would need another input.
    fn work_in_place(&mut self, steps: &mut Steps, index: usize, last: &HashMap<Local, usize>) {
        let item = &steps.items[index];
        let Work::Program(program) = &item.work else {
            return;
        };
        let Program::Nest(nest) = &**program else {
            return;
        };
        let stores = item.writes.iter().zip(&nest.stores);
        let mut pairs = stores.flat_map(|(written, store)| {
            let bindings = replaceable(nest, store).into_iter();
            bindings.map(move |binding| (written, binding))
        });
        let found = pairs.find_map(|(written, binding)| {
            let output = steps.storage(written.node);
            let input = steps.storage(item.bindings[binding]);
            let Some(Place::Temporary(place)) = self.places.get(&input) else {
                return None;
            };
            let bytes = self.temporaries[*place].bytes;
            let fits = !self.places.contains_key(&output)
                && last[&input] == index
                && extent(steps, output).is_ok_and(|(needed, _)| needed == bytes);
            fits.then_some((written.binding, binding, output, *place, bytes))
        });
        if let Some((output, binding, storage, place, bytes)) = found {
            let program = Program::Nest(in_place(nest, binding, output));
            let item = &mut steps.items[index];
            (item.work, item.merged) = (Work::Program(Arc::new(program)), Some(output));
            self.places.insert(storage, Place::Temporary(place));
            self.unplanned_bytes = self.unplanned_bytes.saturating_add(bytes);
        }
    }

    /// Returns the order of items by the hazards of the buffers that they access, before offsets are assigned.
    fn order(&self, steps: &Steps) -> Order {
        let space = |node: Local| match self.places[&steps.storage(node)] {
            Place::External(index) => index as u32,
            Place::Temporary(index) => (self.externals.len() + index) as u32,
        };
        let touches = |item: &Item| -> Vec<Touch> {
            let stored: Vec<u32> = item.written().map(space).collect();
            let touched = item.touched().map(space);
            let touch = |space: u32| Touch {
                space,
                range: 0..1,
                access: match stored.contains(&space) {
                    true => Access::ReadWrite,
                    false => Access::Read,
                },
            };
            touched.map(touch).collect()
        };
        Order::of(&steps.items.iter().map(touches).collect::<Vec<_>>())
    }
}

impl Steps {
    /// Returns the external that is this buffer of the graph.
    pub(crate) fn input(&self, of: &LazyBuffer) -> Option<usize> {
        let node_ref = of.node_ref().ok().filter(|node| node.graph.is(&self.graph));
        self.memory.inputs.get(&node_ref?.written).copied()
    }

    /// Places the temporaries. `overlaps`: the device runs independent items at the same time.
    pub(crate) fn plan(&self, overlaps: bool) -> Result<Plan, ScheduleError> {
        let order = overlaps.then(|| self.memory.order(self));
        let plan = Plan::new(&self.memory.temporaries, order.as_ref());
        let what = "the memory of the temporaries";
        plan.ok_or_else(|| ScheduleError::TooLarge(what.to_owned()))
    }

    /// Returns the bytes of a node.
    pub(crate) fn region(&self, node: Local, plan: &Plan) -> Region {
        let (parameter, start) = match self.memory.places[&self.storage(node)] {
            Place::External(index) => (index, 0),
            Place::Temporary(index) => (self.memory.externals.len(), plan.offsets[index]),
        };
        let bytes = self.bytes(node);
        Region {
            parameter,
            start,
            bytes,
        }
    }

    /// Returns the number of bytes of a node, with every length at its maximum.
    pub(crate) fn bytes(&self, node: Local) -> u64 {
        match self.memory.places[&self.storage(node)] {
            Place::External(index) => self.memory.externals[index].bytes,
            Place::Temporary(index) => self.memory.temporaries[index].bytes,
        }
    }
}

/// Returns the bindings whose memory an output may take: those that are loaded only at the place where the output is
/// stored.
fn replaceable(nest: &Nest, store: &Store) -> Vec<usize> {
    if store.scatter.is_some() {
        return Vec::new();
    }
    let stored = &nest.accesses[usize::from(store.access)];
    let output = nest.buffers[usize::from(stored.buffer)];
    // Equal accesses have the same words, so they have the same places.
    let fits = |index: usize| {
        let mut accesses = nest.accesses.iter();
        let same = accesses.all(|access| {
            usize::from(access.buffer) != index
                || (access.strides == stored.strides && access.offset == stored.offset)
        });
        let is_read = nest.buffers[index].mode == BufferMode::Read;
        same && is_read && nest.buffers[index].dtype == output.dtype
    };
    let mut values = nest.values.iter();
    if values.any(|value| matches!(value.op, Ir::Gather { .. })) {
        return Vec::new();
    }
    let all = 0..nest.buffers.len();
    all.filter(|index| fits(*index)).collect()
}

/// Returns the nest with one of its outputs bound to one of its inputs.
fn in_place(nest: &Nest, input: usize, output: usize) -> Nest {
    let mut nest = nest.clone();
    for access in &mut nest.accesses {
        let buffer = usize::from(access.buffer);
        let moved = if buffer == output { input } else { buffer };
        access.buffer = (moved - usize::from(moved > output)) as u16;
    }
    nest.buffers[input].mode = BufferMode::Update;
    nest.buffers.remove(output);
    nest
}

/// Returns the number of bytes of a storage, with every length at its maximum, and as a function of the lengths.
fn extent(steps: &Steps, storage: Local) -> Result<(u64, Size), ScheduleError> {
    let node = steps.node(storage);
    let element = Size::fixed(node.dtype.size() as i64);
    let size = node.shape.elements();
    let size = size.and_then(|elements| elements.times(&element));
    let extent = size.and_then(|size| Some((u64::try_from(size.max()?).ok()?, size)));
    extent.ok_or_else(|| ScheduleError::TooLarge(node.shape.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lazy::graph::Graph;
    use crate::schedule::Schedule;
    use millstream_ir::DType;

    #[test]
    fn each_input_is_found_by_its_node_and_no_other_node_is() {
        let graph = Graph::new();
        let inputs: Vec<LazyBuffer> = (0..100)
            .map(|index| graph.input(format!("x{index}"), DType::F32, [4]))
            .collect();
        let products: Vec<LazyBuffer> = inputs.iter().rev().map(|x| x * 2.0).collect();
        let roots: Vec<&LazyBuffer> = products.iter().collect();
        let schedule = Schedule::create(&roots).unwrap();
        let steps = &schedule.shared;
        for (index, input) in inputs.iter().enumerate() {
            let external = &steps.memory.externals[steps.input(input).unwrap()];
            let name = steps.node(external.node).input_name().unwrap();
            assert_eq!(*name, *format!("x{index}"));
        }
        assert_eq!(steps.input(roots[0]), None);
        assert_eq!(
            steps.input(&Graph::new().input("x0", DType::F32, [4])),
            None
        );
        // Ids are reused: a later input in the slot of one that was dropped is another.
        drop((inputs, products));
        assert!(graph.is_empty());
        let later = graph.input("x0", DType::F32, [4]);
        assert_eq!(steps.input(&later), None);
    }
}
