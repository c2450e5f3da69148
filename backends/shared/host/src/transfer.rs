//! Copies and fills, dense and strided.
//!
//! Large dense ones are spread over a team, because one thread rarely uses all of a machine's bandwidth.
//! [`for_each_run`] refuses a copy that does not fit its memory before it moves a byte.

use std::ops::Range;

use millstream_protocol::{Landing, Misfit, NativeView, Pattern, Strided, for_each_run};

use crate::Team;

/// Fewer bytes are not worth a team: one thread takes about a hundred microseconds.
const SHARED_BYTES_MIN: usize = 2 << 20;

/// Bytes that one thread moves in a nanosecond. The team wakes a thread for each [`SHARED_BYTES_MIN`].
/// More than one thread moves, because threads share the bandwidth.
const BYTES_PER_NS: usize = 52;

/// Bytes that a thread takes at a time, a multiple of every pattern width.
const PIECE_BYTES: usize = 256 << 10;

/// A copy or a fill.
pub enum Transfer<'a> {
    /// Copies dense bytes of the host to the places in the first view that the layout gives.
    In {
        /// The bytes, which overlap no view.
        source: &'a [u8],
        /// The places; dense without one.
        layout: Option<&'a Strided>,
    },
    /// Copies the bytes at the places in the first view that the layout gives to dense memory of the host.
    Out {
        /// The memory, which overlaps no view.
        landing: &'a dyn Landing,
        /// The places; dense without one.
        layout: Option<&'a Strided>,
    },
    /// Copies the first view to the second, which has the same length (checked when the copy was queued). They may
    /// overlap.
    Copy,
    /// Fills the first view, whose length is a multiple of the pattern.
    Fill(Pattern),
}

/// A pointer that the threads of one copy share; they use disjoint ranges of it.
#[derive(Clone, Copy)]
struct SharedPointer(*mut u8);

// SAFETY: threads use disjoint ranges of it, within one copy.
unsafe impl Sync for SharedPointer {}

impl SharedPointer {
    /// Returns a pointer to the byte at this offset.
    ///
    /// # Safety
    /// As for `pointer::add`.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

impl Transfer<'_> {
    /// Moves the bytes.
    ///
    /// # Errors
    /// A side and its layout do not fit. Then no byte has moved.
    ///
    /// # Safety
    /// Nothing else writes the memory of the views, and nothing else reads what is written. The landing belongs to this
    /// task.
    pub unsafe fn run(self, team: &mut dyn Team, views: &[NativeView]) -> Result<(), Misfit> {
        let Some(first) = views.first().copied() else {
            return Ok(());
        };
        match self {
            Transfer::In { source, layout } => {
                for_each_run(
                    layout,
                    first.bytes,
                    source.len() as u64,
                    |strided, dense, bytes| {
                        // SAFETY: both ranges lie within their sides, which do not overlap.
                        unsafe {
                            let (from, to) =
                                (source.as_ptr().add(dense), first.pointer.add(strided));
                            move_run(team, layout, from, to, bytes);
                        }
                    },
                )
            }
            Transfer::Out { landing, layout } => {
                let (target, len) = landing.target();
                for_each_run(layout, first.bytes, len as u64, |strided, dense, bytes| {
                    // SAFETY: as above.
                    unsafe {
                        let (from, to) = (first.pointer.add(strided), target.add(dense));
                        move_run(team, layout, from, to, bytes);
                    }
                })
            }
            Transfer::Copy => {
                let target = views.get(1).copied().unwrap_or(first);
                let bytes = first.bytes.min(target.bytes) as usize;
                let apart = first.pointer.addr().abs_diff(target.pointer.addr());
                // SAFETY: both sides have that many bytes, and do not overlap in the second case.
                unsafe {
                    match apart < bytes {
                        true => first.pointer.copy_to(target.pointer, bytes),
                        false => move_bytes(team, first.pointer, target.pointer, bytes),
                    }
                }
                Ok(())
            }
            Transfer::Fill(pattern) => {
                // SAFETY: the caller's promise.
                unsafe { fill(team, first, pattern) };
                Ok(())
            }
        }
    }
}

/// Runs `work` over disjoint ranges that make up `bytes`, on the team if that is worthwhile. Ranges begin at
/// multiples of `PIECE_BYTES`. `work` must not panic.
fn spread(team: &mut dyn Team, bytes: usize, work: impl Fn(Range<usize>) + Sync) {
    if bytes < SHARED_BYTES_MIN || team.threads() == 1 {
        return work(0..bytes);
    }
    let pieces = bytes.div_ceil(PIECE_BYTES) as u64;
    let shared = team.share(pieces, (bytes / BYTES_PER_NS) as u64, &|range| {
        let (start, end) = (range.start as usize, range.end as usize);
        work(start * PIECE_BYTES..bytes.min(end * PIECE_BYTES));
    });
    debug_assert!(shared.is_ok(), "copying bytes does not panic");
}

/// Copies `len` bytes that do not overlap; on the team, if they are the only run.
///
/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn move_run(
    team: &mut dyn Team,
    layout: Option<&Strided>,
    source: *const u8,
    target: *mut u8,
    len: usize,
) {
    // SAFETY: the caller's promises.
    unsafe {
        match layout {
            None => move_bytes(team, source, target, len),
            Some(_) => source.copy_to_nonoverlapping(target, len),
        }
    }
}

