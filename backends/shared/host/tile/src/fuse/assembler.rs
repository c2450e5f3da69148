//! Instructions for 256-bit and 512-bit registers, register allocation, and constants.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, OpKind, Register};

use super::codes::{BROADCAST, FILL, LOAD, LOAD_LAST, STORE, STORE_LAST, STREAM, Wide};
use super::{Node, NodeId, Recipe};
use crate::slot::SlotId;
use millstream_loops::level::Level;

/// The number of a vector register.
pub(super) type Vector = u8;

/// An operand of a vector instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Operand {
    Vector(Vector),
    /// A constant of the pool, the same in every lane.
    Pool(u32),
    Memory(MemoryOperand),
    Immediate(u8),
    /// A register that is no vector of the loop.
    Register(Register),
    /// The lanes to be written, in a mask register; it is an attribute of the instruction.
    Lanes(Register),
}

impl From<Vector> for Operand {
    fn from(register: Vector) -> Self {
        Self::Vector(register)
    }
}

/// The arguments: the slots, the number of lanes, and the constants.
pub(super) const SLOTS: Register = Register::RDI;
pub(super) const LANES: Register = Register::RSI;
pub(super) const POOL: Register = Register::RDX;
/// The current lane, and the end of the whole blocks.
pub(super) const LANE: Register = Register::RAX;
pub(super) const END: Register = Register::RCX;
/// Addresses of tiles. The callee must save those from the fifth on.
pub(super) const POINTERS: [Register; 10] = [
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
pub(super) const POINTERS_CALLER_SAVED: usize = 4;

/// The mask of the last lanes, which do not fill a vector. With 256 bits there are no mask registers: then it is this
/// vector.
const LAST_BITS: Register = Register::K1;
const LAST_LANES: Vector = 15;

/// Precede the constants of 256-bit loops: all bits for every lane of a block, then none for those of a vector. An
/// unaligned load of them gives [`LAST_LANES`].
const MASK_ONES: usize = super::SIDE_BY_SIDE;
const MASKS: usize = MASK_ONES + 8;

/// What is assembled. If there are too few registers, or the encoder refuses an instruction, it goes on, and `finish`
/// returns nothing.
pub(super) struct Assembler<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) is_512: bool,
    encoder: Encoder,
    /// Bytes of the code so far.
    pub(super) length: usize,
    is_refused: bool,
    pool: Vec<u32>,
    pub(super) free: Vec<Vector>,
    /// Registers that are free again after the current node.
    pub(super) temporary: Vec<Vector>,
    /// The place of each node, if it has one now.
    pub(super) places: Vec<Option<Operand>>,
    /// The number of reads left of each node.
    pub(super) uses: Vec<u32>,
    /// The register with the address of each slot.
    pub(super) pointers: Vec<(SlotId, Register)>,
    /// The registers with the partial results of each fold: one for each vector of a block.
    pub(super) partials: Vec<Vec<Vector>>,
    /// The vector of the block that is computed.
    pub(super) vector_of_block: usize,
    /// Whether the code is for the last lanes, which do not fill a block.
    pub(super) is_tail: bool,
    /// Whether stores bypass the caches.
    streams: bool,
    /// The position after each branch, and that of its target.
    branches: Vec<(usize, usize)>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(recipe: &'a Recipe, level: Level, streams: bool) -> Option<Self> {
        let is_512 = match level {
            Level::Base => return None,
            Level::V3 => false,
            Level::V4 => true,
        };
        let registers = if is_512 { 0..32 } else { 0..LAST_LANES };
        Some(Self {
            recipe,
            is_512,
            encoder: Encoder::try_new(64).ok()?,
            length: 0,
            is_refused: false,
            pool: Vec::new(),
            free: registers.rev().collect(),
            temporary: Vec::new(),
            places: Vec::new(),
            uses: Vec::new(),
            pointers: Vec::new(),
            partials: Vec::new(),
            vector_of_block: 0,
            is_tail: false,
            streams,
            branches: Vec::new(),
        })
    }

    /// Returns the number of lanes of a vector.
    pub(super) fn width(&self) -> usize {
        if self.is_512 { 16 } else { 8 }
    }

    /// There is no code for this.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Returns the position-independent code and its constants.
    pub(super) fn finish(mut self) -> Option<(Vec<u8>, Box<[u32]>)> {
        let mut code = self.encoder.take_buffer();
        for (end, target) in self.branches {
            let distance = target as i32 - end as i32;
            code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        let constants = match self.is_512 {
            true => self.pool,
            false => {
                let masks = (0..MASKS).map(|lane| if lane < MASK_ONES { u32::MAX } else { 0 });
                let copies = self.pool.iter().flat_map(|bits| [*bits; 8]);
                masks.chain(copies).collect()
            }
        };
        (!self.is_refused).then(|| (code, constants.into_boxed_slice()))
    }

    /// Emits a branch, and returns its number for [`Assembler::land`].
    pub(super) fn branch(&mut self, code: Code) -> usize {
        self.push(Instruction::with_branch(code, 0));
        self.branches.push((self.length, 0));
        self.branches.len() - 1
    }

    /// Lets a branch lead to this position.
    pub(super) fn land(&mut self, branch: usize, target: usize) {
        self.branches[branch].1 = target;
    }

    pub(super) fn push(&mut self, instruction: Result<Instruction, IcedError>) {
        let encode = |instruction| self.encoder.encode(&instruction, self.length as u64);
        match instruction.and_then(encode) {
            Ok(bytes) => self.length += bytes,
            Err(_) => self.refuse(),
        }
    }

    /// Emits a vector instruction.
    pub(super) fn emit(&mut self, (of_512, of_256): Wide, operands: &[Operand]) {
        let mut instruction = Instruction::default();
        instruction.set_code(if self.is_512 { of_512 } else { of_256 });
        for (index, operand) in (0..).zip(operands) {
            match *operand {
                Operand::Vector(vector) => instruction.set_op_register(index, self.vector(vector)),
                Operand::Register(register) => instruction.set_op_register(index, register),
                Operand::Memory(memory) => at_memory(&mut instruction, index, memory),
                Operand::Pool(constant) => {
                    at_memory(&mut instruction, index, self.pooled(constant));
                }
                Operand::Immediate(value) => {
                    instruction.set_op_kind(index, OpKind::Immediate8);
                    instruction.set_immediate8(value);
                }
                Operand::Lanes(mask) => instruction.set_op_mask(mask),
            }
        }
        // Loads of some lanes clear the others, so that nothing depends on what was there.
        instruction.set_zeroing_masking(of_512 == LOAD.0 && instruction.has_op_mask());
        self.push(Ok(instruction));
    }

    /// `d = a op b`.
    pub(super) fn three(&mut self, wide: Wide, d: Vector, a: Vector, b: impl Into<Operand>) {
        self.emit(wide, &[d.into(), a.into(), b.into()]);
    }

    fn vector(&self, register: Vector) -> Register {
        match self.is_512 {
            true => Register::ZMM0 + u32::from(register),
            false => Register::YMM0 + u32::from(register),
        }
    }

    /// Allocates a register.
    pub(super) fn take(&mut self) -> Vector {
        if self.free.is_empty() {
            self.refuse();
        }
        self.free.pop().unwrap_or_default()
    }

    pub(super) fn give(&mut self, register: Vector) {
        debug_assert!(self.is_refused || !self.free.contains(&register));
        self.free.push(register);
    }

    /// Returns a constant of the pool.
    pub(super) fn constant(&mut self, bits: u32) -> Operand {
        let known = self.pool.iter().position(|found| *found == bits);
        Operand::Pool(known.unwrap_or_else(|| {
            self.pool.push(bits);
            self.pool.len() - 1
        }) as u32)
    }

    pub(super) fn pool(&mut self, value: f32) -> Operand {
        self.constant(value.to_bits())
    }

    /// Returns `true` if an operand is a constant other than NaN.
    pub(super) fn is_number(&self, operand: Operand) -> bool {
        matches!(operand, Operand::Pool(index) if !f32::from_bits(self.pool[index as usize]).is_nan())
    }

    /// Returns a constant as an operand with the same value in every lane.
    fn pooled(&self, index: u32) -> MemoryOperand {
        let index = i64::from(index);
        match self.is_512 {
            true => MemoryOperand::new(POOL, Register::None, 1, 4 * index, 1, true, Register::None),
            false => MemoryOperand::with_base_displ(POOL, 4 * MASKS as i64 + 32 * index),
        }
    }

    /// Loads a constant into every lane of a new register.
    pub(super) fn filled(&mut self, constant: Operand) -> Vector {
        let d = self.take();
        if let Operand::Pool(index) = constant {
            let mut from = self.pooled(index);
            from.is_broadcast = false;
            self.emit(FILL, &[d.into(), Operand::Memory(from)]);
        }
        d
    }

    /// Loads a value into every lane of a new register.
    pub(super) fn filled_with(&mut self, value: f32) -> Vector {
        let constant = self.pool(value);
        self.filled(constant)
    }

    /// Loads the scalar of a slot into every lane of a new register.
    pub(super) fn broadcast(&mut self, slot: SlotId) -> Vector {
        let d = self.take();
        self.address(END, slot);
        let scalar = Operand::Memory(MemoryOperand::with_base(END));
        self.emit(BROADCAST, &[d.into(), scalar]);
        d
    }

    /// Returns the place of a node as an operand.
    pub(super) fn source(&self, id: NodeId) -> Operand {
        debug_assert!(
            self.places[usize::from(id)].is_some(),
            "operands come first"
        );
        self.places[usize::from(id)].unwrap_or(Operand::Vector(0))
    }

    /// Returns a node in a register, which lasts until the current node is computed.
    pub(super) fn in_register(&mut self, id: NodeId) -> Vector {
        match self.source(id) {
            Operand::Vector(register) => register,
            constant => {
                let register = self.filled(constant);
                self.temporary.push(register);
                register
            }
        }
    }

    /// Counts one read of a node; its register is freed after the last one.
    pub(super) fn release_use(&mut self, id: NodeId) {
        let index = usize::from(id);
        self.uses[index] -= 1;
        let is_fixed = matches!(self.recipe.nodes[index], Node::Scalar(_) | Node::Const(_));
        if self.uses[index] == 0
            && !is_fixed
            && let Some(Operand::Vector(register)) = self.places[index].take()
        {
            self.give(register);
        }
    }

    /// Loads a vector of a tile, of which only the existing lanes are read; the others become zero.
    pub(super) fn load(&mut self, to: Vector, slot: SlotId) {
        let from = self.lanes_at(slot);
        match (self.is_tail, self.is_512) {
            (false, _) => self.emit(LOAD, &[to.into(), from]),
            (true, true) => self.emit(LOAD, &[to.into(), from, Operand::Lanes(LAST_BITS)]),
            (true, false) => self.emit(LOAD_LAST, &[to.into(), LAST_LANES.into(), from]),
        }
    }

    /// Stores the existing lanes of a vector; the others keep their memory.
    pub(super) fn store(&mut self, slot: SlotId, from: Vector) {
        let to = self.lanes_at(slot);
        match (self.is_tail, self.is_512) {
            (false, _) if self.streams => self.emit(STREAM, &[to, from.into()]),
            (false, _) => self.emit(STORE, &[to, from.into()]),
            (true, true) => self.emit(STORE, &[to, from.into(), Operand::Lanes(LAST_BITS)]),
            (true, false) => self.emit(STORE_LAST, &[to, LAST_LANES.into(), from.into()]),
        }
    }

    /// Returns the mask of the last lanes.
    pub(super) fn last_lanes(&self) -> Operand {
        match self.is_512 {
            true => Operand::Lanes(LAST_BITS),
            false => Operand::Vector(LAST_LANES),
        }
    }

    /// Builds the mask of the last lanes, whose number is in `LANES`; a vector has at most as many.
    pub(super) fn mask_the_last(&mut self) {
        let (end, lanes) = (Register::ECX, Register::ESI);
        if self.is_512 {
            self.push(Instruction::with2(Code::Mov_r32_imm32, end, -1_i32));
            self.push(Instruction::with3(
                Code::VEX_Bzhi_r32_rm32_r32,
                end,
                end,
                lanes,
            ));
            self.push(Instruction::with2(Code::VEX_Kmovw_kr_r32, LAST_BITS, end));
        } else {
            // The mask begins this many elements before the first zero.
            self.push(Instruction::with2(Code::Mov_r64_rm64, END, LANES));
            self.push(Instruction::with1(Code::Neg_rm64, END));
            let none = (MASK_ONES * size_of::<u32>()) as i64;
            let from = MemoryOperand::new(POOL, END, 4, none, 1, false, Register::None);
            self.emit(LOAD, &[LAST_LANES.into(), Operand::Memory(from)]);
        }
    }

    /// Loads the address in a slot.
    pub(super) fn address(&mut self, to: Register, slot: SlotId) {
        let from = MemoryOperand::with_base_displ(SLOTS, 8 * i64::from(slot));
        self.push(Instruction::with2(Code::Mov_r64_rm64, to, from));
    }

    /// Returns the current vector of a tile whose address has a register.
    pub(super) fn lanes_at(&self, slot: SlotId) -> Operand {
        let found = self.pointers.iter().find(|(known, _)| *known == slot);
        let base = found.map_or(SLOTS, |(_, base)| *base);
        let offset = (4 * self.vector_of_block * self.width()) as i64;
        Operand::Memory(MemoryOperand::new(
            base,
            LANE,
            4,
            offset,
            1,
            false,
            Register::None,
        ))
    }
}

fn at_memory(instruction: &mut Instruction, index: u32, memory: MemoryOperand) {
    instruction.set_op_kind(index, OpKind::Memory);
    instruction.set_memory_base(memory.base);
    instruction.set_memory_index(memory.index);
    instruction.set_memory_index_scale(memory.scale);
    instruction.set_memory_displ_size(memory.displ_size);
    instruction.set_memory_displacement64(memory.displacement as u64);
    instruction.set_is_broadcast(memory.is_broadcast);
}
