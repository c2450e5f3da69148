//! Copies and fills, dense and strided.
//!
//! Large dense ones are spread over the team, because one thread rarely uses all of a machine's bandwidth.
//! [`for_each_run`] refuses a copy that does not fit its memory before it moves a byte.

use std::ops::Range;

use millstream_protocol::kernel::NativeView;
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::Strided;
use millstream_protocol::layout::{Misfit, for_each_run};

use crate::team::TeamHandle;

/// Bytes that are worth waking another thread for: one thread takes about a hundred microseconds.
const HELP_WORTH_BYTES: usize = 2 << 20;

/// Bytes that a thread takes at a time, a multiple of every pattern width.
const PIECE_BYTES: usize = 256 << 10;

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

/// Runs `work` over disjoint ranges that make up `bytes`, on the team if that is worthwhile. Ranges begin at
/// multiples of `PIECE_BYTES`. `work` must not panic.
fn spread(team: &mut TeamHandle, bytes: usize, work: impl Fn(Range<usize>) + Sync) {
    let helpers = (bytes / HELP_WORTH_BYTES).min(team.threads() - 1);
    if helpers == 0 {
        return work(0..bytes);
    }
    let pieces = bytes.div_ceil(PIECE_BYTES) as u64;
    let shared = team.share(0, pieces, helpers, &|range| {
        let (start, end) = (range.start as usize, range.end as usize);
        work(start * PIECE_BYTES..bytes.min(end * PIECE_BYTES));
    });
    debug_assert!(shared.is_ok(), "copying bytes does not panic");
}

/// Copies `len` bytes that do not overlap.
///
/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn move_bytes(team: &mut TeamHandle, source: *const u8, target: *mut u8, len: usize) {
    let (source, target) = (SharedPointer(source.cast_mut()), SharedPointer(target));
    spread(team, len, |range| {
        // SAFETY: the range lies within both sides, and only this thread uses it.
        unsafe {
            let from = source.at(range.start);
            from.copy_to_nonoverlapping(target.at(range.start), range.len());
        }
    });
}

/// Copies dense `source` to the places in `target` that the layout gives.
///
/// # Safety
/// Only this task touches the memory of `target`, and `source` does not overlap it.
pub(crate) unsafe fn copy_in(
    team: &mut TeamHandle,
    target: NativeView,
    layout: Option<&Strided>,
    source: &[u8],
) -> Result<(), Misfit> {
    let dense = layout.is_none();
    for_each_run(
        layout,
        target.bytes,
        source.len() as u64,
        |strided, offset, bytes| {
            // SAFETY: both ranges lie within their sides, which do not overlap.
            unsafe {
                let (from, to) = (source.as_ptr().add(offset), target.pointer.add(strided));
                match dense {
                    true => move_bytes(team, from, to, bytes),
                    false => from.copy_to_nonoverlapping(to, bytes),
                }
            }
        },
    )
}

/// Copies the bytes of `source` at the places that the layout gives to the dense `len` bytes at `target`.
///
/// # Safety
/// Nothing writes the memory of `source`. `target` is valid for writing `len` bytes, used only by this task, and does
/// not overlap `source`.
pub(crate) unsafe fn copy_out(
    team: &mut TeamHandle,
    source: NativeView,
    layout: Option<&Strided>,
    target: *mut u8,
    len: usize,
) -> Result<(), Misfit> {
    let dense = layout.is_none();
    for_each_run(
        layout,
        source.bytes,
        len as u64,
        |strided, offset, bytes| {
            // SAFETY: both ranges lie within their sides, which do not overlap.
            unsafe {
                let (from, to) = (source.pointer.add(strided), target.add(offset));
                match dense {
                    true => move_bytes(team, from, to, bytes),
                    false => from.copy_to_nonoverlapping(to, bytes),
                }
            }
        },
    )
}

