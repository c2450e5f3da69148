//! Fills. The driver fills whole words of four bytes with one value; everything else is copied: patterns of eight bytes, and
//! fills that begin or end within a word, by doubling what is already filled.

use ash::vk;
use millstream_protocol::{BoundSlice, Pattern, QueueId, Refused};

use crate::device::VulkanDevice;
use crate::pages::Location;

/// Bytes of a fill that are copied from the host, before they are doubled.
const SEED_BYTES: usize = 4096;

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
        let commands = self.queues[queue.index()].record([target].into_iter())?;
        if let Some(word) = word_of(pattern)
            && (to.offset | target.len).is_multiple_of(4)
        {
            let (device, bytes) = (&self.context.device, target.len);
            // SAFETY: this thread records the command buffer, and the range lies within the page (`resolve`).
            unsafe { device.cmd_fill_buffer(commands.raw, to.buffer, to.offset, bytes, word) };
            return Ok(());
        }
        // Some repetitions of the pattern from the host, which are then doubled until the target is full.
        let seed = target.len.min(SEED_BYTES as u64);
        let (bytes, width) = (pattern.bytes(), usize::from(pattern.width));
        let mut repeated = [0; SEED_BYTES];
        for repetition in repeated[..seed as usize].chunks_mut(width) {
            repetition.copy_from_slice(&bytes[..repetition.len()]);
        }
        let (from, offset) = commands.store_source(&repeated[..seed as usize])?;
        let commands = commands.raw;
        let first = vk::BufferCopy {
            src_offset: offset,
            dst_offset: to.offset,
            size: seed,
        };
        self.copy_regions(commands, from, to.buffer, &[first]);
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
    use super::*;

    #[test]
    fn patterns_are_words_if_their_halves_are_equal() {
        assert_eq!(word_of(Pattern::of(0xAB_u8)), Some(0xABAB_ABAB));
        assert_eq!(word_of(Pattern::of(0x1234_u16)), Some(0x1234_1234));
        assert_eq!(word_of(Pattern::of(u64::MAX)), Some(u32::MAX));
        assert_eq!(word_of(Pattern::of(1_u64)), None);
    }
}
