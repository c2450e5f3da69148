//! Fills. The driver fills whole words of four bytes with one value; everything else is copied: a few unaligned bytes
//! at the ends, and patterns of eight bytes by doubling what is already filled.

use ash::vk;
use millstream_protocol::{BoundSlice, Pattern, QueueId, Refused};

use crate::device::VulkanDevice;
use crate::pages::Location;

/// Bytes of a fill that are copied from the host, before they are doubled.
const SEED_BYTES: usize = 4096;

/// Returns the bytes of a fill before the first whole word, those of whole words, and those after the last one.
fn parts(offset: u64, len: u64) -> [u64; 3] {
    let head = (offset.next_multiple_of(4) - offset).min(len);
    let words = (len - head) & !3;
    [head, words, len - head - words]
}

/// Returns the word that repeats a pattern, if there is one.
fn word_of(pattern: Pattern) -> Option<u32> {
    let low = pattern.value as u32;
    match pattern.width {
        1 => Some(u32::from_ne_bytes([low as u8; 4])),
        2 => Some(low << 16 | low & 0xFFFF),
        4 => Some(low),
        _ => (pattern.value >> 32 == u64::from(low)).then_some(low),
    }
}

impl VulkanDevice {
    /// Fills `target` with a pattern, in the queue's order.
    pub(crate) fn fill_with(
        &mut self,
        queue: QueueId,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let to = Location::of(target, &self.pages)?;
        if target.len == 0 {
            return Ok(());
        }
        match word_of(pattern) {
            Some(word) => self.fill_words(queue, target, to, word),
            None => self.fill_doubling(queue, target, to, pattern),
        }
    }

    fn fill_words(
        &mut self,
        queue: QueueId,
        target: &BoundSlice,
        to: Location,
        word: u32,
    ) -> Result<(), Refused> {
        let [head, words, tail] = parts(to.offset, target.len);
        let commands = self.queues[queue.index()].record([target].into_iter())?;
        let ends = match head + tail {
            0 => None,
            _ => Some(commands.store(&mut self.stored, &word.to_ne_bytes())?),
        };
        let commands = commands.raw;
        if words > 0 {
            let start = to.offset + head;
            // SAFETY: this thread records the command buffer, and the range lies within the page (`resolve`).
            unsafe {
                let device = &self.context.device;
                device.cmd_fill_buffer(commands, to.buffer, start, words, word);
            }
        }
        let Some(source) = ends else {
            return Ok(());
        };
        let end = |at: u64, size: u64| vk::BufferCopy {
            src_offset: source.offset,
            dst_offset: to.offset + at,
            size,
        };
        let ends = [end(0, head), end(head + words, tail)];
        for region in ends.iter().filter(|region| region.size > 0) {
            self.copy_regions(commands, source.buffer, to.buffer, &[*region]);
        }
        Ok(())
    }

    /// Copies some repetitions of the pattern from the host, then doubles them until the target is full.
    fn fill_doubling(
        &mut self,
        queue: QueueId,
        target: &BoundSlice,
        to: Location,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let seed = target.len.min(SEED_BYTES as u64);
        let (bytes, width) = (pattern.bytes(), usize::from(pattern.width));
        let mut repeated = [0; SEED_BYTES];
        for repetition in repeated[..seed as usize].chunks_mut(width) {
            repetition.copy_from_slice(&bytes[..repetition.len()]);
        }
        let commands = self.queues[queue.index()].record([target].into_iter())?;
        let source = commands.store(&mut self.stored, &repeated[..seed as usize])?;
        let commands = commands.raw;
        let first = vk::BufferCopy {
            src_offset: source.offset,
            dst_offset: to.offset,
            size: seed,
        };
        self.copy_regions(commands, source.buffer, to.buffer, &[first]);
        let mut filled = seed;
        while filled < target.len {
            let size = filled.min(target.len - filled);
            let region = vk::BufferCopy {
                src_offset: to.offset,
                dst_offset: to.offset + filled,
                size,
            };
            self.queues[queue.index()].separate()?;
            self.copy_regions(commands, to.buffer, to.buffer, &[region]);
            filled += size;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_cover_the_range_and_words_are_aligned(offset in 0..64_u64, len in 0..64_u64) {
            let [head, words, tail] = parts(offset, len);
            prop_assert_eq!(head + words + tail, len);
            prop_assert_eq!(words % 4, 0);
            prop_assert!(words == 0 || (offset + head) % 4 == 0);
            prop_assert!(head < 4 && tail < 4);
        }
    }

    #[test]
    fn patterns_are_words_if_their_halves_are_equal() {
        assert_eq!(word_of(Pattern::of(0xAB_u8)), Some(0xABAB_ABAB));
        assert_eq!(word_of(Pattern::of(0x1234_u16)), Some(0x1234_1234));
        assert_eq!(word_of(Pattern::of(u64::MAX)), Some(u32::MAX));
        assert_eq!(word_of(Pattern::of(1_u64)), None);
    }
}
