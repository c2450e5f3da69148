//! The module under construction: capabilities, types and constants; `instructions` has the instructions. It knows
//! nothing of functions of the IR.

mod instructions;

use std::collections::HashMap;

pub(crate) use instructions::Scope;
use millstream_ir::DType;
use spirv::{
    AddressingModel, Capability, Decoration, ExecutionMode, ExecutionModel, MemoryModel, Op,
    StorageClass, Word,
};

use crate::Features;

/// SPIR-V 1.5.
const VERSION: Word = 0x0001_0500;
/// The most operands of a type or constant: those of the type of a function with three parameters.
const OPERANDS_MAX: usize = 4;

/// Extensions, with the capabilities that need them.
const EXTENSIONS: [(&[Capability], &str); 2] = [
    (
        &[Capability::PhysicalStorageBufferAddresses],
        "SPV_KHR_physical_storage_buffer",
    ),
    (
        &[
            Capability::AtomicFloat32AddEXT,
            Capability::AtomicFloat64AddEXT,
        ],
        "SPV_EXT_shader_atomic_float_add",
    ),
];

/// A module under construction. Instructions go to the end of the open block.
pub(crate) struct Emit {
    /// The last id.
    last: Word,
    glsl: Word,
    /// The types and constants, by instruction and operands. Missing operands are 0, which is no id.
    known: HashMap<(Op, [Word; OPERANDS_MAX]), Word>,
    /// The bits of the constants.
    bits: HashMap<Word, u64>,
    /// The alignments of the pointers to device addresses.
    aligned: HashMap<Word, u32>,
    capabilities: Vec<Capability>,
    /// The decorations.
    decorations: Vec<Word>,
    /// Types, constants and global variables.
    globals: Vec<Word>,
    /// The functions.
    code: Vec<Word>,
    /// The label of the open block.
    label: Word,
    /// The global variables, which the entry point lists.
    interface: Vec<Word>,
}

/// Adds an instruction.
fn put(to: &mut Vec<Word>, op: Op, operands: impl IntoIterator<Item = Word>) {
    let start = to.len();
    to.push(0);
    to.extend(operands);
    to[start] = ((to.len() - start) as Word) << 16 | op as Word;
}

/// Returns a text as operands: four bytes in a word, and at least one zero at the end.
fn text(text: &str) -> impl Iterator<Item = Word> {
    let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or_default();
    let starts = (0..=text.len()).step_by(4);
    starts.map(move |at| Word::from_le_bytes([0, 1, 2, 3].map(|nth| byte(at + nth))))
}

impl Emit {
    pub(crate) fn new() -> Self {
        let glsl = 1;
        Self {
            last: glsl,
            glsl,
            known: HashMap::new(),
            bits: HashMap::new(),
            aligned: HashMap::new(),
            capabilities: vec![Capability::Shader, Capability::Int64],
            decorations: Vec::new(),
            globals: Vec::new(),
            code: Vec::new(),
            label: 0,
            interface: Vec::new(),
        }
    }

    /// Completes the module, whose entry point is `main`.
    pub(crate) fn finish(mut self, main: Word, threads: [u32; 3], controls: &Features) -> Vec<u32> {
        let modes = self.float_controls(controls);
        let needs = |any: &[Capability]| any.iter().any(|one| self.capabilities.contains(one));
        let model = match needs(&[Capability::PhysicalStorageBufferAddresses]) {
            true => AddressingModel::PhysicalStorageBuffer64,
            false => AddressingModel::Logical,
        };
        let mut words = vec![spirv::MAGIC_NUMBER, VERSION, 0, self.last + 1, 0];
        let module = &mut words;
        for capability in &self.capabilities {
            put(module, Op::Capability, [*capability as Word]);
        }
        for (_, extension) in EXTENSIONS.iter().filter(|(of, _)| needs(of)) {
            put(module, Op::Extension, text(extension));
        }
        let glsl = [self.glsl].into_iter().chain(text("GLSL.std.450"));
        put(module, Op::ExtInstImport, glsl);
        let models = [model as Word, MemoryModel::GLSL450 as Word];
        put(module, Op::MemoryModel, models);
        let entry = [ExecutionModel::GLCompute as Word, main].into_iter();
        let entry = entry.chain(text("main")).chain(self.interface);
        put(module, Op::EntryPoint, entry);
        let size = [main, ExecutionMode::LocalSize as Word].into_iter();
        put(module, Op::ExecutionMode, size.chain(threads));
        for (mode, width) in modes {
            put(module, Op::ExecutionMode, [main, mode as Word, width]);
        }
        for part in [self.decorations, self.globals, self.code] {
            module.extend(part);
        }
        words
    }

    /// Returns the modes of floats, with their widths.
    fn float_controls(&mut self, given: &Features) -> Vec<(ExecutionMode, Word)> {
        let f64 = self.capabilities.contains(&Capability::Float64);
        let (signs, subnormals) = (
            (
                Capability::SignedZeroInfNanPreserve,
                ExecutionMode::SignedZeroInfNanPreserve,
            ),
            (Capability::DenormPreserve, ExecutionMode::DenormPreserve),
        );
        let modes = [
            (given.preserve_f32, signs, 32),
            (given.preserve_f64 && f64, signs, 64),
            (given.subnormals_f32, subnormals, 32),
            (given.subnormals_f64 && f64, subnormals, 64),
        ];
        let modes = modes.into_iter().filter(|(on, ..)| *on);
        let modes = modes.map(|(_, (capability, mode), width)| {
            // Part of SPIR-V since 1.4.
            self.needs(capability);
            (mode, width)
        });
        modes.collect()
    }

