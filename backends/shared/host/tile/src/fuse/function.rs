//! Emits the function: prologue and epilogue, and the loop around the nodes.
//!
//! A loop without folds computes vector by vector. With folds it computes blocks of several vectors, each of which has
//! partial results of its own. The remaining lanes follow, vector by vector, the last one masked.

use iced_x86::{Code, Instruction, Register};
use millstream_ir::{BinaryOp, UnaryOp};

use super::assembler::{
    Assembler, END, LANE, LANES, Operand, POINTERS, POINTERS_CALLER_SAVED, Vector,
};
use super::codes::{PREFETCH_READ, PREFETCH_WRITE};
use super::{Node, NodeId, PrefetchKind, Recipe, SIDE_BY_SIDE};

/// With more operations per vector, computing hides the time of memory.
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

impl Assembler<'_> {
    /// Emits the whole function.
    pub(super) fn function(&mut self) {
        self.take_pointers();
        let pointers = self.pointers.clone();
        let saved = pointers.iter().skip(POINTERS_CALLER_SAVED);
        for (_, register) in saved.clone() {
            self.push(Instruction::with1(Code::Push_r64, *register));
        }
        for (slot, register) in &pointers {
            self.address(*register, *slot);
        }
        let fixed = self.fixed_places();
        let in_block = match self.recipe.folds.is_empty() {
            true => 1,
            false => SIDE_BY_SIDE / self.width(),
        };
        self.begin_folds(in_block);
        let lanes = (in_block * self.width()) as i32;

        let zero = Register::EAX;
        self.push(Instruction::with2(Code::Xor_r32_rm32, zero, zero));
        self.push(Instruction::with2(Code::Mov_r64_rm64, END, LANES));
        self.push(Instruction::with2(Code::And_rm64_imm8, END, -lanes));
        let none = self.branch(Code::Je_rel32_64);
        let again = self.length;
        for vector in 0..in_block {
            self.vector_of_block = vector;
            self.body(&fixed);
        }
        self.push(Instruction::with2(Code::Add_rm64_imm8, LANE, lanes));
        self.push(Instruction::with2(Code::Cmp_r64_rm64, LANE, END));
        let back = self.branch(Code::Jb_rel32_64);
        self.land(back, again);
        self.land(none, self.length);

        self.is_tail = true;
        self.push(Instruction::with2(Code::Sub_r64_rm64, LANES, LANE));
        let mut ends = Vec::new();
        for vector in 0..in_block {
            if vector > 0 {
                let width = self.width() as i32;
                self.push(Instruction::with2(Code::Sub_rm64_imm8, LANES, width));
            }
            ends.push(self.branch(Code::Jle_rel32_64));
            self.mask_the_last();
            self.vector_of_block = vector;
            self.body(&fixed);
        }
        for end in ends {
            self.land(end, self.length);
        }
        self.end_folds();
        self.push(Ok(Instruction::with(Code::VEX_Vzeroupper)));
        for (_, register) in saved.rev() {
            self.push(Instruction::with1(Code::Pop_r64, *register));
        }
        self.push(Ok(Instruction::with(Code::Retnq)));
    }

    fn take_pointers(&mut self) {
        let recipe = self.recipe;
        let read = recipe.nodes.iter().filter_map(|node| match node {
            Node::Lanes(slot) => Some(*slot),
            _ => None,
        });
        let written = recipe.outputs.iter().map(|(_, slot)| *slot);
        for slot in read.chain(written) {
            if self.pointers.iter().any(|(taken, _)| *taken == slot) {
                continue;
            }
            match POINTERS.get(self.pointers.len()) {
                Some(register) => self.pointers.push((slot, *register)),
                None => self.refuse(),
            }
        }
        // Prefetches are optional: they get the registers that are left.
        let left = POINTERS.iter().skip(self.pointers.len());
        let prefetched = recipe.prefetched.iter().map(|(_, slot)| *slot);
        self.pointers.extend(prefetched.zip(left.copied()));
    }

    /// Returns the places that nodes have for the whole loop: registers with a scalar in every lane, and constants.
    fn fixed_places(&mut self) -> Vec<Option<Operand>> {
        let nodes = self.recipe.nodes.iter();
        let place = |node: &Node| match *node {
            Node::Scalar(slot) => Some(self.broadcast(slot).into()),
            Node::Const(value) => Some(self.pool(value)),
            _ => None,
        };
        nodes.map(place).collect()
    }

    /// Emits all nodes for the lanes of one vector, each as late as possible, and their stores and folds.
    fn body(&mut self, fixed: &[Option<Operand>]) {
        let recipe = self.recipe;
        self.places = fixed.to_vec();
        self.uses = vec![0; recipe.nodes.len()];
        let operands = recipe.nodes.iter().flat_map(|node| node.operands());
        let outputs = recipe.outputs.iter().map(|(node, _)| *node);
        let folds = recipe.folds.iter().map(|(_, node, _)| *node);
        for node in operands.chain(outputs).chain(folds) {
            self.uses[usize::from(node)] += 1;
        }
        for (id, node) in recipe.nodes.iter().enumerate() {
            if self.uses[id] == 0 {
                continue;
            }
            if node.operands().count() > 0 {
                node.operands().for_each(|operand| self.load_lanes(operand));
                self.places[id] = Some(self.node(*node).into());
            }
            self.emit_outputs(id as NodeId);
        }
        if !self.is_tail {
            self.prefetch();
        }
    }

    /// Emits the stores and folds of a node.
    fn emit_outputs(&mut self, id: NodeId) {
        let recipe = self.recipe;
        let outputs = recipe.outputs.iter();
        for (_, slot) in outputs.filter(|(written, _)| *written == id) {
            let register = self.loaded(id);
            self.store(*slot, register);
            self.release_use(id);
        }
        for (fold, (op, of, _)) in recipe.folds.iter().enumerate() {
            if *of == id {
                let register = self.loaded(id);
                self.fold(fold, *op, register);
                self.release_use(id);
            }
        }
    }

    /// Loads the lanes of a tile, if the node is one and they are not loaded yet.
    fn load_lanes(&mut self, id: NodeId) {
        let index = usize::from(id);
        if let (Node::Lanes(slot), None) = (self.recipe.nodes[index], self.places[index]) {
            let register = self.take();
            self.load(register, slot);
            self.places[index] = Some(register.into());
        }
    }

    /// Returns a node that is no constant in its register, loaded if necessary.
    fn loaded(&mut self, id: NodeId) -> Vector {
        self.load_lanes(id);
        self.in_register(id)
    }

    /// Prefetches lines whose address has a register.
    fn prefetch(&mut self) {
        for (what, slot) in &self.recipe.prefetched {
            if self.pointers.iter().any(|(known, _)| known == slot) {
                let line = self.lanes_at(*slot);
                let code = match what {
                    PrefetchKind::Read => PREFETCH_READ,
                    PrefetchKind::Write => PREFETCH_WRITE,
                };
                self.emit(code, &[line]);
            }
        }
    }
}
