//! Emits the function: prologue and epilogue, and the loops around the nodes.
//!
//! Without folds there is one loop over whole vectors, followed by the remaining lanes, masked. Each fold has a block
//! of partial results on the stack, which are read and written in turn. If the nodes are so light that this
//! dominates, a loop over as many lanes as a block has precedes it, with the partial results in registers.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use millstream_ir::{BinaryOp, UnaryOp};

use super::assembler::{
    Assembler, BROADCAST, CannotEncode, END, FOLD, LANE, LANES, LAST_LANES, Label, POINTERS,
    POINTERS_CALLER_SAVED, Partials, Place,
};
use super::folds::{BLOCK_BYTES, FOLDS_MAX};
use super::{Node, NodeId, Recipe, SIDE_BY_SIDE};

/// With more operations per vector, the latency of a partial result is hidden.
const LIGHT_OPERATIONS: usize = 6;

/// Returns `true` if there is little work besides reading, writing and folding.
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
    /// Emits the whole function. `unrolls` adds the loop with partial results in registers.
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
                // Adds to the lowest byte only, so that the last lane of a block is followed by its first.
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

    /// Emits the loop over whole blocks, with partial results in registers.
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

    /// Emits a loop from the current lane to the last one that `mask` allows, skipped if that is the current one.
    /// `body` returns the number of lanes it processes.
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
        // Prefetches are optional: they get the registers that are left.
        let left = POINTERS.iter().skip(self.pointers.len());
        let prefetched = recipe.prefetched.iter().map(|(_, slot)| *slot);
        self.pointers.extend(prefetched.zip(left.copied()));
        Ok(())
    }

    /// Reserves stack memory for the blocks of the folds, aligned to a cache line. The old stack pointer is stored
    /// above them.
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

    /// Loads scalars into every lane of registers that are fixed for the whole loop.
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

    /// Emits all nodes for the lanes of one vector, each as late as possible, and their stores and folds.
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

    /// Emits the stores and folds of a node.
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