/// Copies `source` to `target`, which has the same length (checked when the copy was queued). They may overlap.
///
/// # Safety
/// Only this task touches the memory of `target`, and nothing else writes that of `source`.
pub(crate) unsafe fn copy(team: &mut TeamHandle, source: NativeView, target: NativeView) {
    debug_assert_eq!(
        source.bytes, target.bytes,
        "checked when the copy was queued"
    );
    let bytes = source.bytes.min(target.bytes) as usize;
    let apart = source.pointer.addr().abs_diff(target.pointer.addr());
    if apart < bytes {
        // SAFETY: both sides have that many bytes.
        unsafe { source.pointer.copy_to(target.pointer, bytes) };
    } else {
        // SAFETY: both sides have that many bytes, and do not overlap.
        unsafe { move_bytes(team, source.pointer, target.pointer, bytes) };
    }
}

/// Fills `target`, whose length is a multiple of the pattern.
///
/// # Safety
/// Only this task touches the memory of `target`.
pub(crate) unsafe fn fill(team: &mut TeamHandle, target: NativeView, pattern: Pattern) {
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
    use millstream_sync::facade::SpinPolicy;

    use super::*;
    use crate::team::Team;

    fn team(threads: usize) -> (Team, TeamHandle) {
        let (team, mut handles) =
            Team::start(threads, 1, SpinPolicy::default(), &Default::default()).unwrap();
        (team, handles.remove(0))
    }

    fn single_thread() -> TeamHandle {
        team(1).1
    }

    fn view(bytes: &mut [u8]) -> NativeView {
        NativeView {
            pointer: bytes.as_mut_ptr(),
            bytes: bytes.len() as u64,
        }
    }

    fn filled(len: usize, pattern: Pattern) -> Vec<u8> {
        let mut bytes = vec![0xEE; len];
        // SAFETY: the memory belongs to this test.
        unsafe { fill(&mut single_thread(), view(&mut bytes), pattern) };
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
        let layout = Strided::new(&[2, 3], &[4, 1], 2).unwrap();
        let source: Vec<u8> = (1..=12).collect();
        let mut memory = [0; 16];
        // SAFETY: the memory belongs to this test.
        unsafe {
            copy_in(
                &mut single_thread(),
                view(&mut memory),
                Some(&layout),
                &source,
            )
        }
        .unwrap();
        assert_eq!(memory, [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0]);
        let mut back = [0; 12];
        // SAFETY: as above.
        unsafe {
            copy_out(
                &mut single_thread(),
                view(&mut memory),
                Some(&layout),
                back.as_mut_ptr(),
                12,
            )
        }
        .unwrap();
        assert_eq!(back, source.as_slice());
    }

    #[test]
    fn copy_that_does_not_fit_is_refused_and_moves_nothing() {
        let mut memory = [0; 13];
        let layout = Strided::new(&[2, 3], &[4, 1], 2).unwrap();
        let mut crooked = layout.clone();
        crooked.strides.pop();
        let mut copy = |layout: Option<&Strided>, source: &[u8]| {
            // SAFETY: the memory belongs to this test.
            unsafe { copy_in(&mut single_thread(), view(&mut memory), layout, source) }
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
        let (_team, mut team) = team(4);
        let len = 4 * HELP_WORTH_BYTES + 24;
        let (mut first, mut second) = (vec![0_u8; len], vec![0_u8; len]);
        let pattern: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
        // SAFETY: the memory belongs to this test.
        unsafe {
            fill(
                &mut team,
                view(&mut first),
                Pattern::of(u64::from_le_bytes(pattern)),
            );
            copy(&mut team, view(&mut first), view(&mut second));
        }
        assert!(second.chunks(8).all(|chunk| chunk == pattern));
        let mut landing = vec![0; len];
        // SAFETY: as above.
        unsafe {
            copy_out(
                &mut team,
                view(&mut second),
                None,
                landing.as_mut_ptr(),
                len,
            )
        }
        .unwrap();
        assert!(landing == second);
    }
}
