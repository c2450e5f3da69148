//! Which buffers a schedule has: inputs and outputs, which runs bind, and temporaries, which lie in one piece of memory.

mod plan;

use std::collections::HashMap;
use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::nest::{BufferMode, Nest};
use millstream_ir::{DType, Program};
use millstream_protocol::access::Access;
use millstream_protocol::hazard::order::{Order, Touch};

use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::Named;
use crate::lazy::node::{NodeId, Op};
use crate::memory::plan::{Plan, Temporary};
use crate::schedule::Steps;
use crate::schedule::item::{Item, Work, Written};
use crate::schedule::walk::Local;
use crate::shape::Shape;
use crate::size::Size;

/// What a parameter of the recording is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    /// An input, by its place in [`Memory::inputs`].
    Input(usize),
    /// An output, by its place in [`Memory::outputs`].
    Output(usize),
    /// The temporaries.
    Arena,
}

/// A parameter of the recording, and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Parameter {
    pub(crate) place: Place,
    /// With every length at its greatest.
    pub(crate) bytes: u64,
    /// May a run with smaller lengths bind fewer?
    pub(crate) may_be_shorter: bool,
}

/// An input of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) source: Source,
    pub(crate) name: Arc<str>,
    /// Bytes with every length at its greatest.
    pub(crate) bytes: u64,
    /// Bytes that a run needs, by its lengths.
    pub(crate) size: Size,
    /// What it is unless a run binds another.
    pub(crate) handle: Option<Handle<u8>>,
    /// Whether the schedule stores into it.
    pub(crate) is_stored: bool,
}

/// Where an input comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The caller of the schedule: it is this node.
    Node(NodeId),
    /// It was made before, of what is held: the how many-eth of those values.
    Prepared(usize),
}

/// A buffer that each run makes, or binds.
#[derive(Clone, Debug)]
pub(crate) struct OutputBuffer {
    /// Bytes with every length at its greatest.
    pub(crate) bytes: u64,
    /// Bytes that a run needs, by its lengths.
    pub(crate) size: Size,
}

/// A root: where its elements are, and what they are.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) place: Place,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// The program of an item, changed to write one of its outputs where one of its inputs lies.
#[derive(Debug)]
pub(crate) struct InPlace {
    pub(crate) program: Arc<Program>,
    /// The item's binding that the program has no more.
    pub(crate) output: usize,
}

/// The buffers of a schedule.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What the inputs are called by those who bind them.
    named: Arc<Named>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<OutputBuffer>,
    pub(crate) roots: Vec<Root>,
    places: HashMap<Local, (Place, u64, u64)>,
    arena_bytes: u64,
    unplanned_bytes: u64,
    /// Programs that were changed to work in place, by item.
    programs: HashMap<usize, InPlace>,
}

