//! Instructions for 256-bit and 512-bit registers, register allocation, and constants.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::NodeId;
use crate::level::Level;
use crate::slot::SlotId;

/// There are too few registers, or the encoder refuses an instruction.
#[derive(Debug)]
pub(crate) struct CannotEncode;

impl From<IcedError> for CannotEncode {
    fn from(_: IcedError) -> Self {
        CannotEncode
    }
}

/// The codes of an instruction with 512-bit and with 256-bit registers.
pub(super) type Wide = (Code, Code);

/// A label in the code.
pub(super) type Label = usize;

/// The number of a vector register.
pub(super) type Vector = u8;

/// The last operand of an instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Source {
    Vector(Vector),
    /// A constant of the pool.
    Pool(u32),
}

/// The place of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Place {
    /// Not computed, or no longer needed.
    Nowhere,
    Vector(Vector),
    /// In a register for the whole loop.
    Fixed(Vector),
    Pool(u32),
}

/// The arguments: the slots, the number of lanes, and the constants.
pub(super) const SLOTS: Register = Register::RDI;
pub(super) const LANES: Register = Register::RSI;
pub(super) const POOL: Register = Register::RDX;
/// The current lane, and the end of the whole vectors.
pub(super) const LANE: Register = Register::RAX;
pub(super) const END: Register = Register::RCX;
/// Addresses of tiles. The callee must save those from the fifth on.
pub(super) const POINTERS: [Register; 9] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
];
pub(super) const POINTERS_CALLER_SAVED: usize = 4;

/// The place of folds in their blocks, in bytes. The callee must save it, too.
pub(super) const FOLD: Register = Register::R15;

/// With 256 bits there are no mask registers: this register is the mask of the last lanes.
pub(super) const LAST_LANES: Vector = 15;

/// Precedes the constants of 256-bit loops: eight times all bits, then eight times none. An unaligned load of it
/// gives [`LAST_LANES`].
const MASKS: usize = 16;

/// The place of partial results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Partials {
    /// In the block, at the place that [`FOLD`] gives.
    Memory,
    /// In registers: those of this vector of the block.
    Registers(usize),
}

pub(super) struct Assembler {
    pub(super) is_512: bool,
    encoder: Encoder,
    /// Bytes of the code so far.
    length: usize,
    /// Whether the encoder has refused an instruction.
    is_refused: bool,
    pool: Vec<u32>,
    pub(super) free: Vec<Vector>,
    pub(super) places: Vec<Place>,
    /// The number of reads left of each node.
    pub(super) uses: Vec<u32>,
    /// The register with the address of each slot.
    pub(super) pointers: Vec<(SlotId, Register)>,
    /// The current place of the partial results, and the registers they may be in: for each fold, as many as a block
    /// has vectors.
    pub(super) partials: Partials,
    pub(super) partial: Vec<Vector>,
    /// The offset in bytes of the vector that is computed from the current lane.
    pub(super) byte_offset: i64,
    /// Whether the code is for the last lanes, which do not fill a vector.
    pub(super) is_tail: bool,
    /// Whether stores bypass the caches.
    pub(super) streams: bool,
    /// The position of each label once it is known, and the branches to it: the position after each.
    labels: Vec<Option<usize>>,
    branches: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn new(level: Level, streams: bool) -> Option<Self> {
        let is_512 = match level {
            Level::Base => return None,
            Level::V3 => false,
            Level::V4 => true,
        };
        Some(Self {
            is_512,
            encoder: Encoder::try_new(64).ok()?,
            length: 0,
            is_refused: false,
            pool: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            uses: Vec::new(),
            pointers: Vec::new(),
            partials: Partials::Memory,
            partial: Vec::new(),
            byte_offset: 0,
            is_tail: false,
            streams,
            labels: Vec::new(),
            branches: Vec::new(),
        })
    }

    /// Returns the number of lanes of a vector.
    pub(super) fn width(&self) -> i32 {
        if self.is_512 { 16 } else { 8 }
    }

