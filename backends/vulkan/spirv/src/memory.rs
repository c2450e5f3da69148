//! Loads, stores and atomic operations.
//!
//! A wide access to a buffer is one vector of words, of which lanes of less than 32 bits share one. Shared arrays and locals
//! are accessed lane by lane: their elements have one type, and drivers combine the accesses.

use millstream_ir::ssa::{AtomicOp, Memory, Type, ValueId};
use millstream_ir::{BinaryOp, DType};
use spirv::{LoopControl, Op, StorageClass, Word};

use crate::body::Body;
use crate::emit::Scope;
use crate::{Buffers, LowerError};

const WORD_BYTES: usize = 4;

/// The vector of a wide access.
#[derive(Clone, Copy)]
struct Vector {
    param: u16,
    /// The type of a component.
    word: DType,
    /// The number of components.
    words: u8,
    /// The lanes in each component.
    lanes: u8,
}

impl Vector {
    /// Returns the vector of an access to memory, if it is one.
    fn of(memory: Memory, of: Type) -> Option<Self> {
        let size = of.dtype.size();
        let Memory::Param(param) = memory else {
            return None;
        };
        if of.lanes == 1 || size * usize::from(of.lanes) < WORD_BYTES {
            return None;
        }
        let lanes = (WORD_BYTES / size).max(1) as u8;
        let word = if lanes > 1 { DType::U32 } else { of.dtype };
        Some(Self {
            param,
            word,
            words: of.lanes / lanes,
            lanes,
        })
    }
}

