//! Instructions of either width, registers, and constants.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::NodeId;
use crate::level::Level;
use crate::slot::SlotId;

/// There are no more registers, or the encoder refuses an instruction.
#[derive(Debug)]
pub(crate) struct CannotEncode;

impl From<IcedError> for CannotEncode {
    fn from(_: IcedError) -> Self {
        CannotEncode
    }
}

/// The codes of an instruction with 512-bit and with 256-bit registers.
pub(super) type Wide = (Code, Code);

/// A place in the code.
pub(super) type Label = usize;

/// A vector register, by its number.
pub(super) type Vector = u8;

/// Where an instruction finds its last operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Source {
    Vector(Vector),
    /// A constant.
    Pool(u32),
}

/// Where a node is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Place {
    /// It is not computed, or no longer needed.
    Nowhere,
    Vector(Vector),
    /// In a register for the whole loop.
    Fixed(Vector),
    Pool(u32),
}

/// Arguments: the slots, how many lanes, and the constants.
pub(super) const SLOTS: Register = Register::RDI;
pub(super) const LANES: Register = Register::RSI;
pub(super) const POOL: Register = Register::RDX;
/// The lane, and the lane that the whole vectors end at.
pub(super) const LANE: Register = Register::RAX;
pub(super) const END: Register = Register::RCX;
/// For where tiles lie. Those from the fifth on are the caller's and are saved.
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

/// Where folds are in their blocks, in bytes. The caller's as well.
pub(super) const FOLD: Register = Register::R15;

/// Of 256 bits: the mask of the last lanes, as there are no mask registers.
pub(super) const LAST_LANES: Vector = 15;

/// In front of the constants of 256-bit loops: eight times all bits and eight times none, of which a part makes
/// [`LAST_LANES`].
const MASKS: usize = 16;

/// Where partial results are now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Partials {
    /// In the block, where the register for it says.
    Memory,
    /// In registers, those of this vector of the block.
    Registers(usize),
}

pub(super) struct Assembler {
    pub(super) is_512: bool,
    encoder: Encoder,
    /// Bytes of the code so far.
    length: usize,
    /// Has the encoder refused an instruction?
    is_refused: bool,
    pool: Vec<u32>,
    pub(super) free: Vec<Vector>,
    pub(super) places: Vec<Place>,
    /// How often each node is still read.
    pub(super) uses: Vec<u32>,
    /// Which register holds the address of a slot.
    pub(super) pointers: Vec<(SlotId, Register)>,
    /// Where partial results of folds are now, and those that are in registers: of each fold as many as a block has
    /// vectors.
    pub(super) partials: Partials,
    pub(super) partial: Vec<Vector>,
    /// How many bytes behind the lane that we are at the vector begins that is computed.
    pub(super) byte_offset: i64,
    /// Are these the last lanes, which do not fill a vector?
    pub(super) is_tail: bool,
    /// Is what is written not to go into the caches?
    pub(super) streams: bool,
    /// Where each label is, once it is known, and the branches to it: where their distance ends.
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

    /// Lanes of a vector.
    pub(super) fn width(&self) -> i32 {
        if self.is_512 { 16 } else { 8 }
    }

    /// The code, for any address, and its constants.
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

    /// The next instruction is at the label.
    pub(super) fn at(&mut self, label: Label) {
        self.labels[label] = Some(self.length);
    }

    /// A branch to a label, wherever that will be.
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

    /// A register that nobody uses.
    pub(super) fn take(&mut self) -> Result<Vector, CannotEncode> {
        self.free.pop().ok_or(CannotEncode)
    }

    pub(super) fn give(&mut self, register: Vector) {
        debug_assert!(!self.free.contains(&register));
        self.free.push(register);
    }

    /// The place of a constant.
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

    /// Where a constant is, as the operand of an instruction: in every lane.
    pub(super) fn pooled(&self, index: u32) -> MemoryOperand {
        let index = i64::from(index);
        match self.is_512 {
            true => MemoryOperand::new(POOL, Register::None, 1, 4 * index, 1, true, Register::None),
            false => MemoryOperand::with_base_displ(POOL, 4 * MASKS as i64 + 32 * index),
        }
    }

    /// Where a node is.
    pub(super) fn source(&self, id: NodeId) -> Result<Source, CannotEncode> {
        match self.places[usize::from(id)] {
            Place::Vector(register) | Place::Fixed(register) => Ok(Source::Vector(register)),
            Place::Pool(index) => Ok(Source::Pool(index)),
            Place::Nowhere => Err(CannotEncode),
        }
    }

    /// A node has been read once more: its register is free after the last time.
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
