//! The slots of a schedule: the launch words that each run computes.

use std::collections::HashMap;

use millstream_protocol::recording::RecordedWord;

use crate::lazy::scalar::Scalar;
use crate::schedule::item::{Item, WordValue};
use crate::size::Size;

/// The words that each run computes, in the order of their first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// Sizes that depend on symbols, and scalars.
    pub(crate) all: Vec<WordValue>,
    of_sizes: HashMap<Size, u32>,
    /// By the keys of scalars.
    of_scalars: HashMap<usize, u32>,
}

impl Slots {
    pub(super) fn new(items: &[Item]) -> Self {
        let mut slots = Self::default();
        for word in items.iter().flat_map(|item| &item.words) {
            let next = slots.all.len() as u32;
            let slot = match word {
                WordValue::Bits(_) => continue,
                WordValue::Size(size) if size.known().is_some() => continue,
                WordValue::Size(size) => *slots.of_sizes.entry(size.clone()).or_insert(next),
                WordValue::Scalar(scalar) => *slots.of_scalars.entry(scalar.key()).or_insert(next),
            };
            if slot == next {
                slots.all.push(word.clone());
            }
        }
        slots
    }

    /// Returns the slot of a scalar.
    pub(crate) fn scalar(&self, scalar: &Scalar) -> Option<u32> {
        self.of_scalars.get(&scalar.key()).copied()
    }

    /// Returns a word of an item as it is recorded.
    pub(crate) fn recorded(&self, word: &WordValue) -> RecordedWord {
        match word {
            WordValue::Bits(bits) => RecordedWord::Value(*bits),
            WordValue::Scalar(scalar) => RecordedWord::Slot(self.of_scalars[&scalar.key()]),
            WordValue::Size(size) => match size.known() {
                Some(value) => RecordedWord::Value(value as u64),
                None => RecordedWord::Slot(self.of_sizes[size]),
            },
        }
    }
}
