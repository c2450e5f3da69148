//! Checks nests: every reference names an existing item, types fit, and accesses respect the modes of their buffers.

use crate::DType;
use crate::nest::{Access, AccessId, BufferMode, Level, Nest, Op, Store, Stride, ValueId, Word};

/// The reason why a nest is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NestError {
    /// The nest has more items of a kind than an index can name.
    TooMany {
        /// The kind of item.
        what: &'static str,
        /// The number of items.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// A reference names an item that does not exist.
    Missing {
        /// The kind of item.
        what: &'static str,
        /// The index that the reference names.
        index: usize,
        /// The item that contains the reference, such as `value 3`.
        place: String,
    },
    /// An access does not have one stride for each axis.
    Rank {
        /// The access.
        access: usize,
        /// The number of strides.
        strides: usize,
        /// The number of axes.
        axes: usize,
    },
    /// An item has or uses a wrong type.
    Type {
        /// The item, such as `value 3`.
        place: String,
        /// The expected type.
        expected: String,
        /// The actual type.
        given: DType,
    },
    /// A buffer is accessed in a way that its mode does not allow.
    Mode {
        /// The buffer.
        buffer: usize,
        /// The reason.
        why: &'static str,
    },
    /// A store that runs once for each row has a value or an address that differs within the row.
    Level {
        /// The store.
        store: usize,
    },
    /// The epilogue of a product does not fit the product.
    Epilogue {
        /// The reason.
        why: &'static str,
    },
}

impl std::fmt::Display for NestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NestError::TooMany { what, given, limit } => {
                write!(f, "expected at most {limit} {what}, got {given}")
            }
            NestError::Missing { what, index, place } => {
                write!(f, "{place} names {what} {index}, which does not exist")
            }
            NestError::Rank {
                access,
                strides,
                axes,
            } => write!(
                f,
                "access {access} has {strides} strides, expected {axes}: one for each axis"
            ),
            NestError::Type {
                place,
                expected,
                given,
            } => write!(f, "{place} expects {expected}, got {given}"),
            NestError::Mode { buffer, why } => write!(f, "buffer {buffer} {why}"),
            NestError::Level { store } => write!(
                f,
                "store {store} runs once for each row, but its value or its address differs within the row: store it at the inner level"
            ),
            NestError::Epilogue { why } => write!(f, "the epilogue of a product {why}"),
        }
    }
}

impl std::error::Error for NestError {}

/// The maximum number of words, values, accesses and buffers each: a nest names them by 16-bit indices.
const COUNT_MAX: usize = u16::MAX as usize;

