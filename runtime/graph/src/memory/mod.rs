//! The buffers of a schedule: inputs and outputs, which a run binds, and temporaries, which share one allocation, the
//! *arena*.
//!
//! # Protocol
//! [`Memory::new`] assigns a [`ParameterRole`] to each storage (the first version of a buffer) in four steps:
//!
//! 1. Every root gets a place: an input keeps its own, any other root is an output.
//! 2. Every other storage that an item uses is an input or a temporary. A temporary records the items that use it: its
//!    lifetime is from the first to the last of them.
//! 3. Two temporaries of equal size become one if the last user of the first is the item that creates the second, and
//!    this item reads each element of the first only where it writes the second. The item's program is rewritten to
//!    work in place ([`InPlace`]).
//! 4. [`plan`] assigns offsets in the arena. Temporaries whose lifetimes overlap never share bytes (I4).
//!
//! Placement decides only what shares bytes. The order of the items of a run follows from the bytes that they access,
//! as for any recording: two items that use the same bytes of the arena, one of them writing, run in schedule order
//! (I2).
//!
//! `memory/plan.rs` has property tests of step 4. `tests/graph` (`running`, `random`) and `tests/graph-fuzz` would
//! compute wrong values if two live temporaries shared bytes.

mod plan;
mod temporaries;

use std::collections::HashMap;
use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::{DType, Program};

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::NamedBuffers;
use crate::lazy::node::{NodeId, Op};
use crate::memory::plan::Temporary;
use crate::memory::temporaries::order_of;
use crate::schedule::Steps;
use crate::schedule::item::{Item, Work};
use crate::schedule::walk::Local;
use crate::shape::Shape;
use crate::size::Size;

/// What a parameter of the recording stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ParameterRole {
    /// An input: an index into [`Memory::inputs`].
    Input(usize),
    /// An output: an index into [`Memory::outputs`].
    Output(usize),
    /// The memory of all temporaries.
    Arena,
}

/// A parameter of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Parameter {
    pub(crate) place: ParameterRole,
    /// The number of bytes, with every length at its maximum.
    pub(crate) bytes: u64,
    /// Whether a run with smaller lengths may bind fewer bytes.
    pub(crate) may_be_shorter: bool,
}

/// An input of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The buffer of the graph.
    pub(crate) node: NodeId,
    pub(crate) name: Arc<str>,
    pub(crate) extent: Extent,
    /// The buffer, unless a run binds another.
    pub(crate) handle: Option<Handle<u8>>,
    /// Whether the schedule stores into it.
    pub(crate) is_stored: bool,
}

/// The number of bytes of a buffer that a run binds.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The number of bytes, with every length at its maximum.
    pub(crate) bytes: u64,
    /// The number of bytes that a run needs, as a function of its lengths.
    pub(crate) size: Size,
}

/// A root: its place, and its elements.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) place: ParameterRole,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// The program of an item, rewritten to write one of its outputs over one of its inputs.
#[derive(Debug)]
pub(crate) struct InPlace {
    pub(crate) program: Arc<Program>,
    /// The binding of the item that the program no longer has.
    pub(crate) output: usize,
}

/// The buffers of a schedule.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The nodes by which callers name the inputs.
    named: Arc<NamedBuffers>,
    pub(crate) inputs: Vec<Input>,
    /// The indices of the inputs, by node; sorted.
    inputs_by_node: Vec<(NodeId, usize)>,
    /// The buffers that each run allocates or binds.
    pub(crate) outputs: Vec<Extent>,
    pub(crate) roots: Vec<Root>,
    places: HashMap<Local, (ParameterRole, u64, u64)>,
    /// The bytes of all temporaries, which share them if they are not live at the same time.
    pub(crate) temporary_bytes: u64,
    /// The bytes of all temporaries without sharing.
    pub(crate) unplanned_bytes: u64,
    /// The rewritten programs, by item.
    programs: HashMap<usize, InPlace>,
}