impl Memory {
    /// The buffers of a schedule, for a device that runs items side by side or in order.
    pub(crate) fn new(steps: &Steps, overlaps: bool) -> Result<Self, ScheduleError> {
        let mut memory = Self {
            named: steps.named.clone(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            roots: Vec::new(),
            places: HashMap::new(),
            arena_bytes: 0,
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
                        let (bytes, items) = (bytes(steps, storage)?, Vec::new());
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
        for written in steps.items.iter().flat_map(Item::written) {
            if let (Place::Input(index), ..) = memory.place(steps.storage(written)) {
                memory.inputs[index].is_stored = true;
            }
        }
        for item in &steps.items {
            if let Work::Custom(_) = item.work {
                // Nothing tells a kernel of a user that there is less than the most.
                for node in item.touched() {
                    memory.needs_all(steps.storage(node));
                }
            }
        }
        let order = overlaps.then(|| order_of(steps));
        memory.place_temporaries(steps, temporaries, &known, order.as_ref())?;
        Ok(memory)
    }

    /// Every run needs all bytes of a buffer, whatever its lengths.
    fn needs_all(&mut self, storage: Local) {
        let (size, bytes) = match self.place(storage).0 {
            Place::Input(index) => {
                let input = &mut self.inputs[index];
                (&mut input.size, input.bytes)
            }
            Place::Output(index) => {
                let output = &mut self.outputs[index];
                (&mut output.size, output.bytes)
            }
            Place::Arena => return,
        };
        *size = Size::fixed(bytes as i64);
    }

    fn add_root(&mut self, steps: &Steps, root: Local) -> Result<(), ScheduleError> {
        let storage = steps.storage(root);
        if !self.add_external(steps, storage)? && !self.places.contains_key(&storage) {
            let (bytes, size) = (bytes(steps, storage)?, size(steps, storage)?);
            let place = Place::Output(self.outputs.len());
            self.outputs.push(OutputBuffer { bytes, size });
            self.places.insert(storage, (place, 0, bytes));
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

    /// Is the storage an input or an output? Inputs are added when they are met.
    fn add_external(&mut self, steps: &Steps, storage: Local) -> Result<bool, ScheduleError> {
        if self.places.contains_key(&storage) {
            return Ok(true);
        }
        let node = steps.node(storage);
        let whose = Source::Node(node.id);
        let (name, handle, source): (Arc<str>, _, _) = match &node.op {
            Op::Input(name) => (name.clone(), None, whose),
            Op::Buffer(handle) => {
                let name = handle.id().to_string().into();
                (name, Some(handle.clone()), whose)
            }
            Op::Prepared(index) => {
                let source = Source::Prepared(*index as usize);
                (node.op.name().into(), None, source)
            }
            _ => return Ok(false),
        };
        let (bytes, size) = (bytes(steps, storage)?, size(steps, storage)?);
        let place = Place::Input(self.inputs.len());
        self.inputs.push(Input {
            source,
            name,
            bytes,
            size,
            handle,
            is_stored: false,
        });
        self.places.insert(storage, (place, 0, bytes));
        Ok(true)
    }

    /// Lays out the temporaries. Where one ends as another of its size begins, and the item between them reads and
    /// writes each element at one place, they are one.
    fn place_temporaries(
        &mut self,
        steps: &Steps,
        mut temporaries: Vec<(Local, Temporary)>,
        known: &HashMap<Local, usize>,
        order: Option<&Order>,
    ) -> Result<(), ScheduleError> {
        let mut same: Vec<usize> = (0..temporaries.len()).collect();
        for (index, item) in steps.items.iter().enumerate() {
            let dies_here = |written: &Written, binding: usize| {
                let out = *known.get(&steps.storage(written.node))?;
                let input = *known.get(&steps.storage(item.bindings[binding]))?;
                let (_, it) = &temporaries[same[input]];
                let fits = it.last() == index && it.bytes == temporaries[out].1.bytes;
                let begins = temporaries[out].1.first() == index;
                (begins && fits && same[input] != out).then_some((out, input))
            };
            // One of them alone: the next one would have to lie elsewhere.
            let mut pairs = item.writes.iter().flat_map(|written| {
                let bindings = written.in_place.iter();
                bindings.map(move |binding| (written, *binding))
            });
            let found = pairs.find_map(|(written, binding)| {
                let (out, input) = dies_here(written, binding)?;
                Some((written.binding, binding, out, input))
            });
            let Some((output, binding, out, input)) = found else {
                continue;
            };
            if let Work::Program(program) = &item.work
                && let Program::Nest(nest) = &**program
            {
                let program = Arc::new(Program::Nest(in_place(nest, binding, output)));
                self.programs.insert(index, InPlace { program, output });
                let one = same[input];
                same[out] = one;
                let later = temporaries[out].1.items[1..].to_vec();
                temporaries[one].1.items.extend(later);
            }
        }
        let lives = temporaries.iter().enumerate();
        let lives: Vec<usize> = lives
            .filter(|(i, _)| same[*i] == *i)
            .map(|(i, _)| i)
            .collect();
        let placed: Vec<Temporary> = lives
            .iter()
            .map(|index| temporaries[*index].1.clone())
            .collect();
        let too_large = || ScheduleError::TooLarge("the memory of its temporaries".to_owned());
        let plan = Plan::new(&placed, order).ok_or_else(too_large)?;
        self.arena_bytes = plan.bytes;
        for (index, (storage, life)) in temporaries.iter().enumerate() {
            let place = lives.binary_search(&same[index]).unwrap_or(0);
            let offset = plan.offsets[place];
            self.unplanned_bytes = self.unplanned_bytes.saturating_add(life.bytes);
            self.places
                .insert(*storage, (Place::Arena, offset, life.bytes));
        }
        Ok(())
    }

    /// Where a storage lies: in which parameter, from which byte on, how many bytes.
    pub(crate) fn place(&self, storage: Local) -> (Place, u64, u64) {
        self.places
            .get(&storage)
            .copied()
            .unwrap_or((Place::Arena, 0, 0))
    }

    /// Where each buffer lies that an item's program is bound to. One that works in place has one buffer less than the item has bindings.
    pub(crate) fn bound<'a>(
        &'a self,
        steps: &'a Steps,
        index: usize,
    ) -> impl Iterator<Item = (Place, u64, u64)> + 'a {
        let item = &steps.items[index];
        let merged = self.programs.get(&index).map(|merged| merged.output);
        let bindings = item.bindings.iter().enumerate();
        let bindings = bindings.filter(move |(binding, _)| merged != Some(*binding));
        bindings.map(|(_, node)| self.place(steps.storage(*node)))
    }

    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        let parameter = |place, bytes, size: &Size| Parameter {
            place,
            bytes,
            may_be_shorter: size.known().is_none(),
        };
        let inputs = self.inputs.iter().enumerate();
        let inputs =
            inputs.map(|(index, input)| parameter(Place::Input(index), input.bytes, &input.size));
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs
            .map(|(index, output)| parameter(Place::Output(index), output.bytes, &output.size));
        // Temporaries without bytes are bound to something, too.
        let has_temporaries = self
            .places
            .values()
            .any(|(place, ..)| *place == Place::Arena);
        let arena = has_temporaries.then_some(Parameter {
            place: Place::Arena,
            bytes: self.arena_bytes.max(1),
            may_be_shorter: false,
        });
        inputs.chain(outputs).chain(arena).collect()
    }

    /// The node of each input that no preparation makes, and its bytes.
    #[cfg(feature = "tune")]
    pub(crate) fn input_nodes(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.inputs.iter().filter_map(|input| match input.source {
            Source::Node(node) => Some((node, input.bytes)),
            Source::Prepared(_) => None,
        })
    }

    /// The input that is this buffer of the graph.
    pub(crate) fn input(&self, of: &LazyBuffer) -> Option<usize> {
        let id = of.number_in(&self.named)?;
        let mut inputs = self.inputs.iter();
        inputs.position(|known| known.source == Source::Node(id))
    }

    /// The program of an item, if it was changed to work in place.
    pub(crate) fn in_place(&self, item: usize) -> Option<&InPlace> {
        self.programs.get(&item)
    }

    /// The program of an item as it runs.
    pub(crate) fn program<'a>(&'a self, item: usize, own: &'a Arc<Program>) -> &'a Arc<Program> {
        self.in_place(item).map_or(own, |merged| &merged.program)
    }

    pub(crate) fn temporary_bytes(&self) -> u64 {
        self.arena_bytes
    }

    pub(crate) fn unplanned_bytes(&self) -> u64 {
        self.unplanned_bytes
    }

    pub(crate) fn output_bytes(&self) -> u64 {
        self.outputs.iter().map(|output| output.bytes).sum()
    }
}

/// The nest with its output in the place of one of its inputs.
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

/// Bytes of a storage with every length at its greatest.
/// Which items come before which, whatever memory they share later: by the hazards of the buffers that they read and store.
fn order_of(steps: &Steps) -> Order {
    let mut spaces: HashMap<Local, u32> = HashMap::new();
    let mut touches = |item: &Item| {
        let stored: Vec<Local> = item.written().map(|node| steps.storage(node)).collect();
        let touched = item.touched().map(|node| steps.storage(node));
        let touch = |storage: Local| {
            let next = spaces.len() as u32;
            Touch {
                space: *spaces.entry(storage).or_insert(next),
                range: 0..1,
                access: match stored.contains(&storage) {
                    true => Access::ReadWrite,
                    false => Access::Read,
                },
            }
        };
        touched.map(touch).collect::<Vec<Touch>>()
    };
    let items: Vec<Vec<Touch>> = steps.items.iter().map(&mut touches).collect();
    Order::of(&items)
}

fn bytes(steps: &Steps, storage: Local) -> Result<u64, ScheduleError> {
    let bytes = size(steps, storage)?.max();
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| too_large(steps, storage))
}

/// Bytes of a storage with the lengths of a run.
fn size(steps: &Steps, storage: Local) -> Result<Size, ScheduleError> {
    let node = steps.node(storage);
    let element = Size::fixed(node.dtype.size() as i64);
    let size = node.shape.elements();
    let size = size.and_then(|elements| elements.times(&element));
    size.ok_or_else(|| too_large(steps, storage))
}

fn too_large(steps: &Steps, storage: Local) -> ScheduleError {
    ScheduleError::TooLarge(steps.node(storage).shape.to_string())
}
