//! Is a nest right? Each wrong one is told why.

use crate::DType;
use crate::nest::{Access, AccessId, BufferMode, Level, Nest, Op, Store, Stride, ValueId, Word};

/// Why a nest is not one.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NestError {
    /// There are more of something than an index can name.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Something is named that does not exist.
    Missing {
        /// What kind of thing.
        what: &'static str,
        /// Its index.
        index: usize,
        /// Where it is named.
        place: String,
    },
    /// An access has not one stride for each axis.
    Rank {
        /// Which access.
        access: usize,
        /// Its strides.
        strides: usize,
        /// The axes.
        axes: usize,
    },
    /// A type does not fit.
    Type {
        /// Where.
        place: String,
        /// What was expected.
        expected: String,
        /// What was given.
        given: DType,
    },
    /// A buffer is touched otherwise than it says.
    Mode {
        /// Which buffer.
        buffer: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// A value of each element is stored once a row, or a store at the level of rows moves along them.
    Level {
        /// Which store.
        store: usize,
    },
    /// The epilogue of a product is not over the product.
    Epilogue {
        /// What is wrong.
        why: &'static str,
    },
}

impl std::fmt::Display for NestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NestError::TooMany { what, given, limit } => {
                write!(f, "{given} {what} are more than {limit}")
            }
            NestError::Missing { what, index, place } => {
                write!(f, "{place} names {what} {index}, which is not there")
            }
            NestError::Rank {
                access,
                strides,
                axes,
            } => write!(f, "access {access} has {strides} strides for {axes} axes"),
            NestError::Type {
                place,
                expected,
                given,
            } => write!(f, "{place} takes {expected}, not {given}"),
            NestError::Mode { buffer, why } => write!(f, "buffer {buffer} {why}"),
            NestError::Level { store } => write!(
                f,
                "store {store} is made once a row, but its value or its place differs within the row"
            ),
            NestError::Epilogue { why } => write!(f, "the epilogue of a product {why}"),
        }
    }
}

impl std::error::Error for NestError {}

/// Most words, values or accesses.
const MOST: usize = u16::MAX as usize;

impl Nest {
    /// Is this a nest?
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), NestError> {
        let counts = [
            ("words", self.words),
            ("values", self.values.len()),
            ("accesses", self.accesses.len()),
            ("buffers", self.buffers.len()),
        ];
        for (what, given) in counts {
            if given > MOST {
                let limit = MOST;
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
        let (access_index, strides, axes) = (index, access.strides.len(), self.rank());
        if strides != axes {
            return Err(NestError::Rank {
                access: access_index,
                strides,
                axes,
            });
        }
        access
            .offset
            .iter()
            .try_for_each(|word| self.has_word(*word, place))?;
        access
            .strides
            .iter()
            .try_for_each(|stride| self.has_stride(*stride, place))
    }

    fn check_value(&self, index: usize) -> Result<(), NestError> {
        let value = &self.values[index];
        let place = || format!("value {index}");
        for operand in value.op.operands().iter() {
            if usize::from(*operand) >= index {
                return Err(missing("value", *operand, place()));
            }
        }
        let of = |id: &ValueId| self.values[usize::from(*id)].dtype;
        let same =
            |expected: DType, given: DType| expect(place, expected == given, expected, given);
        match &value.op {
            Op::Const(_) => Ok(()),
            Op::Word(word) => self.has_word(*word, place),
            Op::Index(axis) if usize::from(*axis) < self.rank() => same(DType::I64, value.dtype),
            Op::Index(axis) => Err(missing("axis", *axis, place())),
            Op::Load(access) => same(self.loads(*access, place)?, value.dtype),
            Op::Gather {
                access,
                index,
                stride,
                len,
            } => {
                same(self.loads(*access, place)?, value.dtype)?;
                self.has_stride(*stride, place)?;
                self.has_word(*len, place)?;
                same(DType::I64, of(index))
            }
            Op::Unary(op, a) => {
                expect(place, op.takes(of(a)), format!("what `{op}` is for"), of(a))?;
                same(of(a), value.dtype)
            }
            Op::Binary(op, a, b) => {
                expect(place, op.takes(of(a)), format!("what `{op}` is for"), of(a))?;
                same(of(a), of(b))?;
                same(of(a), value.dtype)
            }
            Op::Compare(_, a, b) => {
                same(of(a), of(b))?;
                same(DType::Bool, value.dtype)
            }
            Op::Select(condition, a, b) => {
                same(DType::Bool, of(condition))?;
                same(of(a), of(b))?;
                same(of(a), value.dtype)
            }
            Op::Cast(_) => Ok(()),
            Op::Random { seed, counter } => {
                self.has_word(*seed, place)?;
                same(DType::I64, of(counter))?;
                same(DType::U32, value.dtype)
            }
            Op::Reduce(op, a) => {
                expect(place, op.takes(of(a)), format!("what `{op}` is for"), of(a))?;
                same(op.output(of(a)), value.dtype)
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
            let (buffer, why) = (usize::from(access.buffer), "is only read, and stored to");
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
            self.has_stride(scatter.stride, place)?;
            self.has_word(scatter.len, place)?;
            let given = self.values[usize::from(scatter.index)].dtype;
            expect(place, given == DType::I64, DType::I64, given)?;
            if buffer.mode != BufferMode::Update {
                let (buffer, why) = (
                    usize::from(access.buffer),
                    "is scattered to, so it is updated",
                );
                return Err(NestError::Mode { buffer, why });
            }
        }
        let moves = self.access_level(store.access) == Level::Inner
            || scattered
                .chain([store.value])
                .any(|id| levels[usize::from(id)] == Level::Inner);
        if store.level == Level::Outer && moves {
            return Err(NestError::Level { store: index });
        }
        Ok(())
    }

    /// The type of what an access loads.
    fn loads(&self, access: AccessId, place: impl Fn() -> String) -> Result<DType, NestError> {
        let Some(found) = self.accesses.get(usize::from(access)) else {
            return Err(missing("access", access, place()));
        };
        let buffer = self.buffers[usize::from(found.buffer)];
        if buffer.mode == BufferMode::Write {
            let (buffer, why) = (
                usize::from(found.buffer),
                "is only written, and loaded from",
            );
            return Err(NestError::Mode { buffer, why });
        }
        Ok(buffer.dtype)
    }

    fn has_word(&self, word: Word, place: impl Fn() -> String) -> Result<(), NestError> {
        if usize::from(word) < self.words {
            return Ok(());
        }
        Err(missing("word", word, place()))
    }

    fn has_stride(&self, stride: Stride, place: impl Fn() -> String) -> Result<(), NestError> {
        match stride {
            Stride::Word(word) => self.has_word(word, place),
            Stride::Zero | Stride::One => Ok(()),
        }
    }
}

#[cold]
fn missing(what: &'static str, index: u16, place: String) -> NestError {
    let index = usize::from(index);
    NestError::Missing { what, index, place }
}

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