impl Nest {
    /// Checks the nest.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), NestError> {
        let counts = [
            ("words", self.words),
            ("values", self.values.len()),
            ("accesses", self.accesses.len()),
            ("buffers", self.buffers.len()),
        ];
        for (what, given) in counts {
            if given > COUNT_MAX {
                let limit = COUNT_MAX;
                return Err(NestError::TooMany { what, given, limit });
            }
        }
        if self.words < self.rank() {
            let (what, index) = ("word", self.rank() - 1);
            let place = format!("axis {index}");
            return Err(NestError::Missing { what, index, place });
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

    fn check_access(&self, index: usize, access: &Access) -> Result<(), NestError> {
        let place = || format!("access {index}");
        if usize::from(access.buffer) >= self.buffers.len() {
            return Err(missing("buffer", access.buffer, place()));
        }
        let (strides, axes) = (access.strides.len(), self.rank());
        if strides != axes {
            return Err(NestError::Rank {
                access: index,
                strides,
                axes,
            });
        }
        access
            .offset
            .iter()
            .try_for_each(|word| self.check_word(*word, place))?;
        access
            .strides
            .iter()
            .try_for_each(|stride| self.check_stride(*stride, place))
    }

    fn check_value(&self, index: usize) -> Result<(), NestError> {
        let value = &self.values[index];
        let place = || format!("value {index}");
        for operand in value.op.operands().iter() {
            if usize::from(*operand) >= index {
                return Err(missing("value", *operand, place()));
            }
        }
        let type_of = |id: &ValueId| self.values[usize::from(*id)].dtype;
        let same =
            |expected: DType, given: DType| expect(place, expected == given, expected, given);
        match &value.op {
            Op::Const(_) => Ok(()),
            Op::Word(word) => self.check_word(*word, place),
            Op::Index(axis) if usize::from(*axis) < self.rank() => same(DType::I64, value.dtype),
            Op::Index(axis) => Err(missing("axis", *axis, place())),
            Op::Load(access) => same(self.loaded_type(*access, place)?, value.dtype),
            Op::Gather {
                access,
                index,
                stride,
                len,
            } => {
                same(self.loaded_type(*access, place)?, value.dtype)?;
                self.check_stride(*stride, place)?;
                self.check_word(*len, place)?;
                same(DType::I64, type_of(index))
            }
            Op::Unary(op, a) => {
                expect(
                    place,
                    op.takes(type_of(a)),
                    format!("a type that `{op}` supports"),
                    type_of(a),
                )?;
                same(type_of(a), value.dtype)
            }
            Op::Binary(op, a, b) => {
                expect(
                    place,
                    op.takes(type_of(a)),
                    format!("a type that `{op}` supports"),
                    type_of(a),
                )?;
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
                self.check_word(*seed, place)?;
                same(DType::I64, type_of(counter))?;
                same(DType::U32, value.dtype)
            }
            Op::Reduce(op, a) => {
                expect(
                    place,
                    op.takes(type_of(a)),
                    format!("a type that `{op}` supports"),
                    type_of(a),
                )?;
                same(op.output(type_of(a)), value.dtype)
            }
        }
    }

    fn check_store(&self, index: usize, store: &Store, levels: &[Level]) -> Result<(), NestError> {
        let place = || format!("store {index}");
        let Some(access) = self.accesses.get(usize::from(store.access)) else {
            return Err(missing("access", store.access, place()));
        };
        let buffer = self.buffers[usize::from(access.buffer)];
        if buffer.mode == BufferMode::Read {
            let (buffer, why) = (
                usize::from(access.buffer),
                "is read-only, but the nest stores to it: declare it as `write` or `update`",
            );
            return Err(NestError::Mode { buffer, why });
        }
        let scattered = store.scatter.iter().map(|scatter| scatter.index);
        for id in scattered.clone().chain([store.value]) {
            if usize::from(id) >= self.values.len() {
                return Err(missing("value", id, place()));
            }
        }
        let given = self.values[usize::from(store.value)].dtype;
        expect(place, given == buffer.dtype, buffer.dtype, given)?;
        if let Some(scatter) = &store.scatter {
            self.check_stride(scatter.stride, place)?;
            self.check_word(scatter.len, place)?;
            let given = self.values[usize::from(scatter.index)].dtype;
            expect(place, given == DType::I64, DType::I64, given)?;
            if buffer.mode != BufferMode::Update {
                let (buffer, why) = (
                    usize::from(access.buffer),
                    "is the target of a scatter and must be `update`",
                );
                return Err(NestError::Mode { buffer, why });
            }
        }
        let differs_in_row = self.access_level(store.access) == Level::Inner
            || scattered
                .chain([store.value])
                .any(|id| levels[usize::from(id)] == Level::Inner);
        if store.level == Level::Outer && differs_in_row {
            return Err(NestError::Level { store: index });
        }
        Ok(())
    }

    /// Returns the type of the elements that an access loads, if its buffer is readable.
    fn loaded_type(
        &self,
        access: AccessId,
        place: impl Fn() -> String,
    ) -> Result<DType, NestError> {
        let Some(found) = self.accesses.get(usize::from(access)) else {
            return Err(missing("access", access, place()));
        };
        let buffer = self.buffers[usize::from(found.buffer)];
        if buffer.mode == BufferMode::Write {
            let (buffer, why) = (
                usize::from(found.buffer),
                "is write-only, but the nest loads from it: declare it as `update`",
            );
            return Err(NestError::Mode { buffer, why });
        }
        Ok(buffer.dtype)
    }

    fn check_word(&self, word: Word, place: impl Fn() -> String) -> Result<(), NestError> {
        if usize::from(word) < self.words {
            return Ok(());
        }
        Err(missing("word", word, place()))
    }

    fn check_stride(&self, stride: Stride, place: impl Fn() -> String) -> Result<(), NestError> {
        match stride {
            Stride::Word(word) => self.check_word(word, place),
            Stride::Zero | Stride::One => Ok(()),
        }
    }
}

#[cold]
fn missing(what: &'static str, index: u16, place: String) -> NestError {
    let index = usize::from(index);
    NestError::Missing { what, index, place }
}

/// Returns a [`NestError::Type`] unless `fits`.
fn expect(
    place: impl Fn() -> String,
    fits: bool,
    expected: impl ToString,
    given: DType,
) -> Result<(), NestError> {
    if fits {
        return Ok(());
    }
    let (place, expected) = (place(), expected.to_string());
    Err(NestError::Type {
        place,
        expected,
        given,
    })
}
