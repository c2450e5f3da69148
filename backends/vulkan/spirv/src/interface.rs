//! What the entry point gets from outside: the parameter block, buffers, shared arrays, and positions. The head of the
//! crate documents the layout of the block.

use std::collections::HashMap;

use millstream_ir::DType;
use millstream_ir::ssa::{Axis, Block, Function, Memory, Op as IrOp, Position, Scope, Stmt};
use rspirv::spirv::{BuiltIn, Capability, Decoration, Op, StorageClass, Word};

use crate::body::{Body, Lane, Role, Unit};
use crate::{Buffers, Parameters};

/// The bytes of a word of the parameter block.
const WORD_BYTES: u32 = 8;
/// The words of the cube counts: three counts of 32 bits, and padding.
const COUNT_WORDS: u32 = 2;

/// The layout of the parameter block of a function.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) parameters: Parameters,
    pub(crate) bytes: u32,
    /// The first word of the cube counts, if the function reads them.
    counts: Option<u32>,
}

impl Layout {
    pub(crate) fn new(function: &Function, parameter_bytes_max: u32) -> Self {
        let words = (function.params.len() + function.scalars.len()) as u32;
        let counts = reads_counts(&function.body).then_some(words);
        let bytes = WORD_BYTES * (words + counts.map_or(0, |_| COUNT_WORDS));
        let parameters = match bytes > parameter_bytes_max {
            true => Parameters::Spilled,
            false => Parameters::Pushed,
        };
        Self {
            parameters,
            bytes,
            counts,
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
    layout: Layout,
    /// The variable of the push constants, or the address of a spilled block.
    block: Word,
    /// For each parameter its device address, or the index of its first element in the descriptor's range.
    pub(crate) starts: Vec<Word>,
    /// The variables of descriptors, by parameter and type of the elements.
    descriptors: HashMap<(u16, Word), Word>,
    pub(crate) shared: Vec<Shared>,
    /// The arrays through which the threads reduce, one for each type.
    pub(crate) reduced: HashMap<DType, Word>,
    /// The bytes of shared memory.
    pub(crate) shared_bytes: u32,
    built_ins: HashMap<u32, Word>,
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
            unit.emit.extends("SPV_KHR_physical_storage_buffer");
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
            let by_bits =
                adds_to(&function.body, memory) && !unit.adds_natively(memory, array.dtype);
            let stored = match array.dtype {
                DType::F32 if by_bits => DType::U32,
                DType::F64 if by_bits => DType::U64,
                dtype => dtype,
            };
            let len = array.len.max(1);
            let element = unit.emit.stored(stored);
            let of = unit.emit.array(element, len);
            let variable = unit.emit.global(StorageClass::Workgroup, of);
            self.shared.push(Shared { variable, stored });
            self.shared_bytes += (len * stored.size() as u32).next_multiple_of(16);
        }
        let threads: u32 = function.threads.iter().product();
        let mut reduced = Vec::new();
        reduced_types(function, &function.body, &mut reduced);
        for dtype in reduced {
            // A bool as 32 bits, which every device has in shared memory.
            let stored = if dtype == DType::Bool {
                DType::U32
            } else {
                dtype
            };
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

impl Body<'_> {
    pub(crate) fn interface(&mut self) -> (&mut Interface, &mut Unit) {
        match &mut self.role {
            Role::Main(interface) => (interface, self.unit),
            Role::Routine { .. } => unreachable!("a routine has neither buffers nor positions"),
        }
    }

    /// Loads what the whole function needs, at its start.
    pub(crate) fn load_interface(&mut self) {
        let function = self.function;
        let (interface, unit) = self.interface();
        if interface.layout.bytes > 0 && interface.layout.parameters == Parameters::Spilled {
            let at = interface.block;
            interface.block = pushed_word(unit, at, 0);
        }
        for (index, param) in function.params.iter().enumerate() {
            let mut start = self.word(index as u32);
            let (interface, unit) = self.interface();
            if unit.target.buffers == Buffers::Descriptors {
                let shift = unit.emit.u64(param.dtype.size().trailing_zeros().into());
                let of = unit.emit.of(DType::U64);
                start = unit.emit.op(Op::ShiftRightLogical, of, &[start, shift]);
            }
            interface.starts.push(start);
        }
        if !self.interface().0.reduced.is_empty() {
            let thread = self.linear_thread();
            self.interface().0.thread = thread;
        }
    }

    /// Loads a word of the parameter block.
    fn word(&mut self, index: u32) -> Word {
        let (interface, unit) = self.interface();
        let block = interface.block;
        match interface.layout.parameters {
            Parameters::Pushed => pushed_word(unit, block, index),
            Parameters::Spilled => {
                let emit = &mut unit.emit;
                let of = emit.of(DType::U64);
                let offset = emit.u64(u64::from(WORD_BYTES * index));
                let address = emit.op(Op::IAdd, of, &[block, offset]);
                let pointer = emit.pointer(StorageClass::PhysicalStorageBuffer, of);
                let place = emit.op(Op::ConvertUToPtr, pointer, &[address]);
                emit.load(of, place, Some(WORD_BYTES))
            }
        }
    }

    /// Returns a launch word as a value of this type: its low bits. In a routine, an argument.
    pub(crate) fn scalar(&mut self, index: u16, dtype: DType) -> Word {
        if let Role::Routine { arguments, .. } = &self.role {
            return arguments[usize::from(index)];
        }
        let word = self.word(self.function.params.len() as u32 + u32::from(index));
        let narrow = match dtype.size() {
            8 => DType::U64,
            4 => DType::U32,
            _ if dtype == DType::Bool => DType::U64,
            2 => DType::U16,
            _ => DType::U8,
        };
        if dtype == DType::Bool {
            let low = self.constant(DType::U64, 0xff).id;
            let of = self.unit.emit.of(DType::U64);
            let byte = self.unit.emit.op(Op::BitwiseAnd, of, &[word, low]);
            return self.cast(DType::U64, DType::Bool, byte);
        }
        let bits = self.cast(DType::U64, narrow, word);
        self.reinterpret(narrow, dtype, bits)
    }

    /// Returns a position or a size, as `i64`.
    pub(crate) fn position(&mut self, position: Position, axis: Axis) -> Lane {
        let axis = match axis {
            Axis::X => 0,
            Axis::Y => 1,
            Axis::Z => 2,
        };
        let id = match position {
            Position::Threads => {
                let threads = self.function.threads[axis as usize];
                return self.constant(DType::I64, threads.into());
            }
            // An axis with one thread.
            Position::Thread if self.function.threads[axis as usize] == 1 => {
                return self.constant(DType::I64, 0);
            }
            Position::Thread => self.built_in(BuiltIn::LocalInvocationId, axis),
            Position::Cube => self.built_in(BuiltIn::WorkgroupId, axis),
            Position::Cubes => self.count(axis),
        };
        let id = self.cast(DType::U32, DType::I64, id);
        Lane { id, bits: None }
    }

    /// Returns the number of cubes along an axis: that of the parameter block, or of the launch if it is 0 there.
    fn count(&mut self, axis: u32) -> Word {
        let (interface, _) = self.interface();
        let first = interface.layout.counts.unwrap_or_default();
        let mut word = self.word(first + axis / 2);
        if axis % 2 == 1 {
            let half = self.constant(DType::U64, 32).id;
            let of = self.unit.emit.of(DType::U64);
            word = self.unit.emit.op(Op::ShiftRightLogical, of, &[word, half]);
        }
        let given = self.cast(DType::U64, DType::U32, word);
        let is_given = self.cast(DType::U32, DType::Bool, given);
        let launched = self.built_in(BuiltIn::NumWorkgroups, axis);
        let of = self.unit.emit.of(DType::U32);
        self.unit
            .emit
            .op(Op::Select, of, &[is_given, given, launched])
    }

    /// Returns a component of a built-in vector, `u32`.
    fn built_in(&mut self, what: BuiltIn, axis: u32) -> Word {
        let (interface, unit) = self.interface();
        let emit = &mut unit.emit;
        let of = emit.of(DType::U32);
        let vector = emit.vector(of, 3);
        let variable = interface.built_ins.entry(what as u32);
        let variable = *variable.or_insert_with(|| emit.built_in(what, vector));
        let all = emit.load(vector, variable, None);
        emit.extract(of, all, axis)
    }

    /// Returns the index of the thread in its cube over all axes, `u32`.
    fn linear_thread(&mut self) -> Word {
        let [x, y, z] = [0, 1, 2].map(|axis| self.built_in(BuiltIn::LocalInvocationId, axis));
        let [width, height, _] = self.function.threads;
        let emit = &mut self.unit.emit;
        let of = emit.of(DType::U32);
        let mut along = |above, size, at| {
            let size = emit.u32(size);
            let above = emit.op(Op::IMul, of, &[above, size]);
            emit.op(Op::IAdd, of, &[above, at])
        };
        let rows = along(z, height, y);
        along(rows, width, x)
    }
}

/// Loads a word of the push constants.
fn pushed_word(unit: &mut Unit, block: Word, index: u32) -> Word {
    let emit = &mut unit.emit;
    let of = emit.of(DType::U64);
    let pointer = emit.pointer(StorageClass::PushConstant, of);
    let [first, index] = [0, index].map(|index| emit.u32(index));
    let place = emit.op(Op::AccessChain, pointer, &[block, first, index]);
    emit.load(of, place, None)
}

/// Calls `f` with each statement of a block and of the blocks within it.
pub(crate) fn each_statement<'f>(block: &'f Block, f: &mut impl FnMut(&'f Stmt)) {
    for stmt in block {
        f(stmt);
        match stmt {
            Stmt::If {
                then, otherwise, ..
            } => {
                each_statement(then, f);
                each_statement(otherwise, f);
            }
            Stmt::For { body, .. } => each_statement(body, f),
            _ => {}
        }
    }
}

fn reads_counts(block: &Block) -> bool {
    let mut reads = false;
    each_statement(block, &mut |stmt| {
        if let Stmt::Let { op, .. } = stmt {
            reads |= matches!(op, IrOp::Position(Position::Cubes, _));
        }
    });
    reads
}

/// Returns `true` if the block adds to this memory atomically.
fn adds_to(block: &Block, memory: Memory) -> bool {
    let mut adds = false;
    each_statement(block, &mut |stmt| {
        adds |= matches!(stmt, Stmt::AtomicAdd { to, .. } if *to == memory);
    });
    adds
}

fn reduced_types(function: &Function, block: &Block, types: &mut Vec<DType>) {
    each_statement(block, &mut |stmt| {
        if let Stmt::Let {
            op: IrOp::Reduce(Scope::Cube | Scope::Row, _, value),
            ..
        } = stmt
        {
            let dtype = function.values[*value as usize].dtype;
            if !types.contains(&dtype) {
                types.push(dtype);
            }
        }
    });
}
