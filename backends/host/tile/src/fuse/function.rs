//! The function: what it saves, and the loops around the nodes.
//!
//! Without folds there is one loop over whole vectors, and the lanes that are left once more, masked. Folds have a
//! block of partial results each, in memory of the stack, which are read and written in turn. Where the nodes are so
//! little work that this is what takes the time, a loop over as many lanes as a block has comes before it, with the
//! partial results in registers.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use millstream_ir::{BinaryOp, UnaryOp};

use super::assembler::{
    Assembler, BROADCAST, CannotEncode, END, FOLD, LANE, LANES, LAST_LANES, Label, POINTERS,
    POINTERS_CALLER_SAVED, Partials, Place,
};
use super::folds::{BLOCK_BYTES, FOLDS_MAX};
use super::{Node, NodeId, Recipe, SIDE_BY_SIDE};

/// More work than this a vector hides the wait for a partial result.
const LIGHT_OPERATIONS: usize = 6;

/// Is there little to do but to read, write and fold?
pub(crate) fn is_light(recipe: &Recipe) -> bool {
    let is_slow = |node: &Node| {
        matches!(
            node,
            Node::Unary(UnaryOp::Exp | UnaryOp::Tanh | UnaryOp::Sqrt, _)
                | Node::Binary(BinaryOp::Div, ..)
        )
    };
    let operations = recipe
        .nodes
        .iter()
        .filter(|node| node.operands().count() > 0);
    operations.count() <= LIGHT_OPERATIONS && !recipe.nodes.iter().any(is_slow)
}

impl Assembler {
    /// The whole function. `unrolls`: with a loop that keeps partial results in registers.
    pub(super) fn function(&mut self, recipe: &Recipe, unrolls: bool) -> Result<(), CannotEncode> {
        self.take_pointers(recipe)?;
        let has_folds = !recipe.folds.is_empty();
        let pointers = self.pointers.iter().map(|(_, register)| *register);
        let mut saved: Vec<Register> = pointers.skip(POINTERS_CALLER_SAVED).collect();
        if has_folds {
            saved.push(FOLD);
        }
        for &register in &saved {
            self.push(Instruction::with1(Code::Push_r64, register)?);
        }
        if has_folds {
            self.push_frame(recipe)?;
        }
        for (slot, register) in self.pointers.clone() {
            self.address(register, slot)?;
        }
        self.free = match self.is_512 {
            true => (0..32).rev().collect(),
            false => (0..LAST_LANES).rev().collect(),
        };
        let fixed = self.scalars(recipe)?;
        let free = self.free.clone();
        let zero = (Register::EAX, Register::EAX);
        self.push(Instruction::with2(Code::Xor_r32_rm32, zero.0, zero.1)?);
        if has_folds {
            self.begin_folds(recipe)?;
        }
        if unrolls {
            self.blocks(recipe, &fixed)?;
            self.free.clone_from(&free);
        }

        let (rest, end) = (self.label(), self.label());
        let width = self.width();
        self.loop_until(-width, rest, |this| {
            this.body(recipe, &fixed)?;
            if has_folds {
                // The lowest byte alone: behind the last lane of a block comes its first.
                let code = Code::Add_rm8_imm8;
                this.push(Instruction::with2(code, Register::R15L, 4 * width)?);
            }
            Ok(width)
        })?;
        self.at(rest);
        self.push(Instruction::with2(Code::Sub_r64_rm64, LANES, LANE)?);
        self.branch(Code::Je_rel32_64, end)?;
        self.free = free;
        self.mask_of_the_last()?;
        self.is_tail = true;
        self.body(recipe, &fixed)?;

        self.at(end);
        if has_folds {
            self.end_folds(recipe)?;
            self.pop_frame(recipe)?;
        }
        self.push(Instruction::with(Code::VEX_Vzeroupper));
        for &register in saved.iter().rev() {
            self.push(Instruction::with1(Code::Pop_r64, register)?);
        }
        self.push(Instruction::with(Code::Retnq));
        Ok(())
    }

    /// The loop over whole blocks, with partial results in registers.
    fn blocks(&mut self, recipe: &Recipe, fixed: &[Place]) -> Result<(), CannotEncode> {
        let (width, rest) = (self.width(), self.label());
        let count = i32::from(SIDE_BY_SIDE) / width;
        self.fill_partials(recipe)?;
        self.loop_until(-i32::from(SIDE_BY_SIDE), rest, |this| {
            for step in 0..count {
                this.partials = Partials::Registers(step as usize);
                this.byte_offset = i64::from(4 * step * width);
                this.body(recipe, fixed)?;
            }
            this.partials = Partials::Memory;
            this.byte_offset = 0;
            Ok(i32::from(SIDE_BY_SIDE))
        })?;
        self.spill_partials(recipe)?;
        self.at(rest);
        Ok(())
    }

