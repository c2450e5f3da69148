//! The module under construction: types, constants, and single instructions. It knows nothing of functions of the IR.

use std::collections::HashMap;

use millstream_ir::DType;
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, InsertPoint, Instruction, Operand};
use rspirv::spirv::{
    self, AddressingModel, Capability, Decoration, ExecutionMode, GlslStd450Op, LoopControl,
    MemoryAccess, MemoryModel, Op, SelectionControl, StorageClass, Word,
};

use crate::Features;

/// The scope of atomics and of barriers, as SPIR-V numbers them.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    Device = 1,
    Cube = 2,
}

/// Acquire and release, of buffers (`UniformMemory`) and of shared memory.
const BARRIER_SEMANTICS: u32 = 0x8 | 0x40 | 0x100;

/// A module under construction. Instructions go to the end of the open block.
pub(crate) struct Emit {
    b: Builder,
    glsl: Word,
    types: HashMap<DType, Word>,
    constants: HashMap<(Word, u64), Word>,
    nulls: HashMap<Word, Word>,
    pointers: HashMap<(u32, Word), Word>,
    arrays: HashMap<(Word, u32), Word>,
    capabilities: Vec<Capability>,
    extensions: Vec<&'static str>,
    /// The label of the open block.
    label: Word,
    /// The global variables, which the entry point lists.
    interface: Vec<Word>,
    /// The features that the module uses.
    pub(crate) used: Features,
}

impl Emit {
    pub(crate) fn new() -> Self {
        let mut b = Builder::new();
        b.set_version(1, 5);
        let glsl = b.ext_inst_import("GLSL.std.450");
        let mut emit = Self {
            b,
            glsl,
            types: HashMap::new(),
            constants: HashMap::new(),
            nulls: HashMap::new(),
            pointers: HashMap::new(),
            arrays: HashMap::new(),
            capabilities: Vec::new(),
            extensions: Vec::new(),
            label: 0,
            interface: Vec::new(),
            used: Features::default(),
        };
        emit.needs(Capability::Shader);
        emit.needs(Capability::Int64);
        emit
    }

    /// Completes the module, whose entry point is `main`.
    pub(crate) fn finish(
        mut self,
        main: Word,
        threads: [u32; 3],
        controls: &Features,
    ) -> (Vec<u32>, Features) {
        let model = match self
            .capabilities
            .contains(&Capability::PhysicalStorageBufferAddresses)
        {
            true => AddressingModel::PhysicalStorageBuffer64,
            false => AddressingModel::Logical,
        };
        self.b.memory_model(model, MemoryModel::GLSL450);
        let interface = std::mem::take(&mut self.interface);
        self.b
            .entry_point(spirv::ExecutionModel::GLCompute, main, "main", interface);
        self.b
            .execution_mode(main, ExecutionMode::LocalSize, threads);
        self.float_controls(main, controls);
        (self.b.module().assemble(), self.used)
    }

    fn float_controls(&mut self, main: Word, given: &Features) {
        let f64 = self.used.f64;
        let (signs, subnormals) = (
            (
                Capability::SignedZeroInfNanPreserve,
                ExecutionMode::SignedZeroInfNanPreserve,
            ),
            (Capability::DenormPreserve, ExecutionMode::DenormPreserve),
        );
        let used = &mut self.used;
        used.preserve_f32 = given.preserve_f32;
        used.preserve_f64 = given.preserve_f64 && f64;
        used.subnormals_f32 = given.subnormals_f32;
        used.subnormals_f64 = given.subnormals_f64 && f64;
        let modes = [
            (used.preserve_f32, signs, 32),
            (used.preserve_f64, signs, 64),
            (used.subnormals_f32, subnormals, 32),
            (used.subnormals_f64, subnormals, 64),
        ];
        for (_, (capability, mode), width) in modes.into_iter().filter(|(on, ..)| *on) {
            // Part of SPIR-V since 1.4.
            self.needs(capability);
            self.b.execution_mode(main, mode, [width]);
        }
    }

    /// Declares a capability of the module.
    pub(crate) fn needs(&mut self, capability: Capability) {
        if !self.capabilities.contains(&capability) {
            self.capabilities.push(capability);
            self.b.capability(capability);
        }
    }

