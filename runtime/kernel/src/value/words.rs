//! Elements in memory, as the words that they consist of.
//!
//! Memory of the IR has elements of one number type. Elements that are structs, tuples or arrays are several words of it each:
//! of the numbers' type if they have one type, otherwise unsigned integers of the size of the smallest. A number of another type
//! is the bits of a word, and a larger number is several words, the low one first.

use millstream_ir::ssa::{MemoryRef, Operand, PARTS_BEYOND, Val};
use millstream_ir::{CompareOp, DType};

/// An element in memory, by its first word.
#[derive(Clone, Copy)]
pub struct Words<'k> {
    memory: MemoryRef<'k>,
    /// A word.
    base: Option<Val<'k>>,
    /// The number of words from `base`, or from the first of the memory, up to the first of the element.
    behind: i64,
    /// Whether the memory has other words, too: its length does not tell which are those of the element.
    is_part: bool,
}

impl<'k> Words<'k> {
    pub(crate) fn new(memory: MemoryRef<'k>) -> Self {
        let (base, behind) = (None, 0);
        Self {
            memory,
            base,
            behind,
            is_part: false,
        }
    }

    /// Returns the same, which are not all words of the memory.
    pub(crate) fn part(self) -> Self {
        let is_part = true;
        Self { is_part, ..self }
    }

    pub(crate) fn is_part(self) -> bool {
        self.is_part
    }

    /// Returns the index of an element of this size that is out of bounds in each memory, also behind other elements.
    pub(crate) fn far(self, bytes: usize) -> i64 {
        2 * PARTS_BEYOND.start / (bytes / self.word_bytes()).max(1) as i64
    }

    pub(crate) fn memory(self) -> MemoryRef<'k> {
        self.memory
    }

    /// Returns the size of a word in bytes.
    fn word_bytes(self) -> usize {
        self.memory.dtype().size()
    }

    /// Returns the part of the element that begins this number of bytes behind its start.
    pub fn behind(self, bytes: usize) -> Self {
        // An index that the kernel's text has may be any number.
        let behind = self.behind.wrapping_add((bytes / self.word_bytes()) as i64);
        Self { behind, ..self }.part()
    }

    /// Returns the element of this size with an index. No index that a memory has overflows the product; that of an index that
    /// is computed and more than 2^58 may wrap.
    pub(crate) fn element(self, at: Operand<'k>, bytes: usize) -> Self {
        let words = (bytes / self.word_bytes()) as i64;
        let at = match at {
            Operand::Int(at, _) => {
                let behind = at
                    .checked_mul(words)
                    .and_then(|at| at.checked_add(self.behind));
                // No memory has the last number, nor those behind it.
                let behind = behind.unwrap_or(i64::MAX);
                return Self { behind, ..self }.part();
            }
            Operand::Val(at) if words == 1 => at,
            Operand::Val(at) => at * words,
            Operand::Float(..) => unreachable!("an index is an integer"),
        };
        let base = Some(self.base.map_or(at, |base| base + at));
        Self { base, ..self }.part()
    }

    /// Returns the index of a word from the first one on.
    fn word(self, number: usize) -> Operand<'k> {
        let behind = self.behind.wrapping_add(number as i64);
        match self.base {
            None => Operand::Int(behind, DType::I64),
            Some(base) if behind == 0 => base.into(),
            Some(base) => (base + behind).into(),
        }
    }

    /// Loads a number.
    pub(crate) fn load(self, dtype: DType) -> Val<'k> {
        let of_word = self.memory.dtype();
        let words = dtype.size() / self.word_bytes();
        let first = self.memory.get(self.word(0));
        if of_word == dtype {
            return first;
        }
        if dtype == DType::Bool {
            return first.compare(CompareOp::Ne, 0);
        }
        let wide = dtype.unsigned();
        let part = |word: Val<'k>| word.bits(of_word.unsigned()).cast(wide);
        let all = (1..words).fold(part(first), |low, number| {
            let shift = (8 * number * self.word_bytes()) as i64;
            let word = part(self.memory.get(self.word(number)));
            low | word.binary(millstream_ir::BinaryOp::Shl, shift)
        });
        all.bits(dtype)
    }

    /// Stores a number.
    pub(crate) fn store(self, dtype: DType, value: Val<'k>) {
        let of_word = self.memory.dtype();
        let words = dtype.size() / self.word_bytes();
        if of_word == dtype {
            return self.memory.set(self.word(0), value);
        }
        if dtype == DType::Bool {
            return self.memory.set(self.word(0), value.cast(of_word));
        }
        let bits = value.bits(dtype.unsigned());
        for number in 0..words {
            let shift = (8 * number * self.word_bytes()) as i64;
            let word = match number {
                0 => bits,
                _ => bits.binary(millstream_ir::BinaryOp::Shr, shift),
            };
            let word = word.cast(of_word.unsigned()).bits(of_word);
            self.memory.set(self.word(number), word);
        }
    }
}

/// Adds the words that a number consists of, the low one first.
pub(crate) fn split(bits: u64, dtype: DType, word: DType, to: &mut Vec<u64>) {
    let mask = u64::MAX >> (64 - 8 * word.size());
    for number in 0..dtype.size() / word.size() {
        to.push(bits >> (8 * number * word.size()) & mask);
    }
}
