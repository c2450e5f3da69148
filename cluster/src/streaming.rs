//! Accesses to data that does not fit the caches: stores that bypass them, and reads ahead.
//!
//! An ordinary store reads its cache line from memory first, unless the line is in a cache. A streaming store writes whole
//! lines without that read, and displaces nothing in the caches. It pays for a result that would not stay in the caches
//! until it is read. Reads ahead cross the ends of pages, where the processor's own begin anew. On processors other than
//! x86-64, and under Miri, all writes are ordinary and nothing is read ahead.
//!
//! Streaming stores are ordered with other accesses only by a fence of the thread that made them. So [`write`] keeps the
//! targets borrowed until that fence.

use std::ops::Range;

/// The bytes of a target from which on it is written with streaming stores: a few times the second-level cache. Below,
/// the next reader finds part of the result there, and copies of the C library are as fast. Few in unit tests, so that
/// they cover both ways.
const STREAMED_BYTES_MIN: usize = if cfg!(test) { 4 << 10 } else { 8 << 20 };

/// The bytes of a cache line, which streaming stores should write as a whole.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE_BYTES: usize = 64;

/// Memory that is written and not read, until the end of [`write`].
pub(crate) struct Target<'a> {
    bytes: &'a mut [u8],
    is_streamed: bool,
}

impl Target<'_> {
    /// Returns the number of its bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is written with streaming stores.
    pub(crate) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Writes `source` to the bytes from `start` on.
    ///
    /// # Panics
    /// If the target ends before.
    pub(crate) fn put(&mut self, start: usize, source: &[u8]) {
        let target = &mut self.bytes[start..start + source.len()];
        if self.is_streamed {
            stream(target, source);
        } else {
            target.copy_from_slice(source);
        }
    }

    /// Returns bytes to write in place.
    ///
    /// # Panics
    /// If the target ends before, or is streamed: its earlier writes may not be visible yet.
    pub(crate) fn part(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(!self.is_streamed, "a streamed target is not read");
        &mut self.bytes[range]
    }
}

/// Calls `f`, which writes the targets. All writes are complete when this returns.
pub(crate) fn write<'a, R>(
    targets: impl Iterator<Item = &'a mut [u8]>,
    f: impl FnOnce(&mut [Target<'a>]) -> R,
) -> R {
    write_from(STREAMED_BYTES_MIN, targets, f)
}

/// As [`write`], with streaming stores to targets of at least `streamed_min` bytes.
fn write_from<'a, R>(
    streamed_min: usize,
    targets: impl Iterator<Item = &'a mut [u8]>,
    f: impl FnOnce(&mut [Target<'a>]) -> R,
) -> R {
    let target = |bytes: &'a mut [u8]| Target {
        is_streamed: bytes.len() >= streamed_min,
        bytes,
    };
    let mut targets: Vec<_> = targets.map(target).collect();
    // Also if `f` panics.
    let _fence = targets.iter().any(Target::is_streamed).then_some(Fence);
    f(&mut targets)
}

/// Completes the streaming stores of this thread when it is dropped.
struct Fence;

impl Drop for Fence {
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: every processor of this architecture has the instruction.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// How far ahead a loop over elements reads: a page, so that the data arrives before the loop does.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const AHEAD_BYTES: usize = 4 << 10;

/// Has the processor fetch what a loop over `values`, which is at `range`, reads soon.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn read_ahead<T>(values: &[T], range: &Range<usize>) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    let start = values.as_ptr().wrapping_add(range.start).cast::<i8>();
    let lines = (0..range.len() * size_of::<T>()).step_by(LINE_BYTES);
    for offset in lines {
        // SAFETY: a prefetch of any address changes nothing, and does not fail.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(AHEAD_BYTES + offset)) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn read_ahead<T>(_: &[T], _: &Range<usize>) {}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream(target: &mut [u8], source: &[u8]) {
    target.copy_from_slice(source);
}

/// Copies `source`, which has the same length, with streaming stores where they write whole lines.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stream(target: &mut [u8], source: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    let head = target.as_ptr().align_offset(LINE_BYTES).min(source.len());
    let (first, target) = target.split_at_mut(head);
    let (first_source, source) = source.split_at(head);
    first.copy_from_slice(first_source);
    let (lines, rest) = target.as_chunks_mut::<LINE_BYTES>();
    let (line_sources, rest_source) = source.as_chunks::<LINE_BYTES>();
    for (line, source) in lines.iter_mut().zip(line_sources) {
        let (to, from) = (
            line.as_mut_ptr().cast::<__m128i>(),
            source.as_ptr().cast::<__m128i>(),
        );
        for index in 0..LINE_BYTES / size_of::<__m128i>() {
            // SAFETY: both have the bytes of a line, and that of the target is aligned. The target stays borrowed until
            // the fence of `write_from`.
            unsafe { _mm_stream_si128(to.add(index), _mm_loadu_si128(from.add(index))) };
        }
    }
    rest.copy_from_slice(rest_source);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn numbered(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index % 251 + 1) as u8).collect()
    }

    proptest! {
        /// Any alignment of both sides, and any division into pieces.
        #[test]
        fn every_byte_arrives_and_no_other_changes(
            len in 0_usize..1500,
            (at, from) in (0_usize..70, 0_usize..70),
            piece in 1_usize..700,
            is_streamed: bool,
        ) {
            let source = numbered(from + len);
            let source = &source[from..];
            let mut memory = vec![0_u8; at + len + 70];
            let streamed_min = if is_streamed { 0 } else { usize::MAX };
            write_from(streamed_min, std::iter::once(&mut memory[at..at + len]), |targets| {
                let [target] = targets else { unreachable!("there is one target") };
                assert_eq!(target.is_streamed(), is_streamed);
                for (index, bytes) in source.chunks(piece).enumerate() {
                    target.put(index * piece, bytes);
                }
            });
            prop_assert!(memory[..at].iter().all(|byte| *byte == 0));
            prop_assert_eq!(&memory[at..at + len], source);
            prop_assert!(memory[at + len..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    #[should_panic(expected = "a streamed target is not read")]
    fn a_streamed_target_is_not_read() {
        let mut memory = [0; 64];
        write_from(0, std::iter::once(&mut memory[..]), |targets| {
            targets[0].part(0..1)[0] = 1;
        });
    }
}