impl Memory {
    /// Assigns the buffers of a schedule. `overlaps`: the device runs independent items at the same time.
    pub(crate) fn new(steps: &Steps, overlaps: bool) -> Result<Self, ScheduleError> {
        let mut memory = Self {
            named: steps.named.clone(),
            inputs: Vec::new(),
            inputs_by_node: Vec::new(),
            outputs: Vec::new(),
            roots: Vec::new(),
            places: HashMap::new(),
            temporary_bytes: 0,
            unplanned_bytes: 0,
            programs: HashMap::new(),
        };
        for root in &steps.roots {
            memory.add_root(steps, *root)?;
        }
        let mut temporaries: Vec<(Local, Temporary)> = Vec::new();
        let mut known: HashMap<Local, usize> = HashMap::new();
        for (index, item) in steps.items.iter().enumerate() {
            for node in item.touched() {
                let storage = steps.storage(node);
                if memory.add_external(steps, storage)? {
                    continue;
                }
                let place = match known.get(&storage) {
                    Some(place) => *place,
                    None => {
                        let (bytes, items) = (extent(steps, storage)?.bytes, Vec::new());
                        temporaries.push((storage, Temporary { bytes, items }));
                        known.insert(storage, temporaries.len() - 1);
                        temporaries.len() - 1
                    }
                };
                let items = &mut temporaries[place].1.items;
                if items.last() != Some(&index) {
                    items.push(index);
                }
            }
        }
        let nodes = memory.inputs.iter().enumerate();
        memory.inputs_by_node = nodes.map(|(index, input)| (input.node, index)).collect();
        memory.inputs_by_node.sort_unstable();
        for written in steps.items.iter().flat_map(Item::written) {
            if let (ParameterRole::Input(index), ..) = memory.place(steps.storage(written)) {
                memory.inputs[index].is_stored = true;
            }
        }
        for item in &steps.items {
            if let Work::Custom(_) = item.work {
                // A kernel of a user does not know the lengths of the run, so it needs the whole buffer.
                for node in item.touched() {
                    let extent = match memory.place(steps.storage(node)).0 {
                        ParameterRole::Input(index) => &mut memory.inputs[index].extent,
                        ParameterRole::Output(index) => &mut memory.outputs[index],
                        ParameterRole::Arena => continue,
                    };
                    extent.size = Size::fixed(extent.bytes as i64);
                }
            }
        }
        let order = overlaps.then(|| order_of(steps));
        memory.place_temporaries(steps, temporaries, &known, order.as_ref())?;
        Ok(memory)
    }

    fn add_root(&mut self, steps: &Steps, root: Local) -> Result<(), ScheduleError> {
        let storage = steps.storage(root);
        if !self.add_external(steps, storage)? && !self.places.contains_key(&storage) {
            let extent = extent(steps, storage)?;
            let place = ParameterRole::Output(self.outputs.len());
            self.places.insert(storage, (place, 0, extent.bytes));
            self.outputs.push(extent);
        }
        let (place, ..) = self.place(storage);
        let node = steps.node(root);
        self.roots.push(Root {
            place,
            dtype: node.dtype,
            shape: node.shape.clone(),
        });
        Ok(())
    }

    /// Returns `true` if the storage is an input or an output. Adds an input when it is first used.
    fn add_external(&mut self, steps: &Steps, storage: Local) -> Result<bool, ScheduleError> {
        if self.places.contains_key(&storage) {
            return Ok(true);
        }
        let node = steps.node(storage);
        let Some(name) = node.input_name() else {
            return Ok(false);
        };
        let handle = match &node.op {
            Op::Buffer(handle) => Some(handle.clone()),
            _ => None,
        };
        let extent = extent(steps, storage)?;
        let place = ParameterRole::Input(self.inputs.len());
        self.places.insert(storage, (place, 0, extent.bytes));
        self.inputs.push(Input {
            node: node.id,
            name,
            extent,
            handle,
            is_stored: false,
        });
        Ok(true)
    }

    /// Returns the place of a storage, its offset there, and its number of bytes.
    pub(crate) fn place(&self, storage: Local) -> (ParameterRole, u64, u64) {
        let place = self.places.get(&storage).copied();
        place.unwrap_or((ParameterRole::Arena, 0, 0))
    }

