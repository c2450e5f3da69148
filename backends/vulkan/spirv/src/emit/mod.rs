//! The module under construction: capabilities, types and constants; `instructions` has the instructions. It knows
//! nothing of functions of the IR.

mod instructions;

use std::collections::HashMap;

pub(crate) use instructions::Scope;
use millstream_ir::DType;
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, Operand};
use rspirv::spirv::{
    self, AddressingModel, Capability, Decoration, ExecutionMode, MemoryModel, StorageClass, Word,
};

use crate::Features;

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
