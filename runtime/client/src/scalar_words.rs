//! The words of a replay that hold scalar parameters.
//!
//! A replay sets whole words, while a scalar may be a part of one: `(dt: f32, factor: f32)` share a word, of which a
//! recording may fix `factor` and leave `dt` to each replay. So the recording keeps, for each such word, the fixed bits
//! and the places of the parameters; [`ReplayArgs`](crate::ReplayArgs) starts with the fixed bits and writes the values
//! into their places. The device receives plain words.
//!
//! Launches with equal words share one word of the replay.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_protocol::element::Element;
use millstream_protocol::error::ScalarMismatch;
use millstream_protocol::launch::INLINE_WORDS;
use millstream_protocol::message::Task;
use millstream_protocol::recording::WordSlot;
use smallvec::SmallVec;

use crate::arguments::{
    ArgumentError, RecorderKey, ScalarParameter, ScalarPlace, scalar_parameter,
};

/// The scalar parameters of a recording, and the words of a replay that they are written to.
pub(crate) struct ScalarWords {
    key: Arc<RecorderKey>,
    /// The fixed bits of each word. The bytes of parameters are 0.
    fixed: Vec<u64>,
    /// For each scalar parameter the places to which its value is written. None if no launch takes it.
    places: Vec<Vec<WordPart>>,
}

/// A part of a word of a replay.
#[derive(Clone, Copy)]
struct WordPart {
    word: u32,
    /// The first byte within the word.
    byte: u8,
}

impl ScalarWords {
    /// Writes the value of a parameter to all its places.
    fn write(&self, scalar: usize, value: &[u8], words: &mut [u64]) {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        for part in &self.places[scalar] {
            let start = part.word as usize * size_of::<u64>() + usize::from(part.byte);
            bytes[start..start + value.len()].copy_from_slice(value);
        }
    }
}

/// The scalar parameters of one replay.
pub(crate) struct ScalarValues {
    /// The fixed bits, and the values that are set.
    words: SmallVec<[u64; INLINE_WORDS]>,
    /// One for each scalar parameter.
    is_set: SmallVec<[bool; INLINE_WORDS]>,
}

impl ScalarValues {
    #[inline]
    pub(crate) fn new(known: &ScalarWords) -> Self {
        Self {
            words: SmallVec::from_slice(&known.fixed),
            is_set: SmallVec::from_elem(false, known.places.len()),
        }
    }

    /// Sets the value of a parameter.
    ///
    /// # Errors
    /// [`LaunchError::ScalarParameter`](millstream_protocol::error::LaunchError::ScalarParameter).
    pub(crate) fn set<T: Element>(
        &mut self,
        known: &ScalarWords,
        scalar: &ScalarParameter<T>,
        value: T,
    ) -> Result<(), ArgumentError> {
        let index = scalar.index();
        if !scalar.is_of(&known.key) {
            return Err(scalar_parameter(index, ScalarMismatch::Foreign));
        }
        let at = index as usize;
        if known.places[at].is_empty() {
            return Err(scalar_parameter(index, ScalarMismatch::Unused));
        }
        if std::mem::replace(&mut self.is_set[at], true) {
            return Err(scalar_parameter(index, ScalarMismatch::Twice));
        }
        known.write(at, bytemuck::bytes_of(&value), &mut self.words);
        Ok(())
    }

    /// Checks that each parameter that a launch takes has a value.
    ///
    /// # Errors
    /// [`LaunchError::ScalarParameter`](millstream_protocol::error::LaunchError::ScalarParameter).
    #[inline]
    pub(crate) fn check(&self, known: &ScalarWords) -> Result<(), ArgumentError> {
        let is_unset = |(places, is_set): (&Vec<WordPart>, &bool)| !is_set && !places.is_empty();
        match known.places.iter().zip(&self.is_set).position(is_unset) {
            None => Ok(()),
            Some(index) => Err(scalar_parameter(index as u32, ScalarMismatch::Unset)),
        }
    }