    /// Returns the position-independent code and its constants.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, Box<[u32]>), CannotEncode> {
        let mut code = self.encoder.take_buffer();
        for (end, label) in self.branches {
            let target = self.labels[label].ok_or(CannotEncode)?;
            let distance = target as i32 - end as i32;
            code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        if self.is_refused {
            return Err(CannotEncode);
        }
        let constants = match self.is_512 {
            true => self.pool,
            false => {
                let masks = (0..MASKS).map(|lane| if lane < 8 { u32::MAX } else { 0 });
                let copies = self.pool.iter().flat_map(|bits| [*bits; 8]);
                masks.chain(copies).collect()
            }
        };
        Ok((code, constants.into_boxed_slice()))
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        self.labels.len() - 1
    }

    /// Places the label at the next instruction.
    pub(super) fn at(&mut self, label: Label) {
        self.labels[label] = Some(self.length);
    }

    /// Emits a branch to a label that may be placed later.
    pub(super) fn branch(&mut self, code: Code, to: Label) -> Result<(), CannotEncode> {
        self.push(Instruction::with_branch(code, 0)?);
        self.branches.push((self.length, to));
        Ok(())
    }

    pub(super) fn push(&mut self, instruction: Instruction) {
        match self.encoder.encode(&instruction, self.length as u64) {
            Ok(bytes) => self.length += bytes,
            Err(_) => self.is_refused = true,
        }
    }

    pub(super) fn wide(&self, (of_512, of_256): Wide) -> Code {
        if self.is_512 { of_512 } else { of_256 }
    }

    pub(super) fn vector(&self, register: Vector) -> Register {
        let first = if self.is_512 {
            Register::ZMM0
        } else {
            Register::YMM0
        };
        first + u32::from(register)
    }

    /// Allocates a register.
    pub(super) fn take(&mut self) -> Result<Vector, CannotEncode> {
        self.free.pop().ok_or(CannotEncode)
    }

    pub(super) fn give(&mut self, register: Vector) {
        debug_assert!(!self.free.contains(&register));
        self.free.push(register);
    }

    /// Returns the index of a constant in the pool.
    pub(super) fn constant(&mut self, bits: u32) -> u32 {
        let known = self.pool.iter().position(|found| *found == bits);
        known.unwrap_or_else(|| {
            self.pool.push(bits);
            self.pool.len() - 1
        }) as u32
    }

    pub(super) fn bits_of(&self, index: u32) -> u32 {
        self.pool[index as usize]
    }

    pub(super) fn pool(&mut self, value: f32) -> Source {
        Source::Pool(self.constant(value.to_bits()))
    }

    /// Returns a constant as an operand with the same value in every lane.
    pub(super) fn pooled(&self, index: u32) -> MemoryOperand {
        let index = i64::from(index);
        match self.is_512 {
            true => MemoryOperand::new(POOL, Register::None, 1, 4 * index, 1, true, Register::None),
            false => MemoryOperand::with_base_displ(POOL, 4 * MASKS as i64 + 32 * index),
        }
    }

    /// Returns the place of a node as an operand.
    pub(super) fn source(&self, id: NodeId) -> Result<Source, CannotEncode> {
        match self.places[usize::from(id)] {
            Place::Vector(register) | Place::Fixed(register) => Ok(Source::Vector(register)),
            Place::Pool(index) => Ok(Source::Pool(index)),
            Place::Nowhere => Err(CannotEncode),
        }
    }

    /// Counts one read of a node; its register is freed after the last one.
    pub(super) fn release_use(&mut self, id: NodeId) {
        let index = usize::from(id);
        self.uses[index] -= 1;
        if self.uses[index] == 0
            && let Place::Vector(register) = self.places[index]
        {
            self.places[index] = Place::Nowhere;
            self.give(register);
        }
    }
}

pub(super) const BROADCAST: Wide = (
    Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
    Code::VEX_Vbroadcastss_ymm_m32,
);