impl Body<'_> {
    /// Returns a pointer to the element `lane` elements behind the index, as an element of type `stored`, which has the size
    /// of the type of the memory.
    fn place(&mut self, memory: Memory, at: Option<ValueId>, lane: u8, stored: DType) -> Word {
        let index = self.index(at, lane);
        let element = match memory {
            Memory::Local(_) | Memory::Table(_) => self.unit.emit.of(stored),
            _ => self.unit.emit.stored(stored),
        };
        let (class, array) = match memory {
            Memory::Param(param) => {
                return self.buffer_place(param, index, element, stored.into());
            }
            Memory::Shared(array) => {
                let array = self.shared[usize::from(array)].variable;
                (StorageClass::Workgroup, array)
            }
            Memory::Local(local) => {
                let variable = self.locals[usize::from(local)];
                if self.function.locals[usize::from(local)].len <= 1 {
                    return variable;
                }
                (StorageClass::Function, variable)
            }
            Memory::Table(table) => (StorageClass::Function, self.tables[usize::from(table)]),
        };
        let emit = &mut self.unit.emit;
        let pointer = emit.pointer(class, element);
        emit.op(Op::AccessChain, pointer, &[array, index])
    }

    /// Returns the index of an element, `i64`.
    fn index(&mut self, at: Option<ValueId>, lane: u8) -> Word {
        let at = match at {
            Some(at) => self.get(at, 0),
            None => self.constant(DType::I64, 0),
        };
        match (self.bits_of(at), lane) {
            (_, 0) => at,
            (Some(bits), _) => self.constant(DType::I64, bits.wrapping_add(lane.into())),
            _ => {
                let lane = self.constant(DType::I64, lane.into());
                self.op(Op::IAdd, DType::I64, &[at, lane])
            }
        }
    }

    /// Returns a pointer to an element of a buffer, or to a vector of neighbours: `element` is its type in memory, `of`
    /// that of the value. A vector is aligned to its size, and so are the starts of buffers that are accessed by one.
    fn buffer_place(&mut self, param: u16, index: Word, element: Word, of: Type) -> Word {
        let bytes = of.dtype.size() as u32;
        let all_bytes = bytes * u32::from(of.lanes);
        let unit = &mut *self.unit;
        let start = unit.starts[usize::from(param)];
        if unit.target.buffers == Buffers::Addresses {
            let emit = &mut unit.emit;
            let offset = match (bytes, emit.bits_of(index)) {
                (1, _) => index,
                (_, Some(bits)) => emit.u64(bits.wrapping_mul(bytes.into())),
                _ => {
                    let shift = emit.u64(bytes.trailing_zeros().into());
                    emit.value(Op::ShiftLeftLogical, DType::U64, &[index, shift])
                }
            };
            let address = emit.value(Op::IAdd, DType::U64, &[start, offset]);
            return emit.pointer_at(address, element, all_bytes);
        }
        let variable = unit.descriptor(param, element, all_bytes);
        let emit = &mut unit.emit;
        let mut index = emit.value(Op::IAdd, DType::U64, &[start, index]);
        if of.lanes > 1 {
            let shift = emit.u64(of.lanes.trailing_zeros().into());
            index = emit.value(Op::ShiftRightLogical, DType::U64, &[index, shift]);
        }
        // A range of a descriptor has less than 2^32 elements.
        let index = emit.value(Op::UConvert, DType::U32, &[index]);
        let first = emit.u32(0);
        let pointer = emit.pointer(StorageClass::StorageBuffer, element);
        emit.op(Op::AccessChain, pointer, &[variable, first, index])
    }

    /// Returns a pointer to a vector, whose first lane has this index, and the vector's type.
    fn vector_place(&mut self, vector: Vector, at: Option<ValueId>, of: Type) -> (Word, Word) {
        let emit = &mut self.unit.emit;
        let word = emit.of(vector.word);
        let element = match vector.words {
            1 => word,
            words => emit.vector(word, words.into()),
        };
        let index = self.index(at, 0);
        let place = self.buffer_place(vector.param, index, element, of);
        (place, element)
    }

    /// Returns the type of a memory, which a checked function has, and the type that its elements are stored as.
    fn types(&mut self, memory: Memory) -> Result<(DType, DType), LowerError> {
        let Some((_, dtype)) = self.function.memory(memory) else {
            return Err(self.unsupported(format!("{memory:?}")));
        };
        let stored = match memory {
            Memory::Shared(array) => self.shared[usize::from(array)].stored,
            _ => dtype,
        };
        Ok((dtype, stored))
    }

    /// Lowers a load.
    pub(crate) fn load(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        of: Type,
    ) -> Result<Vec<Word>, LowerError> {
        if let Some(vector) = Vector::of(memory, of) {
            let (place, element) = self.vector_place(vector, at, of);
            let loaded = self.unit.emit.load(element, place);
            let lanes = (0..of.lanes).map(|lane| self.lane_of(vector, of.dtype, loaded, lane));
            return Ok(lanes.collect());
        }
        let (dtype, stored) = self.types(memory)?;
        let lanes = (0..of.lanes).map(|lane| {
            let place = self.place(memory, at, lane, stored);
            let emit = &mut self.unit.emit;
            if dtype == DType::Bool && !matches!(memory, Memory::Local(_) | Memory::Table(_)) {
                let byte = emit.of(DType::U8);
                let loaded = emit.load(byte, place);
                let wide = self.cast(DType::U8, DType::U32, loaded);
                return self.cast(DType::U32, DType::Bool, wide);
            }
            let element = emit.of(stored);
            let loaded = emit.load(element, place);
            self.reinterpret(stored, dtype, loaded)
        });
        Ok(lanes.collect())
    }

    /// Lowers a store. In a routine, that to a buffer is its result.
    pub(crate) fn store(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        value: ValueId,
    ) -> Result<(), LowerError> {
        let (of, lanes) = (self.of(value), self.values[value as usize].clone());
        if let (Some(call), Memory::Param(_)) = (&mut self.call, memory) {
            call.result = lanes.first().copied();
            return Ok(());
        }
        if let Some(vector) = Vector::of(memory, of) {
            let words = lanes.chunks(vector.lanes.into());
            let words: Vec<Word> = words.map(|lanes| self.word_of(of.dtype, lanes)).collect();
            let (place, element) = self.vector_place(vector, at, of);
            let emit = &mut self.unit.emit;
            let stored = match words[..] {
                [word] => word,
                _ => emit.op(Op::CompositeConstruct, element, &words),
            };
            emit.store(place, stored);
            return Ok(());
        }
        let (dtype, stored) = self.types(memory)?;
        for (lane, mut id) in (0..of.lanes).zip(lanes) {
            let place = self.place(memory, at, lane, stored);
            if dtype == DType::Bool && !matches!(memory, Memory::Local(_)) {
                let wide = self.cast(DType::Bool, DType::U32, id);
                id = self.cast(DType::U32, DType::U8, wide);
            } else {
                id = self.reinterpret(dtype, stored, id);
            }
            self.unit.emit.store(place, id);
        }
        Ok(())
    }

    /// Returns one lane of a vector that was loaded.
    fn lane_of(&mut self, vector: Vector, dtype: DType, loaded: Word, lane: u8) -> Word {
        let component = u32::from(lane / vector.lanes);
        let word = match vector.words {
            1 => loaded,
            _ => self.op(Op::CompositeExtract, vector.word, &[loaded, component]),
        };
        if vector.lanes == 1 {
            return word;
        }
        let [from, bits] = bits_of_lane(dtype, lane % vector.lanes).map(|n| self.unit.emit.u32(n));
        let bits = self.op(Op::BitFieldUExtract, DType::U32, &[word, from, bits]);
        match dtype {
            DType::Bool => self.cast(DType::U32, DType::Bool, bits),
            _ => self.op(Op::UConvert, dtype, &[bits]),
        }
    }

    /// Returns the component of a vector with these lanes.
    fn word_of(&mut self, dtype: DType, lanes: &[Word]) -> Word {
        if let [word] = lanes {
            return *word;
        }
        let zero = self.unit.emit.u32(0);
        (0..).zip(lanes).fold(zero, |word, (lane, id)| {
            let wide = match dtype {
                DType::Bool => self.cast(DType::Bool, DType::U32, *id),
                _ => self.op(Op::UConvert, DType::U32, &[*id]),
            };
            let [from, bits] = bits_of_lane(dtype, lane).map(|number| self.unit.emit.u32(number));
            self.op(Op::BitFieldInsert, DType::U32, &[word, wide, from, bits])
        })
    }

    /// Lowers an atomic operation, whose index is within bounds. Operations on floats other than additions are on their bits.
    pub(crate) fn atomic(
        &mut self,
        op: AtomicOp,
        memory: Memory,
        at: ValueId,
    ) -> Result<Word, LowerError> {
        let (dtype, _) = self.types(memory)?;
        let stored = match op {
            AtomicOp::Update(..) => self.unit.added_as(memory, dtype),
            _ if dtype.is_float() => dtype.unsigned(),
            _ => dtype,
        };
        let operands: Vec<Word> = op.operands().map(|value| self.get(value, 0)).collect();
        let place = self.place(memory, Some(at), 0, stored);
        if let (AtomicOp::Update(..), true) = (op, stored != dtype) {
            return Ok(self.exchange(place, stored, dtype, operands[0]));
        }
        let (float, signed) = (dtype.is_float(), dtype.is_signed());
        let instruction = match op {
            AtomicOp::Load => Op::AtomicLoad,
            AtomicOp::Swap(_) => Op::AtomicExchange,
            AtomicOp::CompareExchange(..) => Op::AtomicCompareExchange,
            AtomicOp::Update(BinaryOp::Add, _) if float => Op::AtomicFAddEXT,
            AtomicOp::Update(BinaryOp::Add, _) => Op::AtomicIAdd,
            AtomicOp::Update(BinaryOp::Min, _) if signed => Op::AtomicSMin,
            AtomicOp::Update(BinaryOp::Min, _) => Op::AtomicUMin,
            AtomicOp::Update(BinaryOp::Max, _) if signed => Op::AtomicSMax,
            AtomicOp::Update(BinaryOp::Max, _) => Op::AtomicUMax,
            AtomicOp::Update(BinaryOp::And, _) => Op::AtomicAnd,
            AtomicOp::Update(BinaryOp::Or, _) => Op::AtomicOr,
            AtomicOp::Update(BinaryOp::Xor, _) => Op::AtomicXor,
            other => return Err(self.unsupported(format!("atomic {}", other.name()))),
        };
        // The threads that the operation orders with.
        let scope = match memory {
            Memory::Shared(_) => Scope::Cube,
            _ => Scope::Device,
        };
        let [scope, relaxed] = [scope as u32, 0].map(|number| self.unit.emit.u32(number));
        let mut all = vec![place, scope, relaxed];
        for operand in operands {
            all.push(self.reinterpret(dtype, stored, operand));
        }
        if let (AtomicOp::CompareExchange(..), [.., expected, new]) = (op, &mut all[..]) {
            std::mem::swap(expected, new);
            // The semantics if they differ.
            all.insert(3, relaxed);
        }
        let before = self.op(instruction, stored, &all);
        Ok(self.reinterpret(stored, dtype, before))
    }

    /// Adds to a float by compare-and-exchange of its bits. Returns what it was before.
    fn exchange(&mut self, place: Word, stored: DType, dtype: DType, value: Word) -> Word {
        let emit = &mut self.unit.emit;
        let bits = emit.of(stored);
        let [scope, relaxed] = [Scope::Device as u32, 0].map(|number| emit.u32(number));
        let [head, next, end, expected, found] = [0; 5].map(|_| emit.id());
        let first = emit.op(Op::AtomicLoad, bits, &[place, scope, relaxed]);
        let before = emit.label();
        emit.branch(head);
        emit.open(head);
        emit.phi(expected, bits, [(first, before), (found, next)]);
        emit.looping(end, next, LoopControl::NONE);
        emit.branch(next);
        emit.open(next);
        let old = self.reinterpret(stored, dtype, expected);
        let sum = self.unit.emit.exact(Op::FAdd, dtype, &[old, value]);
        let sum = self.reinterpret(dtype, stored, sum);
        let emit = &mut self.unit.emit;
        let operands = [place, scope, relaxed, relaxed, sum, expected];
        emit.op_as(found, Op::AtomicCompareExchange, bits, &operands);
        let done = emit.value(Op::IEqual, DType::Bool, &[found, expected]);
        emit.branch_if(done, end, head);
        emit.open(end);
        self.reinterpret(stored, dtype, found)
    }
}

/// Returns the first bit and the number of bits of a lane within its word.
fn bits_of_lane(dtype: DType, lane: u8) -> [u32; 2] {
    let bits = 8 * dtype.size() as u32;
    [u32::from(lane) * bits, bits]
}
