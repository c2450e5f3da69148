//! The metadata of a launch: the shapes and strides of its tensors, as `u32` words.
//!
//! The words are the static part and then the shapes and strides. The static part has for each tensor the rank, the
//! length, the length of its buffer, and the positions of its shape and its strides. Both parts are ordered: inputs,
//! outputs, tensor maps. [`Metadata::static_len`] is the length of the static part, which a compiler may address by
//! constant offsets.

use crate::error::{ArgumentError, ArgumentErrorKind};

/// The words of the static part per tensor: rank, len, buffer_len, position of the shape, position of the strides.
pub(super) const STATIC_WORDS: usize = 5;

/// The group of a tensor, in the order of the words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Group {
    Input,
    Output,
    TensorMap,
}

/// One tensor before its words are laid out.
#[derive(Clone, Debug)]
struct Entry {
    group: Group,
    shape: Vec<u32>,
    strides: Vec<u32>,
    len: u32,
    buffer_len: u32,
}

/// A builder of metadata words.
///
/// ```
/// use millstream_protocol::Metadata;
///
/// let metadata = Metadata::new().output(&[4], &[1], 4)?.input(&[2, 3], &[3, 1], 6)?;
/// assert_eq!(metadata.static_len(), 10);
/// let words = metadata.words();
/// assert_eq!(words[..5], [2, 6, 6, 10, 12]); // inputs come first
/// assert_eq!(words[10..14], [2, 3, 3, 1]);   // its shape, then its strides
/// # Ok::<(), millstream_protocol::ArgumentError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<Entry>,
}

impl Metadata {
    /// Creates metadata without tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input with this shape and these strides, in elements, and the number of elements of its buffer.
    ///
    /// # Errors
    /// If the ranks of shape and strides differ, or a length does not fit in 32 bits.
    pub fn input(
        self,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, ArgumentError> {
        self.tensor(Group::Input, shape, strides, buffer_len)
    }

    /// Adds an output.
    ///
    /// # Errors
    /// As [`Metadata::input`].
    pub fn output(
        self,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, ArgumentError> {
        self.tensor(Group::Output, shape, strides, buffer_len)
    }

    /// Adds a tensor that the kernel accesses through a tensor map.
    ///
    /// # Errors
    /// As [`Metadata::input`].
    pub fn tensor_map(
        self,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, ArgumentError> {
        self.tensor(Group::TensorMap, shape, strides, buffer_len)
    }

    fn tensor(
        mut self,
        group: Group,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, ArgumentError> {
        if shape.len() != strides.len() {
            return Err(ArgumentError::ranks(shape.len(), strides.len()));
        }
        let len = shape
            .iter()
            .try_fold(1_u64, |product, axis| product.checked_mul(*axis));
        let word = |value: u64| {
            u32::try_from(value).map_err(|_| {
                let message = format!(
                    "{value} does not fit in the 32 bits of a metadata word; pass it as a `u64` scalar"
                );
                ArgumentError::new(ArgumentErrorKind::TooLarge, message)
            })
        };
        let words = |values: &[u64]| {
            values
                .iter()
                .map(|value| word(*value))
                .collect::<Result<Vec<u32>, _>>()
        };
        self.entries.push(Entry {
            group,
            shape: words(shape)?,
            strides: words(strides)?,
            len: word(len.unwrap_or(u64::MAX))?,
            buffer_len: word(buffer_len)?,
        });
        Ok(self)
    }

    /// Returns the length of the static part, in words.
    pub fn static_len(&self) -> usize {
        self.entries.len() * STATIC_WORDS
    }

    /// Returns the words: the static part, then shapes and strides, both in the order inputs, outputs, tensor maps.
    pub fn words(&self) -> Vec<u32> {
        let mut order: Vec<&Entry> = self.entries.iter().collect();
        order.sort_by_key(|entry| entry.group);
        let mut fixed = Vec::with_capacity(self.static_len());
        let mut dynamic: Vec<u32> = Vec::new();
        for entry in order {
            let shape = self.static_len() + dynamic.len();
            let strides = shape + entry.shape.len();
            fixed.extend([
                entry.shape.len() as u32,
                entry.len,
                entry.buffer_len,
                shape as u32,
                strides as u32,
            ]);
            dynamic.extend(entry.shape.iter().chain(&entry.strides));
        }
        fixed.extend(dynamic);
        fixed
    }
}