    /// Returns the bindings of an item that its program has, with the place of each. A program in place has one less
    /// than the item.
    pub(crate) fn bound<'a>(
        &'a self,
        steps: &'a Steps,
        index: usize,
    ) -> impl Iterator<Item = (usize, (ParameterRole, u64, u64))> + 'a {
        let item = &steps.items[index];
        let merged = self.programs.get(&index).map(|merged| merged.output);
        let bindings = item.bindings.iter().enumerate();
        let bindings = bindings.filter(move |(binding, _)| merged != Some(*binding));
        bindings.map(|(binding, node)| (binding, self.place(steps.storage(*node))))
    }

    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let parameter = |place, extent: &Extent| Parameter {
            place,
            bytes: extent.bytes,
            may_be_shorter: extent.size.known().is_none(),
        };
        let inputs = self.inputs.iter().enumerate();
        let inputs =
            inputs.map(|(index, input)| parameter(ParameterRole::Input(index), &input.extent));
        let outputs = self.outputs.iter().enumerate();
        let outputs =
            outputs.map(|(index, extent)| parameter(ParameterRole::Output(index), extent));
        // Temporaries of 0 bytes need a binding, too.
        let mut places = self.places.values();
        let has_temporaries = places.any(|(role, ..)| *role == ParameterRole::Arena);
        let arena = has_temporaries.then_some(Parameter {
            place: ParameterRole::Arena,
            bytes: self.temporary_bytes.max(1),
            may_be_shorter: false,
        });
        inputs.chain(outputs).chain(arena).collect()
    }

    /// Returns the index of the input that is this buffer of the graph.
    pub(crate) fn input(&self, of: &LazyBuffer) -> Option<usize> {
        let id = of.id_in(&self.named)?;
        let place = self.inputs_by_node.binary_search_by_key(&id, |(known, _)| {
            #[cfg(test)]
            crate::steps::count();
            *known
        });
        Some(self.inputs_by_node[place.ok()?].1)
    }

    /// Returns the program that an item runs.
    pub(crate) fn program<'a>(&'a self, item: usize, own: &'a Arc<Program>) -> &'a Arc<Program> {
        self.programs
            .get(&item)
            .map_or(own, |merged| &merged.program)
    }
}

/// Returns the number of bytes of a storage.
fn extent(steps: &Steps, storage: Local) -> Result<Extent, ScheduleError> {
    let node = steps.node(storage);
    let element = Size::fixed(node.dtype.size() as i64);
    let size = node.shape.elements();
    let size = size.and_then(|elements| elements.times(&element));
    let extent = size.and_then(|size| {
        let bytes = u64::try_from(size.max()?).ok()?;
        Some(Extent { bytes, size })
    });
    extent.ok_or_else(|| ScheduleError::TooLarge(node.shape.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lazy::graph::Graph;
    use crate::schedule::Schedule;
    use crate::steps;

    /// Binding all inputs of a run visits each in logarithmic time.
    #[test]
    fn inputs_are_found_without_a_visit_of_all() {
        const INPUTS: usize = 1_000;
        let graph = Graph::new();
        let input = |index| graph.input(format!("x{index}"), DType::F32, [4]);
        let inputs: Vec<LazyBuffer> = (0..INPUTS).map(input).collect();
        let roots: Vec<LazyBuffer> = inputs.iter().rev().map(|x| x * 2.0).collect();
        let roots: Vec<&LazyBuffer> = roots.iter().collect();
        let schedule = Schedule::create(&roots).unwrap();
        let memory = Memory::new(&schedule.shared, false).unwrap();
        steps::take();
        for (index, input) in inputs.iter().enumerate() {
            let found = &memory.inputs[memory.input(input).unwrap()];
            assert_eq!(*found.name, *format!("x{index}"));
        }
        assert!(memory.input(roots[0]).is_none());
        assert!(steps::take() <= 11 * (INPUTS as u64 + 1));
    }
}
