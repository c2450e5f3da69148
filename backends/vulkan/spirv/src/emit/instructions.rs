//! Single instructions, variables, functions and blocks.

use millstream_ir::DType;
use spirv::{
    BuiltIn, Decoration, FunctionControl, GlslStd450Op, LoopControl, MemoryAccess, Op,
    SelectionControl, StorageClass, Word,
};

use super::{Emit, put};

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
        put(
            &mut self.globals,
            Op::Variable,
            [pointer, id, class as Word],
        );
        self.interface.push(id);
        id
    }

    /// Adds a global variable that a built-in value initializes.
    pub(crate) fn built_in(&mut self, what: BuiltIn, of: Word) -> Word {
        let variable = self.global(StorageClass::Input, of);
        self.decorate(variable, Decoration::BuiltIn, &[what as Word]);
        variable
    }

    /// Adds a variable of the open function, which is in its first block. It is initialized with zeros.
    pub(crate) fn local(&mut self, of: Word) -> Word {
        let class = StorageClass::Function;
        let (pointer, zero) = (self.pointer(class, of), self.null(of));
        self.op(Op::Variable, pointer, &[class as Word, zero])
    }

    /// Adds a variable of the open function, which is in its first block: an array of constants.
    pub(crate) fn table(&mut self, of: Word, elements: &[Word]) -> Word {
        let class = StorageClass::Function;
        let (pointer, all) = (self.pointer(class, of), self.id());
        let operands = [of, all].into_iter().chain(elements.iter().copied());
        put(&mut self.globals, Op::ConstantComposite, operands);
        self.op(Op::Variable, pointer, &[class as Word, all])
    }

    /// Adds an instruction with a result.
    pub(crate) fn op(&mut self, op: Op, of: Word, operands: &[Word]) -> Word {
        let id = self.id();
        self.op_as(id, op, of, operands);
        id
    }

    /// Adds an instruction with a result of this type.
    pub(crate) fn value(&mut self, op: Op, dtype: DType, operands: &[Word]) -> Word {
        let of = self.of(dtype);
        self.op(op, of, operands)
    }

    /// Adds an instruction whose result has this id, which is new.
    pub(crate) fn op_as(&mut self, id: Word, op: Op, of: Word, operands: &[Word]) {
        let operands = [of, id].into_iter().chain(operands.iter().copied());
        put(&mut self.code, op, operands);
    }

    /// Adds an instruction without a result.
    fn act(&mut self, op: Op, operands: &[Word]) {
        put(&mut self.code, op, operands.iter().copied());
    }

    /// Adds an operation on floats that is never contracted with another one.
    pub(crate) fn exact(&mut self, op: Op, dtype: DType, operands: &[Word]) -> Word {
        let id = self.value(op, dtype, operands);
        self.decorate(id, Decoration::NoContraction, &[]);
        id
    }

    /// Adds an instruction of `GLSL.std.450`.
    pub(crate) fn glsl(&mut self, op: GlslStd450Op, dtype: DType, operands: &[Word]) -> Word {
        let all = [&[self.glsl, op as Word], operands].concat();
        self.value(Op::ExtInst, dtype, &all)
    }

    /// Returns a pointer to a value of this type at a device address, which is a multiple of `bytes`.
    pub(crate) fn pointer_at(&mut self, address: Word, of: Word, bytes: u32) -> Word {
        let pointer = self.pointer(StorageClass::PhysicalStorageBuffer, of);
        let id = self.op(Op::ConvertUToPtr, pointer, &[address]);
        self.aligned.insert(id, bytes);
        id
    }

    /// Returns the operands of an access that state the alignment of a device address.
    fn alignment(&self, pointer: Word) -> impl Iterator<Item = Word> + use<> {
        let bytes = self.aligned.get(&pointer).copied().into_iter();
        bytes.flat_map(|bytes| [MemoryAccess::ALIGNED.bits(), bytes])
    }

    pub(crate) fn load(&mut self, of: Word, from: Word) -> Word {
        let operands: Vec<Word> = [from].into_iter().chain(self.alignment(from)).collect();
        self.op(Op::Load, of, &operands)
    }

    pub(crate) fn store(&mut self, to: Word, value: Word) {
        let operands = [to, value].into_iter().chain(self.alignment(to));
        put(&mut self.code, Op::Store, operands);
    }

    /// Waits for all threads of the cube, and makes stores to buffers and shared memory visible to them.
    pub(crate) fn barrier(&mut self) {
        let (cube, semantics) = (self.u32(Scope::Cube as u32), self.u32(BARRIER_SEMANTICS));
        self.act(Op::ControlBarrier, &[cube, cube, semantics]);
    }
}

/// Functions and blocks.
impl Emit {
    /// Opens a function, and its first block. Returns its parameters.
    pub(crate) fn begin(&mut self, id: Word, result: Word, parameters: &[Word]) -> Vec<Word> {
        let of = self.type_of(Op::TypeFunction, &[&[result], parameters].concat());
        let control = FunctionControl::NONE.bits();
        self.op_as(id, Op::Function, result, &[control, of]);
        let parameters = parameters.iter();
        let parameters = parameters.map(|of| self.op(Op::FunctionParameter, *of, &[]));
        let parameters = parameters.collect();
        let first = self.id();
        self.open(first);
        parameters
    }

    /// Closes the open function, which returns this value.
    pub(crate) fn end(&mut self, result: Option<Word>) {
        match result {
            Some(value) => self.act(Op::ReturnValue, &[value]),
            None => self.leave(),
        }
        self.act(Op::FunctionEnd, &[]);
    }

    /// Opens a block.
    pub(crate) fn open(&mut self, label: Word) {
        self.act(Op::Label, &[label]);
        self.label = label;
    }

    /// Returns from the open function, which has no result.
    pub(crate) fn leave(&mut self) {
        self.act(Op::Return, &[]);
    }

    pub(crate) fn branch(&mut self, to: Word) {
        self.act(Op::Branch, &[to]);
    }

    pub(crate) fn branch_if(&mut self, condition: Word, then: Word, otherwise: Word) {
        self.act(Op::BranchConditional, &[condition, then, otherwise]);
    }

    /// Announces the block where the next branch joins again.
    pub(crate) fn selection(&mut self, merge: Word) {
        let control = SelectionControl::NONE.bits();
        self.act(Op::SelectionMerge, &[merge, control]);
    }

    /// Announces the end and the last block of the loop that starts with the open block.
    pub(crate) fn looping(&mut self, merge: Word, next: Word, control: LoopControl) {
        self.act(Op::LoopMerge, &[merge, next, control.bits()]);
    }

    /// Adds the value of the predecessor that control came from. `id` is new.
    pub(crate) fn phi(&mut self, id: Word, of: Word, [a, b]: [(Word, Word); 2]) {
        self.op_as(id, Op::Phi, of, &[a.0, a.1, b.0, b.1]);
    }
}
