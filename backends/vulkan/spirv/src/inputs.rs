//! What a function reads at its start or from outside: parameters, launch words and positions.

use millstream_ir::DType;
use millstream_ir::ssa::{Axis, Position};
use spirv::{BuiltIn, Op, StorageClass, Word};

use crate::body::{Body, Lane, Role};
use crate::interface::{Interface, WORD_BYTES};
use crate::unit::Unit;
use crate::{Buffers, Parameters};

impl Body<'_> {
    pub(crate) fn interface(&mut self) -> (&mut Interface, &mut Unit) {
        match &mut self.role {
            Role::Main(interface) => (interface, self.unit),
            Role::Routine { .. } => unreachable!("a routine has neither buffers nor positions"),
        }
    }

    /// Loads what the whole function needs, at its start.
    pub(crate) fn load_interface(&mut self) {
        let function = self.function;
        let (interface, unit) = self.interface();
        if interface.layout.bytes > 0 && interface.layout.parameters == Parameters::Spilled {
            let at = interface.block;
            interface.block = pushed_word(unit, at, 0);
        }
        for (index, param) in function.params.iter().enumerate() {
            let mut start = self.word(index as u32);
            let (interface, unit) = self.interface();
            if unit.target.buffers == Buffers::Descriptors {
                let emit = &mut unit.emit;
                let shift = emit.u64(param.dtype.size().trailing_zeros().into());
                start = emit.value(Op::ShiftRightLogical, DType::U64, &[start, shift]);
            }
            interface.starts.push(start);
        }
        if !self.interface().0.reduced.is_empty() {
            let thread = self.linear_thread();
            self.interface().0.thread = thread;
        }
    }

    /// Loads a word of the parameter block.
    fn word(&mut self, index: u32) -> Word {
        let (interface, unit) = self.interface();
        let block = interface.block;
        match interface.layout.parameters {
            Parameters::Pushed => pushed_word(unit, block, index),
            Parameters::Spilled => {
                let emit = &mut unit.emit;
                let of = emit.of(DType::U64);
                let offset = emit.u64(u64::from(WORD_BYTES * index));
                let address = emit.value(Op::IAdd, DType::U64, &[block, offset]);
                let pointer = emit.pointer(StorageClass::PhysicalStorageBuffer, of);
                let place = emit.op(Op::ConvertUToPtr, pointer, &[address]);
                emit.load(of, place, Some(WORD_BYTES))
            }
        }
    }

    /// Returns a launch word as a value of this type: its low bits. In a routine, an argument.
    pub(crate) fn scalar(&mut self, index: u16, dtype: DType) -> Word {
        if let Role::Routine { arguments, .. } = &self.role {
            return arguments[usize::from(index)];
        }
        let word = self.word(self.function.params.len() as u32 + u32::from(index));
        let narrow = match dtype.size() {
            8 => DType::U64,
            4 => DType::U32,
            2 => DType::U16,
            _ => DType::U8,
        };
        if dtype == DType::Bool {
            let low = self.constant(DType::U64, 0xff).id;
            let byte = self.op(Op::BitwiseAnd, DType::U64, &[word, low]);
            return self.cast(DType::U64, DType::Bool, byte);
        }
        let bits = self.cast(DType::U64, narrow, word);
        self.reinterpret(narrow, dtype, bits)
    }

    /// Returns a position or a size, as `i64`.
    pub(crate) fn position(&mut self, position: Position, axis: Axis) -> Lane {
        let axis = match axis {
            Axis::X => 0,
            Axis::Y => 1,
            Axis::Z => 2,
        };
        let id = match position {
            Position::Threads => {
                let threads = self.function.threads[axis as usize];
                return self.constant(DType::I64, threads.into());
            }
            // An axis with one thread.
            Position::Thread if self.function.threads[axis as usize] == 1 => {
                return self.constant(DType::I64, 0);
            }
            Position::Thread => self.built_in(BuiltIn::LocalInvocationId, axis),
            Position::Cube => self.cube(axis),
            Position::Cubes => self.count(axis),
        };
        self.cast(DType::U32, DType::I64, id).into()
    }

    /// Returns the coordinate of the cube in its launch, which may be several dispatches.
    fn cube(&mut self, axis: u32) -> Word {
        let first = self.grid(3 + axis);
        let within = self.built_in(BuiltIn::WorkgroupId, axis);
        self.op(Op::IAdd, DType::U32, &[first, within])
    }

    /// Returns the number of cubes along an axis: that of the parameter block, or of the dispatch if it is 0 there.
    fn count(&mut self, axis: u32) -> Word {
        let given = self.grid(axis);
        let is_given = self.cast(DType::U32, DType::Bool, given);
        let launched = self.built_in(BuiltIn::NumWorkgroups, axis);
        self.op(Op::Select, DType::U32, &[is_given, given, launched])
    }

    /// Returns one of the numbers of the grid, `u32`.
    fn grid(&mut self, index: u32) -> Word {
        let (interface, _) = self.interface();
        let first = interface.layout.grid.unwrap_or_default();
        let mut word = self.word(first + index / 2);
        if index % 2 == 1 {
            let half = self.constant(DType::U64, 32).id;
            word = self.op(Op::ShiftRightLogical, DType::U64, &[word, half]);
        }
        self.cast(DType::U64, DType::U32, word)
    }

    /// Returns a component of a built-in vector, `u32`.
    fn built_in(&mut self, what: BuiltIn, axis: u32) -> Word {
        let (interface, unit) = self.interface();
        let emit = &mut unit.emit;
        let of = emit.of(DType::U32);
        let vector = emit.vector(of, 3);
        let variable = interface.built_ins.entry(what as u32);
        let variable = *variable.or_insert_with(|| emit.built_in(what, vector));
        let all = emit.load(vector, variable, None);
        emit.op(Op::CompositeExtract, of, &[all, axis])
    }

    /// Returns the index of the thread in its cube over all axes, `u32`.
    fn linear_thread(&mut self) -> Word {
        let [x, y, z] = [0, 1, 2].map(|axis| self.built_in(BuiltIn::LocalInvocationId, axis));
        let [width, height, _] = self.function.threads;
        let emit = &mut self.unit.emit;
        let mut along = |above, size, at| {
            let size = emit.u32(size);
            let above = emit.value(Op::IMul, DType::U32, &[above, size]);
            emit.value(Op::IAdd, DType::U32, &[above, at])
        };
        let rows = along(z, height, y);
        along(rows, width, x)
    }
}

/// Loads a word of the push constants.
fn pushed_word(unit: &mut Unit, block: Word, index: u32) -> Word {
    let emit = &mut unit.emit;
    let of = emit.of(DType::U64);
    let pointer = emit.pointer(StorageClass::PushConstant, of);
    let [first, index] = [0, index].map(|index| emit.u32(index));
    let place = emit.op(Op::AccessChain, pointer, &[block, first, index]);
    emit.load(of, place, None)
}