/// Copies `len` bytes that do not overlap.
///
/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn move_bytes(team: &mut dyn Team, source: *const u8, target: *mut u8, len: usize) {
    let (source, target) = (SharedPointer(source.cast_mut()), SharedPointer(target));
    spread(team, len, |range| {
        // SAFETY: the range lies within both sides, and only this thread uses it.
        unsafe {
            let from = source.at(range.start);
            from.copy_to_nonoverlapping(target.at(range.start), range.len());
        }
    });
}

/// Fills `target`.
///
/// # Safety
/// Only this task touches the memory of `target`.
unsafe fn fill(team: &mut dyn Team, target: NativeView, pattern: Pattern) {
    let width = usize::from(pattern.width).clamp(1, 8);
    // Widths divide eight, so the pattern restarts at every eighth byte, and so at every piece.
    let value = pattern.bytes();
    let block: [u8; 8] = std::array::from_fn(|index| value[index % width]);
    let uniform = block.iter().all(|byte| *byte == block[0]);
    let start = SharedPointer(target.pointer);
    spread(team, target.bytes as usize, |range| {
        // SAFETY: the range lies within the memory, which is initialized, and only this thread uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.at(range.start), range.len()) };
        if uniform {
            bytes.fill(block[0]);
        } else {
            let (blocks, rest) = bytes.as_chunks_mut::<8>();
            blocks.fill(block);
            rest.copy_from_slice(&block[..rest.len()]);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream_protocol::VecLanding;

    use super::*;

    /// Runs pieces one by one, from the last to the first.
    struct Backwards;

    impl Team for Backwards {
        fn share(
            &mut self,
            pieces: u64,
            _ns: u64,
            work: &(dyn Fn(Range<u64>) + Sync),
        ) -> Result<(), String> {
            (0..pieces).rev().for_each(|piece| work(piece..piece + 1));
            Ok(())
        }

        fn threads(&self) -> usize {
            4
        }
    }

    fn run(transfer: Transfer<'_>, views: &[NativeView]) -> Result<(), Misfit> {
        // SAFETY: the memory belongs to this test.
        unsafe { transfer.run(&mut Backwards, views) }
    }

    fn view(bytes: &mut [u8]) -> NativeView {
        NativeView {
            pointer: bytes.as_mut_ptr(),
            bytes: bytes.len() as u64,
        }
    }

    /// Copies to the host, and returns the bytes.
    fn read(from: &mut [u8], layout: Option<&Strided>, len: usize) -> Vec<u8> {
        let landing = VecLanding::over(vec![0_u8; len], len);
        let transfer = Transfer::Out {
            landing: &*landing,
            layout,
        };
        run(transfer, &[view(from)]).unwrap();
        Arc::into_inner(landing).unwrap().into_elements()
    }

    fn filled(len: usize, pattern: Pattern) -> Vec<u8> {
        let mut bytes = vec![0xEE; len];
        run(Transfer::Fill(pattern), &[view(&mut bytes)]).unwrap();
        bytes
    }

    #[test]
    fn fill_can_end_within_a_word() {
        assert_eq!(filled(3, Pattern::of(7_u8)), [7; 3]);
        assert_eq!(filled(6, Pattern::of(0x0201_u16)), [1, 2, 1, 2, 1, 2]);
        assert_eq!(
            filled(12, Pattern::of(0x0403_0201_u32)),
            [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]
        );
        assert_eq!(filled(8, Pattern::of(8_u64)), [8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(filled(0, Pattern::of(1_u64)), []);
    }

    #[test]
    fn strided_copies_in_and_out_are_inverse() {
        let layout = Some(&Strided::new(&[2, 3], &[4, 1], 2).unwrap());
        let source: Vec<u8> = (1..=12).collect();
        let mut memory = [0; 16];
        let transfer = Transfer::In {
            source: &source,
            layout,
        };
        run(transfer, &[view(&mut memory)]).unwrap();
        assert_eq!(memory, [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0]);
        assert_eq!(read(&mut memory, layout, 12), source);
    }

    #[test]
    fn copy_that_does_not_fit_is_refused_and_moves_nothing() {
        let mut memory = [0; 13];
        let layout = Strided::new(&[2, 3], &[4, 1], 2).unwrap();
        let mut crooked = layout.clone();
        crooked.strides.pop();
        let mut copy = |layout: Option<&Strided>, source: &[u8]| {
            run(Transfer::In { source, layout }, &[view(&mut memory)])
        };
        assert!(
            copy(Some(&layout), &[1; 12]).is_err(),
            "14 bytes are needed"
        );
        assert!(copy(Some(&layout), &[1; 11]).is_err());
        assert!(copy(Some(&crooked), &[1; 12]).is_err());
        assert!(copy(None, &[1; 12]).is_err());
        assert!(copy(None, &[1; 14]).is_err());
        assert_eq!(memory, [0; 13]);
    }

    #[test]
    fn large_copies_are_spread_and_every_byte_arrives() {
        let len = 4 * SHARED_BYTES_MIN + 24;
        let pattern: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut first = filled(len, Pattern::of(u64::from_le_bytes(pattern)));
        assert!(first.chunks(8).all(|chunk| chunk == pattern));
        let mut second = vec![0_u8; len];
        let views = [view(&mut first), view(&mut second)];
        run(Transfer::Copy, &views).unwrap();
        assert!(first == second);
        assert!(read(&mut second, None, len) == first);
    }

    #[test]
    fn overlapping_copy_moves_what_was_there() {
        let mut memory = [1, 2, 3, 4, 5];
        let views = [view(&mut memory[..4]), view(&mut memory[1..])];
        run(Transfer::Copy, &views).unwrap();
        assert_eq!(memory, [1, 1, 2, 3, 4]);
    }
}
