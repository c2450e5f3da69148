//! Loads, stores and atomic additions.

use millstream_ir::DType;
use millstream_ir::ssa::{Memory, Type, ValueId};
use spirv::{Op, StorageClass, Word};

use crate::body::{Body, Lane, Role};
use crate::emit::Scope;
use crate::{Buffers, LowerError};

/// An element of memory, or a vector of neighbours.
pub(crate) struct Place {
    pub(crate) pointer: Word,
    /// The alignment of an access by a device address.
    pub(crate) aligned: Option<u32>,
}

impl From<Word> for Place {
    fn from(pointer: Word) -> Self {
        Self {
            pointer,
            aligned: None,
        }
    }
}

impl Body<'_> {
    /// Returns the element `lane` elements behind the index, as an element of type `stored`, which has the size of the
    /// type of the memory.
    fn place(&mut self, memory: Memory, at: Option<ValueId>, lane: u8, stored: DType) -> Place {
        let index = self.index(at, lane);
        let element = match memory {
            Memory::Local(_) => self.unit.emit.of(stored),
            _ => self.unit.emit.stored(stored),
        };
        let (class, array) = match memory {
            Memory::Param(param) => {
                return self.buffer_place(param, index, element, stored.into());
            }
            Memory::Shared(array) => {
                let array = self.interface().0.shared[usize::from(array)].variable;
                (StorageClass::Workgroup, array)
            }
            Memory::Local(local) => {
                let variable = self.locals[usize::from(local)];
                if self.function.locals[usize::from(local)].len <= 1 {
                    return variable.into();
                }
                (StorageClass::Function, variable)
            }
        };
        let emit = &mut self.unit.emit;
        let pointer = emit.pointer(class, element);
        emit.op(Op::AccessChain, pointer, &[array, index.id]).into()
    }

    /// Returns the index of an element, `i64`.
    pub(crate) fn index(&mut self, at: Option<ValueId>, lane: u8) -> Lane {
        let at = match at {
            Some(at) => self.get(at, 0),
            None => self.constant(DType::I64, 0),
        };
        match (at.bits, lane) {
            (_, 0) => at,
            (Some(bits), _) => self.constant(DType::I64, bits.wrapping_add(lane.into())),
            _ => {
                let lane = self.constant(DType::I64, lane.into()).id;
                self.op(Op::IAdd, DType::I64, &[at.id, lane]).into()
            }
        }
    }

    /// Returns a place for an element of a buffer, or for a vector of neighbours: `element` is its type in memory, `of`
    /// that of the value. A vector is aligned to its size, and so are the starts of buffers that are accessed by one.
    pub(crate) fn buffer_place(
        &mut self,
        param: u16,
        index: Lane,
        element: Word,
        of: Type,
    ) -> Place {
        let bytes = of.dtype.size() as u32;
        let all_bytes = bytes * u32::from(of.lanes);
        let (interface, unit) = self.interface();
        let start = interface.starts[usize::from(param)];
        if unit.target.buffers == Buffers::Addresses {
            let emit = &mut unit.emit;
            let offset = match (bytes, index.bits) {
                (1, _) => index.id,
                (_, Some(bits)) => emit.u64(bits.wrapping_mul(bytes.into())),
                _ => {
                    let shift = emit.u64(bytes.trailing_zeros().into());
                    emit.value(Op::ShiftLeftLogical, DType::U64, &[index.id, shift])
                }
            };
            let address = match index.bits {
                Some(0) => start,
                _ => emit.value(Op::IAdd, DType::U64, &[start, offset]),
            };
            let pointer = emit.pointer(StorageClass::PhysicalStorageBuffer, element);
            let pointer = emit.op(Op::ConvertUToPtr, pointer, &[address]);
            let aligned = Some(all_bytes);
            return Place { pointer, aligned };
        }
        let variable = interface.descriptor(unit, param, element, all_bytes);
        let emit = &mut unit.emit;
        let mut index = emit.value(Op::IAdd, DType::U64, &[start, index.id]);
        if of.lanes > 1 {
            let shift = emit.u64(of.lanes.trailing_zeros().into());
            index = emit.value(Op::ShiftRightLogical, DType::U64, &[index, shift]);
        }
        // A range of a descriptor has less than 2^32 elements.
        let index = emit.value(Op::UConvert, DType::U32, &[index]);
        let first = emit.u32(0);
        let pointer = emit.pointer(StorageClass::StorageBuffer, element);
        emit.op(Op::AccessChain, pointer, &[variable, first, index])
            .into()
    }

    /// Returns the type of a memory, which a checked function has, and the type that its elements are stored as.
    fn types(&mut self, memory: Memory) -> Result<(DType, DType), LowerError> {
        let Some((_, dtype)) = self.function.memory(memory) else {
            return Err(self.unsupported(format!("{memory:?}")));
        };
        let stored = match memory {
            Memory::Shared(array) => self.interface().0.shared[usize::from(array)].stored,
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
    ) -> Result<Vec<Lane>, LowerError> {
        if let Some(lanes) = self.load_wide(memory, at, of) {
            return Ok(lanes);
        }
        let (dtype, stored) = self.types(memory)?;
        let lanes = (0..of.lanes).map(|lane| {
            let place = self.place(memory, at, lane, stored);
            let is_byte = dtype == DType::Bool && !matches!(memory, Memory::Local(_));
            let emit = &mut self.unit.emit;
            let id = if is_byte {
                let byte = emit.of(DType::U8);
                let loaded = emit.load(byte, place.pointer, place.aligned);
                let wide = self.cast(DType::U8, DType::U32, loaded);
                self.cast(DType::U32, DType::Bool, wide)
            } else {
                let element = emit.of(stored);
                let loaded = emit.load(element, place.pointer, place.aligned);
                self.reinterpret(stored, dtype, loaded)
            };
            id.into()
        });
        Ok(lanes.collect())
    }

    /// Lowers a store.
    pub(crate) fn store(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        value: ValueId,
    ) -> Result<(), LowerError> {
        if let Role::Routine { result, .. } = &mut self.role
            && matches!(memory, Memory::Param(_))
        {
            *result = Some(self.values[value as usize][0].id);
            return Ok(());
        }
        if self.store_wide(memory, at, value) {
            return Ok(());
        }
        let (dtype, stored) = self.types(memory)?;
        for lane in 0..self.of(value).lanes {
            let place = self.place(memory, at, lane, stored);
            let mut id = self.get(value, lane).id;
            if dtype == DType::Bool && !matches!(memory, Memory::Local(_)) {
                let wide = self.cast(DType::Bool, DType::U32, id);
                id = self.cast(DType::U32, DType::U8, wide);
            } else {
                id = self.reinterpret(dtype, stored, id);
            }
            self.unit.emit.store(place.pointer, id, place.aligned);
        }
        Ok(())
    }

    /// Lowers an atomic addition.
    pub(crate) fn atomic_add(
        &mut self,
        memory: Memory,
        at: ValueId,
        value: ValueId,
    ) -> Result<(), LowerError> {
        let (dtype, _) = self.types(memory)?;
        let value = self.get(value, 0);
        let stored = self.unit.added_as(memory, dtype);
        let place = self.place(memory, Some(at), 0, stored);
        if stored != dtype {
            self.exchange(&place, stored, dtype, value);
            return Ok(());
        }
        // The threads that the addition orders with.
        let scope = match memory {
            Memory::Shared(_) => Scope::Cube,
            _ => Scope::Device,
        };
        let [scope, relaxed] = [scope as u32, 0].map(|number| self.unit.emit.u32(number));
        let op = match dtype.is_float() {
            true => Op::AtomicFAddEXT,
            false => Op::AtomicIAdd,
        };
        self.op(op, dtype, &[place.pointer, scope, relaxed, value.id]);
        Ok(())
    }

    /// Adds to a float by compare-and-exchange of its bits.
    fn exchange(&mut self, place: &Place, stored: DType, dtype: DType, value: Lane) {
        let emit = &mut self.unit.emit;
        let bits = emit.of(stored);
        let [scope, relaxed] = [Scope::Device as u32, 0].map(|number| emit.u32(number));
        let [head, next, end, expected, found] = [0; 5].map(|_| emit.id());
        let first = emit.op(Op::AtomicLoad, bits, &[place.pointer, scope, relaxed]);
        let before = emit.label();
        emit.branch(head);
        emit.open(head);
        emit.phi(expected, bits, [(first, before), (found, next)]);
        emit.looping(end, next);
        emit.branch(next);
        emit.open(next);
        let old = self.reinterpret(stored, dtype, expected);
        let sum = self.unit.emit.exact(Op::FAdd, dtype, &[old, value.id]);
        let sum = self.reinterpret(dtype, stored, sum);
        let emit = &mut self.unit.emit;
        let operands = [place.pointer, scope, relaxed, relaxed, sum, expected];
        emit.op_as(found, Op::AtomicCompareExchange, bits, &operands);
        let done = emit.value(Op::IEqual, DType::Bool, &[found, expected]);
        emit.branch_if(done, end, head);
        emit.open(end);
    }
}