    /// Sets the words of a replay: `own`, then those of scalar parameters.
    #[inline]
    pub(crate) fn set_after(&self, own: &[u64], task: &mut Task) {
        if self.words.is_empty() {
            task.set_scalars(own);
        } else if own.is_empty() {
            task.set_scalars(&self.words);
        } else {
            let mut all: SmallVec<[u64; INLINE_WORDS]> = SmallVec::from_slice(own);
            all.extend_from_slice(&self.words);
            task.set_scalars(&all);
        }
    }
}

/// The contents of one word: its fixed bits, and the first byte of each parameter in it.
#[derive(PartialEq, Eq, Hash)]
struct WordLayout {
    fixed: u64,
    parts: SmallVec<[(u8, u32); 2]>,
}

/// [`ScalarWords`] that are being made.
pub(crate) struct ScalarWordsBuilder {
    words: ScalarWords,
    known: HashMap<WordLayout, u32>,
    /// The slot of the first word: slots before it are the recorder's own.
    first: u32,
}

impl ScalarWordsBuilder {
    /// Starts the words of a recorder with this key and number of scalar parameters.
    pub(crate) fn new(key: Arc<RecorderKey>, parameters: u32, first: u32) -> Self {
        let places = vec![Vec::new(); parameters as usize];
        let fixed = Vec::new();
        Self {
            words: ScalarWords { key, fixed, places },
            known: HashMap::new(),
            first,
        }
    }

    /// Adds the words of a launch in which `places` are parameters, and returns their slots in ascending order of words.
    pub(crate) fn add(&mut self, scalars: &[u64], mut places: &[ScalarPlace]) -> Vec<WordSlot> {
        debug_assert!(places.is_sorted_by_key(|place| place.offset / WORD));
        let mut slots = Vec::new();
        while let Some(first) = places.first() {
            let word = first.offset / WORD;
            let same = places.partition_point(|place| place.offset / WORD == word);
            let (mine, others) = places.split_at(same);
            let part = |place: &ScalarPlace| ((place.offset % WORD) as u8, place.scalar);
            let layout = WordLayout {
                fixed: scalars[word as usize],
                parts: mine.iter().map(part).collect(),
            };
            let slot = self.first + self.word(layout);
            slots.push(WordSlot { word, slot });
            places = others;
        }
        slots
    }

    fn word(&mut self, layout: WordLayout) -> u32 {
        if let Some(word) = self.known.get(&layout) {
            return *word;
        }
        let word = self.words.fixed.len() as u32;
        self.words.fixed.push(layout.fixed);
        for &(byte, scalar) in &layout.parts {
            self.words.places[scalar as usize].push(WordPart { word, byte });
        }
        self.known.insert(layout, word);
        word
    }

    pub(crate) fn finish(self) -> ScalarWords {
        self.words
    }
}

/// The bytes of a word.
const WORD: u32 = size_of::<u64>() as u32;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(scalar: u32, offset: u32) -> ScalarPlace {
        ScalarPlace { scalar, offset }
    }

    #[test]
    fn equal_words_share_a_slot_and_fixed_bits_remain() {
        let mut words = ScalarWordsBuilder::new(RecorderKey::new(), 3, 2);
        let slot = |word, slot| WordSlot { word, slot };
        // A word with a parameter in its low half, a fixed word, and a word that is a parameter.
        let first = words.add(&[7 << 32, 9, 0], &[place(0, 0), place(1, 16)]);
        assert_eq!(first, [slot(0, 2), slot(2, 3)]);
        assert_eq!(words.add(&[0, 7 << 32], &[place(0, 8)]), [slot(1, 2)]);
        assert_eq!(words.add(&[8 << 32], &[place(0, 0)]), [slot(0, 4)]);
        assert_eq!(words.add(&[1, 2], &[]), []);
        let words = words.finish();
        let mut values = ScalarValues::new(&words);
        let parameter = |index| ScalarParameter::<u32>::new(index, words.key.clone());
        values.set(&words, &parameter(0), 5).unwrap();
        assert!(values.check(&words).is_err());
        values.set(&words, &parameter(1), 6).unwrap();
        values.check(&words).unwrap();
        assert_eq!(values.words[..], [7 << 32 | 5, 6, 8 << 32 | 5]);
        assert!(values.set(&words, &parameter(2), 0).is_err());
    }
}
