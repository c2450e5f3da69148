//! Fills, as memsets of the driver. The driver sets elements of one, two or four bytes; longer patterns take several
//! memsets.

use cudarc::driver::sys::{CUdeviceptr, CUstream};
use millstream_protocol::Pattern;

use crate::driver::{Api, Code};

/// One memset of the driver: `height` rows of `width` elements, `pitch` bytes apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Memset {
    pub(crate) address: CUdeviceptr,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub(crate) element: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Memset {
    /// Submits the memset to a stream.
    ///
    /// # Safety
    /// The bytes lie within a page that is not freed before the memset has completed.
    pub(crate) unsafe fn issue(&self, api: &Api, stream: CUstream) -> Result<(), Code> {
        let (address, value, width) = (self.address, self.value, self.width);
        // SAFETY: the caller upholds the contract above.
        unsafe {
            match (self.height, self.element) {
                (1, 1) => api.fill_8(address, value as u8, width, stream),
                (1, 2) => api.fill_16(address, value as u16, width, stream),
                (1, _) => api.fill_32(address, value, width, stream),
                (height, _) => {
                    api.fill_8_2d(address, self.pitch, value as u8, width, height, stream)
                }
            }
        }
    }
}

/// Calls `each` with the memsets that fill `bytes` bytes at `address`, a multiple of the pattern, until `each` fails.
pub(crate) fn for_each_memset<E>(
    address: CUdeviceptr,
    bytes: usize,
    pattern: Pattern,
    mut each: impl FnMut(Memset) -> Result<(), E>,
) -> Result<(), E> {
    let unit = pattern.bytes();
    let width = usize::from(pattern.width).clamp(1, unit.len());
    let unit = &unit[..width];
    if bytes == 0 {
        return Ok(());
    }
    for element in [1, 4, 2] {
        let (first, repeats) = (&unit[..element.min(width)], width.is_multiple_of(element));
        if repeats && unit.chunks(element).all(|part| part == first) {
            let mut value = [0; 4];
            value[..element].copy_from_slice(first);
            return each(Memset {
                address,
                pitch: 0,
                value: u32::from_le_bytes(value),
                element: element as u32,
                width: bytes / element,
                height: 1,
            });
        }
    }
    // One memset for each byte of the pattern, with the pattern's width as the pitch.
    for (column, byte) in unit.iter().enumerate() {
        each(Memset {
            address: address + column as u64,
            pitch: width,
            value: u32::from(*byte),
            element: 1,
            width: 1,
            height: bytes / width,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn memsets_write_the_pattern_and_no_other_bytes(
            before in 0_usize..3,
            patterns in 0_usize..5,
            unit in prop_oneof![Just(1_u8), Just(2), Just(4), Just(8)],
            words in any::<u64>(),
        ) {
            let pattern = Pattern { value: words, width: unit };
            let (start, bytes) = (before * usize::from(unit), patterns * usize::from(unit));
            let mut memory = [None; 64];
            let set: Result<(), ()> = for_each_memset(start as u64, bytes, pattern, |set| {
            assert!(set.width > 0 && set.height > 0, "the driver refuses empty memsets");
                assert!(set.address.is_multiple_of(u64::from(set.element)));
                for row in 0..set.height {
                    for column in 0..set.width {
                        for byte in 0..set.element as usize {
                            let at = set.address as usize + row * set.pitch + column * set.element as usize + byte;
                            assert!(memory[at].is_none(), "byte {at} is written twice");
                            memory[at] = Some(set.value.to_le_bytes()[byte]);
                        }
                    }
                }
                Ok(())
            });
            prop_assert!(set.is_ok());
            for (at, byte) in memory.iter().enumerate() {
                let within = (start..start + bytes).contains(&at);
                let expected = within.then(|| words.to_le_bytes()[(at - start) % usize::from(unit)]);
                prop_assert_eq!(*byte, expected);
            }
        }
    }
}
