//! Wide accesses to buffers: neighbours as one vector of words. Lanes of less than 32 bits share a word.
//!
//! Shared arrays and locals are accessed lane by lane: their elements have one type, and drivers combine the accesses.

use millstream_ir::DType;
use millstream_ir::ssa::{Memory, Type, ValueId};
use spirv::{Op, Word};

use crate::body::{Body, Lane};

const WORD_BYTES: usize = 4;

/// A vector in memory.
#[derive(Clone, Copy)]
struct Vector {
    /// The type of a component.
    word: DType,
    /// The number of components.
    words: u32,
    /// The lanes in each component.
    lanes: u8,
}

impl Vector {
    /// Returns the vector of a wide access, if it is one.
    fn of(memory: Memory, of: Type) -> Option<Self> {
        let bytes = of.dtype.size() * usize::from(of.lanes);
        if of.lanes == 1 || bytes < WORD_BYTES || !matches!(memory, Memory::Param(_)) {
            return None;
        }
        let shares = of.dtype.size() < WORD_BYTES;
        Some(Self {
            word: if shares { DType::U32 } else { of.dtype },
            words: (bytes / of.dtype.size().max(WORD_BYTES)) as u32,
            lanes: (WORD_BYTES / of.dtype.size()).max(1) as u8,
        })
    }
}

impl Body<'_> {
    /// Returns the type of a vector.
    fn vector(&mut self, vector: Vector) -> Word {
        let word = self.unit.emit.of(vector.word);
        match vector.words {
            1 => word,
            words => self.unit.emit.vector(word, words),
        }
    }

    /// Returns a place for a vector of a buffer, with the index of its first lane.
    fn wide_place(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        of: Type,
        element: Word,
    ) -> crate::memory::Place {
        let Memory::Param(param) = memory else {
            unreachable!("only buffers have wide accesses");
        };
        let index = self.index(at, 0);
        self.buffer_place(param, index, element, of)
    }

    /// Lowers a wide load from a buffer. `None` if it is to be lowered lane by lane.
    pub(crate) fn load_wide(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        of: Type,
    ) -> Option<Vec<Lane>> {
        let vector = Vector::of(memory, of)?;
        let element = self.vector(vector);
        let place = self.wide_place(memory, at, of, element);
        let loaded = self.unit.emit.load(element, place.pointer, place.aligned);
        let mut lanes = Vec::with_capacity(of.lanes.into());
        for component in 0..vector.words {
            let word = match vector.words {
                1 => loaded,
                _ => self.op(Op::CompositeExtract, vector.word, &[loaded, component]),
            };
            for lane in 0..vector.lanes {
                let id = match vector.lanes {
                    1 => word,
                    _ => self.unpacked(of.dtype, word, lane),
                };
                lanes.push(id.into());
            }
        }
        Some(lanes)
    }

    /// Lowers a wide store to a buffer. Returns `false` if it is to be lowered lane by lane.
    pub(crate) fn store_wide(
        &mut self,
        memory: Memory,
        at: Option<ValueId>,
        value: ValueId,
    ) -> bool {
        let of = self.of(value);
        let Some(vector) = Vector::of(memory, of) else {
            return false;
        };
        let lanes: Vec<Word> = (0..of.lanes).map(|lane| self.get(value, lane).id).collect();
        let words = lanes.chunks(vector.lanes.into());
        let words = words.map(|lanes| match lanes {
            [word] => *word,
            lanes => self.packed(of.dtype, lanes),
        });
        let words: Vec<Word> = words.collect();
        let element = self.vector(vector);
        let stored = match words[..] {
            [word] => word,
            _ => self.unit.emit.op(Op::CompositeConstruct, element, &words),
        };
        let place = self.wide_place(memory, at, of, element);
        self.unit.emit.store(place.pointer, stored, place.aligned);
        true
    }

    /// Returns one of the lanes that share a word.
    fn unpacked(&mut self, dtype: DType, word: Word, lane: u8) -> Word {
        let by = u64::from(lane) * 8 * dtype.size() as u64;
        let shifted = match by {
            0 => word,
            by => {
                let by = self.constant(DType::U32, by).id;
                self.op(Op::ShiftRightLogical, DType::U32, &[word, by])
            }
        };
        if dtype == DType::Bool {
            let mask = self.constant(DType::U32, 0xff).id;
            let byte = self.op(Op::BitwiseAnd, DType::U32, &[shifted, mask]);
            return self.cast(DType::U32, DType::Bool, byte);
        }
        self.op(Op::UConvert, dtype, &[shifted])
    }

    /// Returns a word with these lanes.
    fn packed(&mut self, dtype: DType, lanes: &[Word]) -> Word {
        let lanes = lanes.iter().enumerate().map(|(index, lane)| {
            let wide = match dtype {
                DType::Bool => self.cast(DType::Bool, DType::U32, *lane),
                _ => self.op(Op::UConvert, DType::U32, &[*lane]),
            };
            if index == 0 {
                return wide;
            }
            let by = (index * 8 * dtype.size()) as u64;
            let by = self.constant(DType::U32, by).id;
            self.op(Op::ShiftLeftLogical, DType::U32, &[wide, by])
        });
        let lanes: Vec<Word> = lanes.collect();
        let both = |below, lane| self.op(Op::BitwiseOr, DType::U32, &[below, lane]);
        // A word has several lanes.
        lanes.into_iter().reduce(both).unwrap_or_default()
    }
}