    /// Declares an extension of the module.
    pub(crate) fn extends(&mut self, extension: &'static str) {
        if !self.extensions.contains(&extension) {
            self.extensions.push(extension);
            self.b.extension(extension);
        }
    }

    /// Returns a new id.
    pub(crate) fn id(&mut self) -> Word {
        self.b.id()
    }

    /// Returns the label of the open block.
    pub(crate) fn label(&self) -> Word {
        self.label
    }
}

/// Types and constants.
impl Emit {
    /// Returns the type of values. Integers have no sign; halves are their bits.
    pub(crate) fn of(&mut self, dtype: DType) -> Word {
        if let Some(found) = self.types.get(&dtype) {
            return *found;
        }
        let made = match dtype {
            DType::Bool => self.b.type_bool(),
            DType::F64 => {
                self.used.f64 = true;
                self.needs(Capability::Float64);
                self.b.type_float(64, None)
            }
            DType::F32 => self.b.type_float(32, None),
            _ => self.b.type_int(8 * dtype.size() as u32, 0),
        };
        self.types.insert(dtype, made);
        made
    }

    /// Returns the type of elements in memory: a bool is a byte.
    pub(crate) fn stored(&mut self, dtype: DType) -> Word {
        match dtype {
            DType::Bool => self.of(DType::U8),
            _ => self.of(dtype),
        }
    }

    pub(crate) fn bool(&mut self) -> Word {
        self.of(DType::Bool)
    }

    pub(crate) fn void(&mut self) -> Word {
        self.b.type_void()
    }

    pub(crate) fn vector(&mut self, of: Word, lanes: u32) -> Word {
        self.b.type_vector(of, lanes)
    }

    pub(crate) fn array(&mut self, of: Word, len: u32) -> Word {
        if let Some(found) = self.arrays.get(&(of, len)) {
            return *found;
        }
        let length = self.u32(len);
        let made = self.b.type_array(of, length);
        self.arrays.insert((of, len), made);
        made
    }

    pub(crate) fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        if let Some(found) = self.pointers.get(&(class as u32, to)) {
            return *found;
        }
        let made = self.b.type_pointer(None, class, to);
        self.pointers.insert((class as u32, to), made);
        made
    }

    /// Returns a new type: a block of one runtime array, for a storage buffer.
    pub(crate) fn buffer_block(&mut self, element: Word, bytes: u32) -> Word {
        let id = self.id();
        let array = self.b.type_runtime_array_id(Some(id), element);
        self.decorate(array, Decoration::ArrayStride, &[bytes]);
        let block = self.id();
        let block = self.b.type_struct_id(Some(block), [array]);
        self.decorate(block, Decoration::Block, &[]);
        self.member_offset(block, 0, 0);
        block
    }

    /// Returns a new type: a block of `u64` words.
    pub(crate) fn word_block(&mut self, words: u32) -> Word {
        let word = self.of(DType::U64);
        let (length, id) = (self.u32(words), self.id());
        let array = self.b.type_array_id(Some(id), word, length);
        self.decorate(array, Decoration::ArrayStride, &[8]);
        let block = self.id();
        let block = self.b.type_struct_id(Some(block), [array]);
        self.decorate(block, Decoration::Block, &[]);
        self.member_offset(block, 0, 0);
        block
    }

    fn member_offset(&mut self, of: Word, member: u32, offset: u32) {
        let offset = [Operand::LiteralBit32(offset)];
        self.b
            .member_decorate(of, member, Decoration::Offset, offset);
    }

    pub(crate) fn decorate(&mut self, id: Word, by: Decoration, numbers: &[u32]) {
        let numbers = numbers.iter().map(|number| Operand::LiteralBit32(*number));
        self.b.decorate(id, by, numbers);
    }

    /// Returns a constant with these bits; a bool has 0 bytes.
    fn constant_of(&mut self, of: Word, bytes: usize, bits: u64) -> Word {
        if let Some(found) = self.constants.get(&(of, bits)) {
            return *found;
        }
        let made = match bytes {
            0 if bits == 0 => self.b.constant_false(of),
            0 => self.b.constant_true(of),
            8 => self.b.constant_bit64(of, bits),
            _ => self.b.constant_bit32(of, bits as u32),
        };
        self.constants.insert((of, bits), made);
        made
    }

    /// Returns the constant with these bits.
    pub(crate) fn constant(&mut self, dtype: DType, bits: u64) -> Word {
        let of = self.of(dtype);
        let bytes = match dtype {
            DType::Bool => 0,
            _ => dtype.size(),
        };
        self.constant_of(of, bytes, bits)
    }

    pub(crate) fn u32(&mut self, value: u32) -> Word {
        self.constant(DType::U32, value.into())
    }

    pub(crate) fn u64(&mut self, value: u64) -> Word {
        self.constant(DType::U64, value)
    }

    /// Returns the value of a type whose bits are all zero.
    pub(crate) fn null(&mut self, of: Word) -> Word {
        if let Some(found) = self.nulls.get(&of) {
            return *found;
        }
        let made = self.b.constant_null(of);
        self.nulls.insert(of, made);
        made
    }
}