    /// Declares a capability of the module.
    pub(crate) fn needs(&mut self, capability: Capability) {
        if !self.capabilities.contains(&capability) {
            self.capabilities.push(capability);
        }
    }

    /// Returns a new id.
    pub(crate) fn id(&mut self) -> Word {
        self.last += 1;
        self.last
    }

    /// Returns the label of the open block.
    pub(crate) fn label(&self) -> Word {
        self.label
    }
}

/// Types and constants.
impl Emit {
    /// Returns the type with these operands, which the module has once.
    fn type_of(&mut self, op: Op, operands: &[Word]) -> Word {
        self.unique(op, operands, 0)
    }

    /// Returns the type or constant with these operands. `before` of them precede its id.
    fn unique(&mut self, op: Op, operands: &[Word], before: usize) -> Word {
        let mut key = [0; OPERANDS_MAX];
        key[..operands.len()].copy_from_slice(operands);
        if let Some(found) = self.known.get(&(op, key)) {
            return *found;
        }
        let id = self.id();
        self.known.insert((op, key), id);
        let (first, rest) = operands.split_at(before);
        let operands = first.iter().chain([&id]).chain(rest);
        put(&mut self.globals, op, operands.copied());
        id
    }

    /// Adds a type that is no other one, even with the same operands.
    fn new_type(&mut self, op: Op, operands: &[Word]) -> Word {
        let id = self.id();
        let operands = [id].into_iter().chain(operands.iter().copied());
        put(&mut self.globals, op, operands);
        id
    }

    /// Returns the type of values. Integers have no sign; halves are their bits.
    pub(crate) fn of(&mut self, dtype: DType) -> Word {
        let bits = 8 * dtype.size() as Word;
        match dtype {
            DType::Bool => self.bool(),
            DType::F64 => {
                self.needs(Capability::Float64);
                self.type_of(Op::TypeFloat, &[bits])
            }
            DType::F32 => self.type_of(Op::TypeFloat, &[bits]),
            _ => self.type_of(Op::TypeInt, &[bits, 0]),
        }
    }

    /// Returns the type of elements in memory: a bool is a byte.
    pub(crate) fn stored(&mut self, dtype: DType) -> Word {
        match dtype {
            DType::Bool => self.of(DType::U8),
            _ => self.of(dtype),
        }
    }

    pub(crate) fn bool(&mut self) -> Word {
        self.type_of(Op::TypeBool, &[])
    }

    pub(crate) fn void(&mut self) -> Word {
        self.type_of(Op::TypeVoid, &[])
    }

    pub(crate) fn vector(&mut self, of: Word, lanes: u32) -> Word {
        self.type_of(Op::TypeVector, &[of, lanes])
    }

    pub(crate) fn array(&mut self, of: Word, len: u32) -> Word {
        let length = self.u32(len);
        self.type_of(Op::TypeArray, &[of, length])
    }

    pub(crate) fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        self.type_of(Op::TypePointer, &[class as Word, to])
    }

    /// Returns a new type: a block of one runtime array, for a storage buffer.
    pub(crate) fn buffer_block(&mut self, element: Word, bytes: u32) -> Word {
        let array = self.new_type(Op::TypeRuntimeArray, &[element]);
        self.block_of(array, bytes)
    }

    /// Returns a new type: a block of `u64` words.
    pub(crate) fn word_block(&mut self, words: u32) -> Word {
        let (word, length) = (self.of(DType::U64), self.u32(words));
        let array = self.new_type(Op::TypeArray, &[word, length]);
        self.block_of(array, size_of::<u64>() as u32)
    }

    /// Returns a new type: a block of an array, whose elements are `stride` bytes apart.
    fn block_of(&mut self, array: Word, stride: u32) -> Word {
        self.decorate(array, Decoration::ArrayStride, &[stride]);
        let block = self.new_type(Op::TypeStruct, &[array]);
        self.decorate(block, Decoration::Block, &[]);
        // The offset of the first member.
        let offset = [block, 0, Decoration::Offset as Word, 0];
        put(&mut self.decorations, Op::MemberDecorate, offset);
        block
    }

    pub(crate) fn decorate(&mut self, id: Word, by: Decoration, numbers: &[u32]) {
        let operands = [id, by as Word].into_iter().chain(numbers.iter().copied());
        put(&mut self.decorations, Op::Decorate, operands);
    }

    /// Returns the constant with these bits.
    pub(crate) fn constant(&mut self, dtype: DType, bits: u64) -> Word {
        let of = self.of(dtype);
        let (low, high) = (bits as Word, (bits >> 32) as Word);
        let id = match (dtype, dtype.size()) {
            (DType::Bool, _) if bits == 0 => self.unique(Op::ConstantFalse, &[of], 1),
            (DType::Bool, _) => self.unique(Op::ConstantTrue, &[of], 1),
            (_, 8) => self.unique(Op::Constant, &[of, low, high], 1),
            _ => self.unique(Op::Constant, &[of, low], 1),
        };
        self.bits.insert(id, bits);
        id
    }

    /// Returns the bits of a constant; `None` for other values.
    pub(crate) fn bits_of(&self, id: Word) -> Option<u64> {
        self.bits.get(&id).copied()
    }

    pub(crate) fn u32(&mut self, value: u32) -> Word {
        self.constant(DType::U32, value.into())
    }

    pub(crate) fn u64(&mut self, value: u64) -> Word {
        self.constant(DType::U64, value)
    }

    /// Returns the value of a type whose bits are all zero.
    pub(crate) fn null(&mut self, of: Word) -> Word {
        self.unique(Op::ConstantNull, &[of], 1)
    }
}
