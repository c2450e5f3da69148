//! The scalar parameters of a recording, and their values in a replay.
//!
//! A parameter is one word of each replay, after the words that [`ReplayArgs::words`](crate::ReplayArgs::words) sets. The
//! launches that take it have a slot for it ([`ScalarSlot`](millstream_protocol::recording::ScalarSlot)).

use std::sync::Arc;

use millstream_protocol::{ArgumentError, Element, INLINE_WORDS, Task};
use smallvec::SmallVec;

use crate::arguments::{FOREIGN_PARAMETER, RecorderKey, ScalarParameter, scalar_parameter};

/// The scalar parameters of a recording.
pub(crate) struct ScalarParameters {
    pub(crate) key: Arc<RecorderKey>,
    /// For each parameter whether a launch takes it.
    pub(crate) is_used: Box<[bool]>,
}

/// The scalar parameters of one replay.
pub(crate) struct ScalarValues {
    /// One for each parameter: its value is the low bytes.
    words: SmallVec<[u64; INLINE_WORDS]>,
    is_set: SmallVec<[bool; INLINE_WORDS]>,
}

impl ScalarValues {
    #[inline]
    pub(crate) fn new(known: &ScalarParameters) -> Self {
        Self {
            words: SmallVec::from_elem(0, known.is_used.len()),
            is_set: SmallVec::from_elem(false, known.is_used.len()),
        }
    }

    /// Sets the value of a parameter.
    pub(crate) fn set<T: Element>(
        &mut self,
        known: &ScalarParameters,
        scalar: &ScalarParameter<T>,
        value: T,
    ) -> Result<(), ArgumentError> {
        let index = scalar.index();
        if !scalar.is_of(&known.key) {
            return Err(scalar_parameter(index, FOREIGN_PARAMETER));
        }
        let at = index as usize;
        if !known.is_used[at] {
            let what =
                "is taken by no launch of the recording; set only parameters that a launch takes";
            return Err(scalar_parameter(index, what));
        }
        if std::mem::replace(&mut self.is_set[at], true) {
            return Err(scalar_parameter(index, "is set twice; set it once"));
        }
        let word = bytemuck::bytes_of_mut(&mut self.words[at]);
        word[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        Ok(())
    }

    /// Checks that each parameter that a launch takes has a value.
    #[inline]
    pub(crate) fn check(&self, known: &ScalarParameters) -> Result<(), ArgumentError> {
        let is_unset = |(is_used, is_set): (&bool, &bool)| *is_used && !is_set;
        match known.is_used.iter().zip(&self.is_set).position(is_unset) {
            None => Ok(()),
            Some(index) => {
                let what = "has no value; set one with `ReplayArgs::set`";
                Err(scalar_parameter(index as u32, what))
            }
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