    /// A loop from the lane where we are to the last that `mask` lets through; not entered if that is where we are.
    /// `body` answers how many lanes it does.
    fn loop_until(
        &mut self,
        mask: i32,
        none: Label,
        body: impl FnOnce(&mut Self) -> Result<i32, CannotEncode>,
    ) -> Result<(), CannotEncode> {
        let again = self.label();
        self.push(Instruction::with2(Code::Mov_r64_rm64, END, LANES)?);
        self.push(Instruction::with2(Code::And_rm64_imm8, END, mask)?);
        self.push(Instruction::with2(Code::Cmp_r64_rm64, LANE, END)?);
        self.branch(Code::Jae_rel32_64, none)?;
        self.at(again);
        let lanes = body(self)?;
        self.push(Instruction::with2(Code::Add_rm64_imm8, LANE, lanes)?);
        self.push(Instruction::with2(Code::Cmp_r64_rm64, LANE, END)?);
        self.branch(Code::Jb_rel32_64, again)
    }

    fn take_pointers(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        let read = recipe.nodes.iter().filter_map(|node| match node {
            Node::Lanes(slot) => Some(*slot),
            _ => None,
        });
        let written = recipe.outputs.iter().map(|(_, slot)| *slot);
        for slot in read.chain(written) {
            if self.pointers.iter().any(|(taken, _)| *taken == slot) {
                continue;
            }
            let register = POINTERS.get(self.pointers.len()).ok_or(CannotEncode)?;
            self.pointers.push((slot, *register));
        }
        // What is fetched ahead can be left out.
        let left = POINTERS.iter().skip(self.pointers.len());
        let prefetched = recipe.prefetched.iter().map(|(_, slot)| *slot);
        self.pointers.extend(prefetched.zip(left.copied()));
        Ok(())
    }

    /// Memory of the stack for the blocks of the folds, which begins at a line of the cache; above it where the stack
    /// was.
    fn push_frame(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        let blocks = recipe.folds.len() as i32 * BLOCK_BYTES;
        if recipe.folds.len() > FOLDS_MAX {
            return Err(CannotEncode);
        }
        let stack = Register::RSP;
        self.push(Instruction::with2(Code::Mov_r64_rm64, END, stack)?);
        self.push(Instruction::with2(Code::And_rm64_imm8, stack, -64)?);
        self.push(Instruction::with2(
            Code::Sub_rm64_imm32,
            stack,
            blocks + 64,
        )?);
        let above = MemoryOperand::with_base_displ(stack, i64::from(blocks));
        self.push(Instruction::with2(Code::Mov_rm64_r64, above, END)?);
        Ok(())
    }

    fn pop_frame(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        let blocks = recipe.folds.len() as i64 * i64::from(BLOCK_BYTES);
        let above = MemoryOperand::with_base_displ(Register::RSP, blocks);
        self.push(Instruction::with2(
            Code::Mov_r64_rm64,
            Register::RSP,
            above,
        )?);
        Ok(())
    }

    /// Puts scalars into every lane of registers that stay.
    fn scalars(&mut self, recipe: &Recipe) -> Result<Vec<Place>, CannotEncode> {
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
    fn body(&mut self, recipe: &Recipe, fixed: &[Place]) -> Result<(), CannotEncode> {
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
                self.load_lanes(recipe, operand)?;
            }
            if let Some(register) = self.node(*node)? {
                self.places[id] = Place::Vector(register);
            }
            self.emit_outputs(recipe, id as NodeId)?;
        }
        if !self.is_tail {
            self.prefetch(recipe)?;
        }
        Ok(())
    }

    /// Writes and folds a node where it is to be.
    fn emit_outputs(&mut self, recipe: &Recipe, id: NodeId) -> Result<(), CannotEncode> {
        let outputs = recipe.outputs.iter();
        for (_, slot) in outputs.filter(|(written, _)| *written == id) {
            let register = self.loaded(recipe, id)?;
            self.write(*slot, register)?;
            self.release_use(id);
        }
        for (fold, (op, of, _)) in recipe.folds.iter().enumerate() {
            if *of == id {
                let register = self.loaded(recipe, id)?;
                self.fold(fold, *op, register)?;
                self.release_use(id);
            }
        }
        Ok(())
    }
}
