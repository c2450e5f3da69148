//! The module under construction: what all functions of it share, among it the global variables. The head of the crate
//! documents the layout of the parameter block; `inputs` reads it.

use std::collections::HashMap;

use millstream_ir::DType;
use millstream_ir::ssa::{Array, Function, Memory, Op, Position, Stmt, statements};
use spirv::{Capability, Decoration, StorageClass, Word};

use crate::emit::Emit;
use crate::routines::Routines;
use crate::{Buffers, Parameters, Target};

/// The bytes of a word of the parameter block.
pub(crate) const WORD_BYTES: u32 = 8;
/// The words of the grid: three counts and three coordinates of 32 bits.
const GRID_WORDS: u32 = 3;

/// A shared array.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    pub(crate) variable: Word,
    /// The type of its elements: unsigned integers if floats are added to it by compare-and-exchange.
    pub(crate) stored: DType,
}

/// The module.
pub(crate) struct Unit {
    pub(crate) emit: Emit,
    pub(crate) target: Target,
    pub(crate) routines: Routines,
    pub(crate) parameters: Parameters,
    /// The bytes of the parameter block.
    pub(crate) parameter_bytes: u32,
    /// The first word of the grid, if the function reads it.
    pub(crate) grid: Option<u32>,
    /// The variable of the push constants, or the address of a spilled block.
    pub(crate) block: Word,
    /// For each parameter its device address, or the index of its first element in the descriptor's range.
    pub(crate) starts: Vec<Word>,
    /// The variables of descriptors, by parameter and type of the elements.
    descriptors: HashMap<(u16, Word), Word>,
    pub(crate) built_ins: HashMap<u32, Word>,
    /// The shared arrays of routines, which use them one after another: one for each type.
    scratch: HashMap<DType, Shared>,
    /// The bytes of shared memory so far.
    pub(crate) shared_bytes: u32,
}

impl Unit {
    /// Declares the parameter block of a function, whose capabilities are declared.
    pub(crate) fn new(mut emit: Emit, function: &Function, target: &Target) -> Self {
        let words = (function.params.len() + function.scalars.len()) as u32;
        let mut ops = statements(&function.body).filter_map(Stmt::op);
        let reads_grid = ops.any(|op| {
            use Position::{Cube, Cubes};
            matches!(op, Op::Position(Cube | Cubes, _))
        });
        let grid = reads_grid.then_some(words);
        let words = words + grid.map_or(0, |_| GRID_WORDS);
        let parameter_bytes = WORD_BYTES * words;
        let (parameters, pushed_words) = match parameter_bytes > target.parameter_bytes_max {
            true => (Parameters::Spilled, 1),
            false => (Parameters::Pushed, words),
        };
        if target.buffers == Buffers::Addresses || parameters == Parameters::Spilled {
            emit.needs(Capability::PhysicalStorageBufferAddresses);
        }
        let mut block = 0;
        if words > 0 {
            let of = emit.word_block(pushed_words);
            block = emit.global(StorageClass::PushConstant, of);
        }
        Self {
            emit,
            target: *target,
            routines: Routines::default(),
            parameters,
            parameter_bytes,
            grid,
            block,
            starts: Vec::new(),
            descriptors: HashMap::new(),
            built_ins: HashMap::new(),
            scratch: HashMap::new(),
            shared_bytes: 0,
        }
    }

    /// Returns the type as which elements of this memory are added to: their own if the device adds to it by one
    /// instruction, else unsigned integers, since floats are then added by compare-and-exchange of their bits.
    pub(crate) fn added_as(&self, memory: Memory, dtype: DType) -> DType {
        match dtype.is_float() && !self.target.features.adds(memory, dtype) {
            true => dtype.unsigned(),
            false => dtype,
        }
    }

    /// Declares a shared array of the kernel.
    pub(crate) fn shared(&mut self, array: &Array) -> Shared {
        let stored = self.added_as(Memory::Shared(0), array.dtype);
        let len = array.len.max(1);
        let element = self.emit.stored(stored);
        let of = self.emit.array(element, len);
        let variable = self.emit.global(StorageClass::Workgroup, of);
        self.shared_bytes += (len * stored.size() as u32).next_multiple_of(16);
        Shared { variable, stored }
    }

    /// Returns a shared array for a routine. All arrays of routines have an element for each thread of the cube.
    pub(crate) fn scratch(&mut self, array: &Array) -> Shared {
        match self.scratch.get(&array.dtype) {
            Some(known) => *known,
            None => {
                let new = self.shared(array);
                self.scratch.insert(array.dtype, new);
                new
            }
        }
    }

    /// Returns the variable of a descriptor with elements of this type.
    pub(crate) fn descriptor(&mut self, param: u16, element: Word, bytes: u32) -> Word {
        let emit = &mut self.emit;
        *self.descriptors.entry((param, element)).or_insert_with(|| {
            let block = emit.buffer_block(element, bytes);
            let variable = emit.global(StorageClass::StorageBuffer, block);
            emit.decorate(variable, Decoration::DescriptorSet, &[0]);
            emit.decorate(variable, Decoration::Binding, &[param.into()]);
            // Bindings may overlap.
            emit.decorate(variable, Decoration::Aliased, &[]);
            variable
        })
    }
}