/// Variables and instructions.
impl Emit {
    /// Adds a variable outside of functions.
    pub(crate) fn global(&mut self, class: StorageClass, of: Word) -> Word {
        let (pointer, id) = (self.pointer(class, of), self.id());
        let operands = vec![Operand::StorageClass(class)];
        let variable = Instruction::new(Op::Variable, Some(pointer), Some(id), operands);
        // Not by the builder's `variable`, which adds to the open function.
        self.b
            .insert_types_global_values(InsertPoint::End, variable);
        self.interface.push(id);
        id
    }

    /// Adds a global variable that a built-in value initializes.
    pub(crate) fn built_in(&mut self, what: spirv::BuiltIn, of: Word) -> Word {
        let variable = self.global(StorageClass::Input, of);
        self.b
            .decorate(variable, Decoration::BuiltIn, [Operand::BuiltIn(what)]);
        variable
    }

    /// Adds a variable of the open function, which is in its first block. It is initialized with zeros.
    pub(crate) fn local(&mut self, of: Word) -> Word {
        let class = StorageClass::Function;
        let (pointer, zero) = (self.pointer(class, of), self.null(of));
        self.b.variable(pointer, None, class, Some(zero))
    }

    /// Adds an instruction with a result.
    pub(crate) fn op(&mut self, op: Op, of: Word, operands: &[Word]) -> Word {
        let operands = operands.iter().map(|id| Operand::IdRef(*id)).collect();
        self.full(op, of, operands)
    }

    /// Adds an instruction whose result has this id, which is new.
    pub(crate) fn op_as(&mut self, id: Word, op: Op, of: Word, operands: &[Word]) {
        let operands = operands.iter().map(|id| Operand::IdRef(*id)).collect();
        self.push(Instruction::new(op, Some(of), Some(id), operands));
    }

    fn full(&mut self, op: Op, of: Word, operands: Vec<Operand>) -> Word {
        let id = self.id();
        self.push(Instruction::new(op, Some(of), Some(id), operands));
        id
    }

    fn push(&mut self, instruction: Instruction) {
        self.b
            .insert_into_block(InsertPoint::End, instruction)
            .expect("a block is open");
    }

    fn push_op(&mut self, op: Op, operands: Vec<Operand>) {
        self.push(Instruction::new(op, None, None, operands));
    }

    /// Adds an operation on floats that is never contracted with another one.
    pub(crate) fn exact(&mut self, op: Op, of: Word, operands: &[Word]) -> Word {
        let id = self.op(op, of, operands);
        self.decorate(id, Decoration::NoContraction, &[]);
        id
    }

    /// Adds an instruction of `GLSL.std.450`.
    pub(crate) fn glsl(&mut self, op: GlslStd450Op, of: Word, operands: &[Word]) -> Word {
        let mut all = vec![
            Operand::IdRef(self.glsl),
            Operand::LiteralExtInstInteger(op as u32),
        ];
        all.extend(operands.iter().map(|id| Operand::IdRef(*id)));
        self.full(Op::ExtInst, of, all)
    }

    /// Extracts one component.
    pub(crate) fn extract(&mut self, of: Word, from: Word, index: u32) -> Word {
        let operands = vec![Operand::IdRef(from), Operand::LiteralBit32(index)];
        self.full(Op::CompositeExtract, of, operands)
    }

