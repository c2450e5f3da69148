//! Single instructions, variables, functions and blocks.

use rspirv::dr::{InsertPoint, Instruction, Operand};
use rspirv::spirv::{
    self, Decoration, GlslStd450Op, LoopControl, MemoryAccess, Op, SelectionControl, StorageClass,
    Word,
};

use super::Emit;

/// The scope of atomics and of barriers, as SPIR-V numbers them.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    Device = 1,
    Cube = 2,
}

/// Acquire and release, of buffers (`UniformMemory`) and of shared memory.
const BARRIER_SEMANTICS: u32 = 0x8 | 0x40 | 0x100;

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
    pub(crate) fn looping(&mut self, merge: Word, next: Word) {
        let operands = vec![
            Operand::IdRef(merge),
            Operand::IdRef(next),
            Operand::LoopControl(LoopControl::NONE),
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
