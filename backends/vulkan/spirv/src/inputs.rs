//! What a function reads at its start or from outside: parameters, launch words and positions.

use millstream_ir::DType;
use millstream_ir::ssa::{Axis, Position};
use spirv::{BuiltIn, Op, StorageClass, Word};

use crate::body::Body;
use crate::unit::{Unit, WORD_BYTES};
use crate::{Buffers, Parameters};

impl Body<'_> {
    /// Loads the parameters of the entry point, at its start.
    pub(crate) fn load_parameters(&mut self) {
        let unit = &mut *self.unit;
        if unit.parameter_bytes > 0 && unit.parameters == Parameters::Spilled {
            unit.block = pushed_word(unit, 0);
        }
        for (index, param) in self.function.params.iter().enumerate() {
            let mut start = word(unit, index as u32);
            if unit.target.buffers == Buffers::Descriptors {
                let emit = &mut unit.emit;
                let shift = emit.u64(param.dtype.size().trailing_zeros().into());
                start = emit.value(Op::ShiftRightLogical, DType::U64, &[start, shift]);
            }
            unit.starts.push(start);
        }
    }

    /// Returns a launch word as a value of this type: its low bits. In a routine, an argument.
    pub(crate) fn scalar(&mut self, index: u16, dtype: DType) -> Word {
        if let Some(call) = &self.call {
            return call.arguments[usize::from(index)];
        }
        let first = self.function.params.len() as u32;
        let word = word(self.unit, first + u32::from(index));
        if dtype == DType::Bool {
            let low = self.constant(DType::U64, 0xff);
            let byte = self.op(Op::BitwiseAnd, DType::U64, &[word, low]);
            return self.cast(DType::U64, DType::Bool, byte);
        }
        let bits = self.cast(DType::U64, dtype.unsigned(), word);
        self.reinterpret(dtype.unsigned(), dtype, bits)
    }

    /// Returns a position or a size, as `i64`.
    pub(crate) fn position(&mut self, position: Position, axis: Axis) -> Word {
        let axis = axis as u32;
        let threads = self.function.threads[axis as usize];
        let id = match position {
            Position::Threads => return self.constant(DType::I64, threads.into()),
            // An axis with one thread.
            Position::Thread if threads == 1 => return self.constant(DType::I64, 0),
            Position::Thread if self.unit.target.features.subgroup_width > 0 => {
                self.thread_of_subgroup(axis)
            }
            Position::Thread => self.built_in(BuiltIn::LocalInvocationId, axis),
            Position::Cube => self.cube(axis),
            Position::Cubes => self.count(axis),
        };
        self.cast(DType::U32, DType::I64, id)
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
        let first = self.unit.grid.unwrap_or_default();
        let mut word = word(self.unit, first + index / 2);
        if index % 2 == 1 {
            let half = self.constant(DType::U64, 32);
            word = self.op(Op::ShiftRightLogical, DType::U64, &[word, half]);
        }
        self.cast(DType::U64, DType::U32, word)
    }

    /// Returns a component of a built-in vector, `u32`.
    fn built_in(&mut self, what: BuiltIn, axis: u32) -> Word {
        let Unit {
            emit, built_ins, ..
        } = &mut *self.unit;
        let of = emit.of(DType::U32);
        let vector = emit.vector(of, 3);
        let variable = built_ins.entry(what as u32);
        let variable = *variable.or_insert_with(|| emit.built_in(what, vector));
        let all = emit.load(vector, variable);
        emit.op(Op::CompositeExtract, of, &[all, axis])
    }
}

/// Loads a word of the parameter block.
fn word(unit: &mut Unit, index: u32) -> Word {
    if unit.parameters == Parameters::Pushed {
        return pushed_word(unit, index);
    }
    let emit = &mut unit.emit;
    let of = emit.of(DType::U64);
    let offset = emit.u64(u64::from(WORD_BYTES * index));
    let address = emit.value(Op::IAdd, DType::U64, &[unit.block, offset]);
    let place = emit.pointer_at(address, of, WORD_BYTES);
    emit.load(of, place)
}

/// Loads a word of the push constants.
fn pushed_word(unit: &mut Unit, index: u32) -> Word {
    let emit = &mut unit.emit;
    let of = emit.of(DType::U64);
    let pointer = emit.pointer(StorageClass::PushConstant, of);
    let [first, index] = [0, index].map(|index| emit.u32(index));
    let place = emit.op(Op::AccessChain, pointer, &[unit.block, first, index]);
    emit.load(of, place)
}