    /// Loads; `aligned` is the alignment of a device address.
    pub(crate) fn load(&mut self, of: Word, from: Word, aligned: Option<u32>) -> Word {
        let mut operands = vec![Operand::IdRef(from)];
        operands.extend(alignment(aligned));
        self.full(Op::Load, of, operands)
    }

    /// Stores; `aligned` is the alignment of a device address.
    pub(crate) fn store(&mut self, to: Word, value: Word, aligned: Option<u32>) {
        let mut operands = vec![Operand::IdRef(to), Operand::IdRef(value)];
        operands.extend(alignment(aligned));
        self.push_op(Op::Store, operands);
    }

    /// Waits for all threads of the cube, and makes stores to buffers and shared memory visible to them.
    pub(crate) fn barrier(&mut self) {
        let (cube, semantics) = (self.u32(Scope::Cube as u32), self.u32(BARRIER_SEMANTICS));
        let operands = [cube, cube, semantics].map(Operand::IdRef);
        self.push_op(Op::ControlBarrier, operands.to_vec());
    }
}

fn alignment(aligned: Option<u32>) -> impl Iterator<Item = Operand> {
    let operands = aligned.map(|bytes| {
        [
            Operand::MemoryAccess(MemoryAccess::ALIGNED),
            Operand::LiteralBit32(bytes),
        ]
    });
    operands.into_iter().flatten()
}

/// Functions and blocks.
impl Emit {
    /// Opens a function, and its first block. Returns its parameters.
    pub(crate) fn begin(&mut self, id: Word, result: Word, parameters: &[Word]) -> Vec<Word> {
        let of = self.b.type_function(result, parameters.iter().copied());
        let control = spirv::FunctionControl::NONE;
        self.b
            .begin_function(result, Some(id), control, of)
            .expect("no function is open");
        let parameters = parameters.iter().map(|of| {
            let parameter = self.b.function_parameter(*of);
            parameter.expect("a function is open")
        });
        let parameters = parameters.collect();
        let first = self.id();
        self.open(first);
        parameters
    }

    /// Closes the open function, which returns this value.
    pub(crate) fn end(&mut self, result: Option<Word>) {
        match result {
            Some(value) => self.push_op(Op::ReturnValue, vec![Operand::IdRef(value)]),
            None => self.push_op(Op::Return, Vec::new()),
        }
        self.b.select_block(None).expect("a block may be closed");
        self.b.end_function().expect("a function is open");
    }

    /// Opens a block.
    pub(crate) fn open(&mut self, label: Word) {
        self.b.select_block(None).expect("a block may be closed");
        self.b
            .begin_block(Some(label))
            .expect("a function is open, and no block");
        self.label = label;
    }

    pub(crate) fn branch(&mut self, to: Word) {
        self.push_op(Op::Branch, vec![Operand::IdRef(to)]);
    }

    pub(crate) fn branch_if(&mut self, condition: Word, then: Word, otherwise: Word) {
        let operands = [condition, then, otherwise].map(Operand::IdRef);
        self.push_op(Op::BranchConditional, operands.to_vec());
    }

    /// Announces the block where the next branch joins again.
    pub(crate) fn selection(&mut self, merge: Word) {
        let control = Operand::SelectionControl(SelectionControl::NONE);
        self.push_op(Op::SelectionMerge, vec![Operand::IdRef(merge), control]);
    }

    /// Announces the end and the last block of the loop that starts with the open block.
    pub(crate) fn looping(&mut self, merge: Word, next: Word, unroll: bool) {
        let control = match unroll {
            true => LoopControl::UNROLL,
            false => LoopControl::NONE,
        };
        let operands = vec![
            Operand::IdRef(merge),
            Operand::IdRef(next),
            Operand::LoopControl(control),
        ];
        self.push_op(Op::LoopMerge, operands);
    }

    /// Adds the value of the predecessor that control came from. `id` is new.
    pub(crate) fn phi(&mut self, id: Word, of: Word, from: [(Word, Word); 2]) {
        let operands = from.into_iter().flat_map(|(value, label)| [value, label]);
        let operands = operands.map(Operand::IdRef).collect();
        self.push(Instruction::new(Op::Phi, Some(of), Some(id), operands));
    }
}
