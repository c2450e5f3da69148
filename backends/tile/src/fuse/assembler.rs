//! Instructions of either width, registers, constants, and the loop around them.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::{Node, NodeId, Recipe};
use crate::level::Level;
use crate::plan::SlotId;

/// There are no more registers, or the encoder refuses an instruction.
#[derive(Debug)]
pub(crate) struct Full;

impl From<IcedError> for Full {
    fn from(_: IcedError) -> Self {
        Full
    }
}

/// The codes of an instruction with 512-bit and with 256-bit registers.
pub(super) type Wide = (Code, Code);

/// A place in the code.
type Label = usize;

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
const POINTERS: [Register; 10] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const POINTERS_FREE: usize = 4;

/// Of 256 bits: the mask of the last lanes, as there are no mask registers.
pub(super) const LAST_LANES: Vector = 15;

/// In front of the constants of 256-bit loops: eight times all bits and eight times none, of which a part makes [`LAST_LANES`].
const MASKS: usize = 16;

pub(super) struct Assembler {
    pub(super) is_512: bool,
    encoder: Encoder,
    /// Bytes of the code so far.
    length: usize,
    /// Has the encoder refused an instruction?
    is_refused: bool,
    pool: Vec<u32>,
    free: Vec<Vector>,
    pub(super) places: Vec<Place>,
    /// How often each node is still read.
    uses: Vec<u32>,
    /// Which register holds the address of a slot.
    pub(super) pointers: Vec<(SlotId, Register)>,
    /// What each fold has so far, in every lane its own.
    pub(super) partial: Vec<Vector>,
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
            partial: Vec::new(),
            is_tail: false,
            streams,
            labels: Vec::new(),
            branches: Vec::new(),
        })
    }

    /// Lanes of a vector.
    fn width(&self) -> i32 {
        if self.is_512 { 16 } else { 8 }
    }

    /// The whole function.
    pub(super) fn function(&mut self, recipe: &Recipe) -> Result<(), Full> {
        self.take_pointers(recipe)?;
        let saved: Vec<Register> = self
            .pointers
            .iter()
            .skip(POINTERS_FREE)
            .map(|(_, register)| *register)
            .collect();
        for &register in &saved {
            self.push(Instruction::with1(Code::Push_r64, register)?);
        }
        for (slot, register) in self.pointers.clone() {
            self.address(register, slot)?;
        }
        self.free = match self.is_512 {
            true => (0..32).rev().collect(),
            false => (0..LAST_LANES).rev().collect(),
        };
        let fixed = self.scalars(recipe)?;
        self.begin_folds(recipe)?;
        let free = self.free.clone();

        let width = self.width();
        let (again, rest, end) = (self.label(), self.label(), self.label());
        let zero = (Register::EAX, Register::EAX);
        self.push(Instruction::with2(Code::Xor_r32_rm32, zero.0, zero.1)?);
        self.push(Instruction::with2(Code::Mov_r64_rm64, END, LANES)?);
        self.push(Instruction::with2(Code::And_rm64_imm8, END, -width)?);
        self.branch(Code::Je_rel32_64, rest)?;
        self.vectors(recipe, &fixed, again)?;

        self.at(rest);
        self.push(Instruction::with2(Code::Sub_r64_rm64, LANES, LANE)?);
        self.branch(Code::Je_rel32_64, end)?;
        self.free = free;
        self.mask_of_the_last()?;
        self.is_tail = true;
        self.body(recipe, &fixed)?;

        self.at(end);
        self.end_folds(recipe)?;
        self.push(Instruction::with(Code::VEX_Vzeroupper));
        for &register in saved.iter().rev() {
            self.push(Instruction::with1(Code::Pop_r64, register)?);
        }
        self.push(Instruction::with(Code::Retnq));
        Ok(())
    }

    /// The loop over whole vectors.
    fn vectors(&mut self, recipe: &Recipe, fixed: &[Place], again: Label) -> Result<(), Full> {
        self.at(again);
        self.body(recipe, fixed)?;
        let width = self.width();
        self.push(Instruction::with2(Code::Add_rm64_imm8, LANE, width)?);
        self.push(Instruction::with2(Code::Cmp_r64_rm64, LANE, END)?);
        self.branch(Code::Jb_rel32_64, again)?;
        Ok(())
    }

    /// The code, for any address, and its constants.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, Box<[u32]>), Full> {
        let mut code = self.encoder.take_buffer();
        for (end, label) in self.branches {
            let target = self.labels[label].ok_or(Full)?;
            let distance = target as i32 - end as i32;
            code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        if self.is_refused {
            return Err(Full);
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

    fn take_pointers(&mut self, recipe: &Recipe) -> Result<(), Full> {
        let read = recipe.nodes.iter().filter_map(|node| match node {
            Node::Lanes(slot) => Some(*slot),
            _ => None,
        });
        let written = recipe.outputs.iter().map(|(_, slot)| *slot);
        for slot in read.chain(written) {
            if self.pointers.iter().any(|(taken, _)| *taken == slot) {
                continue;
            }
            let register = POINTERS.get(self.pointers.len()).ok_or(Full)?;
            self.pointers.push((slot, *register));
        }
        Ok(())
    }

    /// Puts scalars into every lane of registers that stay.
    fn scalars(&mut self, recipe: &Recipe) -> Result<Vec<Place>, Full> {
        let mut places = vec![Place::Nowhere; recipe.nodes.len()];
        for (node, place) in recipe.nodes.iter().zip(&mut places) {
            match *node {
                Node::Scalar(slot) => {
                    let register = self.take()?;
                    self.address(END, slot)?;
                    let scalar = MemoryOperand::with_base(END);
                    let (to, broadcast) = (self.vector(register), self.wide(BROADCAST));
                    self.push(Instruction::with2(broadcast, to, scalar)?);
                    *place = Place::Fixed(register);
                }
                Node::Const(value) => *place = Place::Pool(self.constant(value.to_bits())),
                _ => {}
            }
        }
        Ok(places)
    }

    /// All nodes for the lanes of one vector, each as late as it can be, and what is written.
    fn body(&mut self, recipe: &Recipe, fixed: &[Place]) -> Result<(), Full> {
        self.places = fixed.to_vec();
        self.uses = vec![0; recipe.nodes.len()];
        for node in &recipe.nodes {
            for operand in node.operands() {
                self.uses[usize::from(operand)] += 1;
            }
        }
        let outputs = recipe.outputs.iter().map(|(node, _)| node);
        for node in outputs.chain(recipe.folds.iter().map(|(_, node, _)| node)) {
            self.uses[usize::from(*node)] += 1;
        }
        for (id, node) in recipe.nodes.iter().enumerate() {
            if self.uses[id] == 0 {
                continue;
            }
            for operand in node.operands() {
                self.bring(recipe, operand)?;
            }
            if let Some(register) = self.node(*node)? {
                self.places[id] = Place::Vector(register);
                let outputs = recipe.outputs.iter();
                for (_, slot) in outputs.filter(|(written, _)| usize::from(*written) == id) {
                    self.write(*slot, register)?;
                    self.used(id as NodeId);
                }
                for (fold, (op, of, _)) in recipe.folds.iter().enumerate() {
                    if usize::from(*of) == id {
                        self.fold(fold, *op, register)?;
                        self.used(id as NodeId);
                    }
                }
            }
        }
        Ok(())
    }

    fn label(&mut self) -> Label {
        self.labels.push(None);
        self.labels.len() - 1
    }

    /// The next instruction is at the label.
    fn at(&mut self, label: Label) {
        self.labels[label] = Some(self.length);
    }

    /// A branch to a label, wherever that will be.
    fn branch(&mut self, code: Code, to: Label) -> Result<(), Full> {
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
    pub(super) fn take(&mut self) -> Result<Vector, Full> {
        self.free.pop().ok_or(Full)
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
    pub(super) fn source(&self, id: NodeId) -> Result<Source, Full> {
        match self.places[usize::from(id)] {
            Place::Vector(register) | Place::Fixed(register) => Ok(Source::Vector(register)),
            Place::Pool(index) => Ok(Source::Pool(index)),
            Place::Nowhere => Err(Full),
        }
    }

    /// A node has been read once more: its register is free after the last time.
    pub(super) fn used(&mut self, id: NodeId) {
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
