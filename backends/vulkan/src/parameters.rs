//! The parameter block of a launch: the addresses of its bindings, its words, and its grid. `millstream_spirv`
//! has the layout.

use std::ops::Range;

use millstream_protocol::Refused;

/// The most words of a parameter block.
pub(crate) const PARAMETERS_MAX: usize = 512;

/// Scratch space for the parameters of one launch.
pub(crate) struct Block {
    words: Box<[u64; PARAMETERS_MAX]>,
    len: usize,
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            words: Box::new([0; PARAMETERS_MAX]),
            len: 0,
        }
    }

    /// Removes all parameters.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds words. Words beyond the end of the block are dropped: the kernel was checked when it was compiled.
    #[inline]
    pub(crate) fn push(&mut self, words: &[u64]) {
        let room = &mut self.words[self.len..];
        let count = words.len().min(room.len());
        room[..count].copy_from_slice(&words[..count]);
        self.len += count;
    }

    /// Adds the scalars of a kernel in WGSL: each at its place, in `bytes` bytes.
    #[inline]
    pub(crate) fn place(&mut self, scalars: &[u64], places: &[(Range<usize>, usize)], bytes: u32) {
        let packed: &[u8] = bytemuck::cast_slice(scalars);
        let block: &mut [u8] = bytemuck::cast_slice_mut(self.words.as_mut_slice());
        for (from, to) in places {
            if let Some(value) = packed.get(from.clone()) {
                block[*to..*to + value.len()].copy_from_slice(value);
            }
        }
        self.len = (bytes as usize).div_ceil(size_of::<u64>());
    }

    /// Adds the words of metadata, of which the kernel expects `expected`. Missing words are 0.
    #[inline]
    pub(crate) fn push_metadata(&mut self, words: &[u32], expected: usize) -> Result<(), Refused> {
        if words.len() > expected {
            return Err(Refused::Task(format!(
                "expected at most {expected} words of metadata, got {}; set their number with `VulkanLaunch`",
                words.len()
            )));
        }
        let word = |at: usize| u64::from(words.get(at).copied().unwrap_or_default());
        for at in (0..expected).step_by(2) {
            self.push(&[word(at) | word(at + 1) << 32]);
        }
        Ok(())
    }

    /// Adds the grid: the cube counts, and the first cube, which is that of the whole launch.
    #[inline]
    pub(crate) fn push_grid(&mut self, [x, y, z]: [u32; 3]) {
        self.push(&[u64::from(x) | u64::from(y) << 32, u64::from(z), 0]);
    }

    /// Sets the first cube of the grid, which was added last, if the kernel has one.
    pub(crate) fn set_first_cube(&mut self, [x, y, z]: [u32; 3], has_grid: bool) {
        if has_grid && let [.., high, low] = &mut self.words[..self.len] {
            *high = (*high & u64::from(u32::MAX)) | u64::from(x) << 32;
            *low = u64::from(y) | u64::from(z) << 32;
        }
    }

    /// Returns the first `bytes` bytes. What was not added is 0 or from an earlier launch.
    #[inline]
    pub(crate) fn bytes(&self, bytes: u32) -> &[u8] {
        &bytemuck::cast_slice(self.words.as_slice())[..bytes as usize]
    }

    /// The number of words.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
