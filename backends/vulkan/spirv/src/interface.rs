//! The global variables of a module: the parameter block, buffers, and shared arrays. The head of the crate documents the
//! layout of the block; `inputs` reads it.

use std::collections::HashMap;

use millstream_ir::DType;
use millstream_ir::ssa::{Block, Function, Memory, Op, Position, Stmt};
use spirv::{Capability, Decoration, StorageClass, Word};

use crate::unit::Unit;
use crate::walk::statements;
use crate::{Buffers, Parameters};

/// The bytes of a word of the parameter block.
pub(crate) const WORD_BYTES: u32 = 8;
/// The words of the grid: three counts and three coordinates of 32 bits.
const GRID_WORDS: u32 = 3;

/// The layout of the parameter block of a function.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) parameters: Parameters,
    pub(crate) bytes: u32,
    /// The first word of the grid, if the function reads it.
    pub(crate) grid: Option<u32>,
}

impl Layout {
    pub(crate) fn new(function: &Function, parameter_bytes_max: u32) -> Self {
        let words = (function.params.len() + function.scalars.len()) as u32;
        let grid = reads_grid(&function.body).then_some(words);
        let bytes = WORD_BYTES * (words + grid.map_or(0, |_| GRID_WORDS));
        let parameters = match bytes > parameter_bytes_max {
            true => Parameters::Spilled,
            false => Parameters::Pushed,
        };
        Self {
            parameters,
            bytes,
            grid,
        }
    }
}

/// A shared array.
pub(crate) struct Shared {
    pub(crate) variable: Word,
    /// The type of its elements: unsigned integers if floats are added to it by compare-and-exchange.
    pub(crate) stored: DType,
}

/// What the entry point gets from outside.
pub(crate) struct Interface {
    pub(crate) layout: Layout,
    /// The variable of the push constants, or the address of a spilled block.
    pub(crate) block: Word,
    /// For each parameter its device address, or the index of its first element in the descriptor's range.
    pub(crate) starts: Vec<Word>,
    /// The variables of descriptors, by parameter and type of the elements.
    descriptors: HashMap<(u16, Word), Word>,
    pub(crate) shared: Vec<Shared>,
    /// The arrays through which the threads reduce, one for each type.
    pub(crate) reduced: HashMap<DType, Word>,
    /// The bytes of shared memory.
    pub(crate) shared_bytes: u32,
    pub(crate) built_ins: HashMap<u32, Word>,
    /// The index of the thread in its cube over all axes, if the function reduces.
    pub(crate) thread: Word,
}

impl Interface {
    /// Declares the global variables of a function.
    pub(crate) fn declare(unit: &mut Unit, function: &Function, layout: Layout) -> Self {
        let mut interface = Self {
            layout,
            block: 0,
            starts: Vec::new(),
            descriptors: HashMap::new(),
            shared: Vec::new(),
            reduced: HashMap::new(),
            shared_bytes: 0,
            built_ins: HashMap::new(),
            thread: 0,
        };
        let is_spilled = layout.parameters == Parameters::Spilled;
        if unit.target.buffers == Buffers::Addresses || is_spilled {
            unit.emit.needs(Capability::PhysicalStorageBufferAddresses);
        }
        if layout.bytes > 0 {
            let words = if is_spilled {
                1
            } else {
                layout.bytes / WORD_BYTES
            };
            let block = unit.emit.word_block(words);
            interface.block = unit.emit.global(StorageClass::PushConstant, block);
        }
        interface.declare_shared(unit, function);
        interface
    }

    fn declare_shared(&mut self, unit: &mut Unit, function: &Function) {
        for (index, array) in function.shared.iter().enumerate() {
            let memory = Memory::Shared(index as u16);
            let stored = match adds_to(&function.body, memory) {
                true => unit.added_as(memory, array.dtype),
                false => array.dtype,
            };
            let len = array.len.max(1);
            let element = unit.emit.stored(stored);
            let of = unit.emit.array(element, len);
            let variable = unit.emit.global(StorageClass::Workgroup, of);
            self.shared.push(Shared { variable, stored });
            self.shared_bytes += (len * stored.size() as u32).next_multiple_of(16);
        }
        let threads: u32 = function.threads.iter().product();
        for dtype in reduced_types(function) {
            let stored = stored(dtype);
            let element = unit.emit.of(stored);
            let of = unit.emit.array(element, threads);
            let variable = unit.emit.global(StorageClass::Workgroup, of);
            self.reduced.insert(dtype, variable);
            self.shared_bytes += (threads * stored.size() as u32).next_multiple_of(16);
        }
    }

    /// Returns the variable of a descriptor with elements of this type.
    pub(crate) fn descriptor(
        &mut self,
        unit: &mut Unit,
        param: u16,
        element: Word,
        bytes: u32,
    ) -> Word {
        *self.descriptors.entry((param, element)).or_insert_with(|| {
            let block = unit.emit.buffer_block(element, bytes);
            let variable = unit.emit.global(StorageClass::StorageBuffer, block);
            let emit = &mut unit.emit;
            emit.decorate(variable, Decoration::DescriptorSet, &[0]);
            emit.decorate(variable, Decoration::Binding, &[param.into()]);
            // Bindings may overlap.
            emit.decorate(variable, Decoration::Aliased, &[]);
            variable
        })
    }
}

fn reads_grid(block: &Block) -> bool {
    statements(block).any(|stmt| {
        use Position::{Cube, Cubes};
        matches!(
            stmt,
            Stmt::Let {
                op: Op::Position(Cube | Cubes, _),
                ..
            }
        )
    })
}

/// Returns `true` if the block adds to this memory atomically.
fn adds_to(block: &Block, memory: Memory) -> bool {
    statements(block).any(|stmt| matches!(stmt, Stmt::AtomicAdd { to, .. } if *to == memory))
}

/// Returns the types that the threads of a cube or a row reduce.
fn reduced_types(function: &Function) -> Vec<DType> {
    let mut types = Vec::new();
    for stmt in statements(&function.body) {
        if let Stmt::Let { op, .. } = stmt
            && let Op::Reduce(_, _, value) = op
        {
            let dtype = function.values[*value as usize].dtype;
            if !types.contains(&dtype) {
                types.push(dtype);
            }
        }
    }
    types
}

/// Returns the type in shared memory: a bool has 32 bits, which every device supports there.
pub(crate) fn stored(dtype: DType) -> DType {
    match dtype {
        DType::Bool => DType::U32,
        dtype => dtype,
    }
}
