//! Metadata of a launch: what kernels need to know of their tensors.
//!
//! Words of `u32`, ordered: the static part (rank, length, buffer length, and where shapes and strides
//! begin, for each input, then each output, then each tensor map), then the shapes and strides
//! themselves. [`Metadata::static_len`] is the length of the static part, which a compiler may
//! address by constant offsets.

use crate::error::LaunchError;

/// Words of the static part per tensor: rank, len, buffer_len, shape offset, stride offset.
pub(super) const STATIC_WORDS: usize = 5;

/// The static part of one tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticMetadata {
    /// Number of axes.
    pub rank: u32,
    /// Elements of the tensor: the product of its shape.
    pub len: u32,
    /// Elements that the buffer behind it holds.
    pub buffer_len: u32,
    /// Index of its first shape word.
    pub shape: u32,
    /// Index of its first stride word.
    pub strides: u32,
}

/// Which group a tensor is in. Groups follow each other in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Group {
    Input,
    Output,
    TensorMap,
}

/// One tensor before it is laid out.
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
/// use millstream_protocol::launch::Metadata;
///
/// let metadata = Metadata::new().output(&[4], &[1], 4)?.input(&[2, 3], &[3, 1], 6)?;
/// assert_eq!(metadata.static_len(), 10);
/// let words = metadata.words();
/// assert_eq!(words[..5], [2, 6, 6, 10, 12]); // inputs come first
/// assert_eq!(words[10..14], [2, 3, 3, 1]);   // its shape, then its strides
/// # Ok::<(), millstream_protocol::error::LaunchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<Entry>,
}

impl Metadata {
    /// No tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input: its shape and strides in elements, and how many elements its buffer holds.
    ///
    /// # Errors
    /// When the ranks of shape and strides differ, or a length does not fit 32 bits.
    pub fn input(
        self,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, LaunchError> {
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
    ) -> Result<Self, LaunchError> {
        self.tensor(Group::Output, shape, strides, buffer_len)
    }

    /// Adds a tensor that is reached through a tensor map.
    ///
    /// # Errors
    /// As [`Metadata::input`].
    pub fn tensor_map(
        self,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, LaunchError> {
        self.tensor(Group::TensorMap, shape, strides, buffer_len)
    }

    fn tensor(
        mut self,
        group: Group,
        shape: &[u64],
        strides: &[u64],
        buffer_len: u64,
    ) -> Result<Self, LaunchError> {
        if shape.len() != strides.len() {
            return Err(LaunchError::Rank {
                shape: shape.len(),
                strides: strides.len(),
            });
        }
        let len = shape
            .iter()
            .try_fold(1_u64, |product, axis| product.checked_mul(*axis));
        let word =
            |value: u64| u32::try_from(value).map_err(|_| LaunchError::MetadataRange { value });
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

    /// Length of the static part, in words.
    pub fn static_len(&self) -> usize {
        self.entries.len() * STATIC_WORDS
    }

    /// The words, laid out: static part, then shapes and strides, both ordered inputs, outputs,
    /// tensor maps.
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

    /// The static part of tensor `index` of laid-out words.
    pub fn decode(words: &[u32], index: usize) -> Option<StaticMetadata> {
        match *words.get(index * STATIC_WORDS..(index + 1) * STATIC_WORDS)? {
            [rank, len, buffer_len, shape, strides] => Some(StaticMetadata {
                rank,
                len,
                buffer_len,
                shape,
                strides,
            }),
            _ => None,
        }
    }
}
