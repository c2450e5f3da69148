//! Checks nests: every reference names an existing item, types fit, and accesses respect the modes of their buffers.

use crate::error::Checked;
use crate::nest::{Access, AccessId, BufferMode, Level, Nest, Op, Store, Stride, ValueId, Word};
use crate::{DType, ProgramError};

/// The maximum number of words, values, accesses and buffers each: a nest names them by 16-bit indices.
const COUNT_MAX: usize = u16::MAX as usize;

impl Nest {
    /// Checks the nest.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), ProgramError> {
        let counts = [
            ("words", self.words),
            ("values", self.values.len()),
            ("accesses", self.accesses.len()),
            ("buffers", self.buffers.len()),
        ];
        for (what, given) in counts {
            if given > COUNT_MAX {
                return Err(ProgramError::too_many(what, given as u64, COUNT_MAX as u64));
            }
        }
        if self.words < self.rank() {
            let axis = self.rank() - 1;
            return Err(At("axis", axis).missing("word", axis as u64));
        }
        for (index, access) in self.accesses.iter().enumerate() {
            self.check_access(index, access)?;
        }
        for index in 0..self.values.len() {
            self.check_value(index)?;
        }
        let levels = self.levels();
        for (index, store) in self.stores.iter().enumerate() {
            self.check_store(index, store, &levels)?;
        }
        Ok(())
    }

    fn check_access(&self, index: usize, access: &Access) -> Result<(), ProgramError> {
        let at = At("access", index);
        if usize::from(access.buffer) >= self.buffers.len() {
            return Err(at.missing("buffer", access.buffer));
        }
        let (strides, axes) = (access.strides.len(), self.rank());
        if strides != axes {
            return Err(at.error(format_args!(
                "has {strides} strides, expected {axes}: one for each axis"
            )));
        }
        let (mut offset, mut strides) = (access.offset.iter(), access.strides.iter());
        offset.try_for_each(|word| self.check_word(*word, at))?;
        strides.try_for_each(|stride| self.check_stride(*stride, at))
    }

    fn check_value(&self, index: usize) -> Result<(), ProgramError> {
        let value = &self.values[index];
        let at = At("value", index);
        for operand in value.op.operands().iter() {
            if usize::from(*operand) >= index {
                return Err(at.missing("value", *operand));
            }
        }
        let type_of = |id: &ValueId| self.values[usize::from(*id)].dtype;
        let same = |expected: DType, given: DType| at.same(expected, given);
        match &value.op {
            Op::Const(_) => Ok(()),
            Op::Word(word) => self.check_word(*word, at),
            Op::Index(axis) if usize::from(*axis) < self.rank() => same(DType::I64, value.dtype),
            Op::Index(axis) => Err(at.missing("axis", *axis)),
            Op::Load(access) => same(self.loaded_type(*access, at)?, value.dtype),
            Op::Gather {
                access,
                index,
                stride,
                len,
            } => {
                same(self.loaded_type(*access, at)?, value.dtype)?;
                self.check_stride(*stride, at)?;
                self.check_word(*len, at)?;
                same(DType::I64, type_of(index))
            }
            Op::Unary(op, a) => {
                at.takes(op.takes(type_of(a)), op, type_of(a))?;
                same(type_of(a), value.dtype)
            }
            Op::Binary(op, a, b) => {
                at.takes(op.takes(type_of(a)), op, type_of(a))?;
                same(type_of(a), type_of(b))?;
                same(type_of(a), value.dtype)
            }
            Op::Compare(_, a, b) => {
                same(type_of(a), type_of(b))?;
                same(DType::Bool, value.dtype)
            }
            Op::Select(condition, a, b) => {
                same(DType::Bool, type_of(condition))?;
                same(type_of(a), type_of(b))?;
                same(type_of(a), value.dtype)
            }
            Op::Cast(_) => Ok(()),
            Op::Random { seed, counter } => {
                self.check_word(*seed, at)?;
                same(DType::I64, type_of(counter))?;
                same(DType::U32, value.dtype)
            }
            Op::Reduce(op, a) => {
                at.takes(op.takes(type_of(a)), op, type_of(a))?;
                same(op.output(type_of(a)), value.dtype)
            }
        }
    }

    fn check_store(
        &self,
        index: usize,
        store: &Store,
        levels: &[Level],
    ) -> Result<(), ProgramError> {
        let at = At("store", index);
        let Some(access) = self.accesses.get(usize::from(store.access)) else {
            return Err(at.missing("access", store.access));
        };
        let buffer = self.buffers[usize::from(access.buffer)];
        if buffer.mode == BufferMode::Read {
            return Err(ProgramError::new(format!(
                "buffer {} is read-only, but the nest stores to it: declare it as `write` or `update`",
                access.buffer
            )));
        }
        for id in store.values() {
            if usize::from(id) >= self.values.len() {
                return Err(at.missing("value", id));
            }
        }
        let given = self.values[usize::from(store.value)].dtype;
        at.same(buffer.dtype, given)?;
        if let Some(scatter) = &store.scatter {
            self.check_stride(scatter.stride, at)?;
            self.check_word(scatter.len, at)?;
            let given = self.values[usize::from(scatter.index)].dtype;
            at.same(DType::I64, given)?;
            if buffer.mode != BufferMode::Update {
                return Err(ProgramError::new(format!(
                    "buffer {} is the target of a scatter and must be `update`",
                    access.buffer
                )));
            }
        }
        let mut values = store.values();
        let differs_in_row = self.access_level(store.access) == Level::Inner
            || values.any(|id| levels[usize::from(id)] == Level::Inner);
        if store.level == Level::Outer && differs_in_row {
            return Err(at.error(
                "runs once for each row, but its value or its address differs within the row: store it at the inner level",
            ));
        }
        Ok(())
    }

    /// Returns the type of the elements that an access loads, if its buffer is readable.
    fn loaded_type(&self, access: AccessId, at: At) -> Result<DType, ProgramError> {
        let Some(found) = self.accesses.get(usize::from(access)) else {
            return Err(at.missing("access", access));
        };
        let buffer = self.buffers[usize::from(found.buffer)];
        if buffer.mode == BufferMode::Write {
            return Err(ProgramError::new(format!(
                "buffer {} is write-only, but the nest loads from it: declare it as `update`",
                found.buffer
            )));
        }
        Ok(buffer.dtype)
    }

    fn check_word(&self, word: Word, at: At) -> Result<(), ProgramError> {
        match usize::from(word) < self.words {
            true => Ok(()),
            false => Err(at.missing("word", word)),
        }
    }

    fn check_stride(&self, stride: Stride, at: At) -> Result<(), ProgramError> {
        match stride {
            Stride::Word(word) => self.check_word(word, at),
            Stride::Zero | Stride::One => Ok(()),
        }
    }
}

/// An item of a nest: its kind and its index.
#[derive(Clone, Copy)]
struct At(&'static str, usize);

impl Checked for At {
    fn error(self, why: impl std::fmt::Display) -> ProgramError {
        ProgramError::new(format!("{} {} {why}", self.0, self.1))
    }
}
