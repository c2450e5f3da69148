//! The access log of some bytes: for each byte, the tasks that last wrote it and the tasks that have read it since.
//!
//! # Protocol
//! 1. Before a task is entered, [`AccessLog::conflicts`] reports the uses that the task must come after: for a read
//!    the last writes of each byte, for a write these and the reads since.
//! 2. [`AccessLog::admit`] enters the task. A write replaces the history of its bytes: the task comes after all earlier
//!    uses, so a later task that comes after this one comes after them as well. A read is added to the reads.
//! 3. A server enters tasks at admission, in mailbox order, as [`Use::Held`]. When a task is issued to a queue,
//!    [`AccessLog::issue`] turns its entries into [`Use::Issued`]. An entry is never removed by a completion: the
//!    caller ignores points that have passed.
//!
//! # Bounds
//! A log has at most `MAX` disjoint segments. Beyond that, neighbours are merged: the merged segment has the uses of
//! both, which may order more than necessary and never less. Tasks of one queue run in order, so one use, that with
//! the greatest cursor, represents all uses of the queue; the same holds for the held tasks of one stream.

use std::ops::Range;

use smallvec::SmallVec;

pub use super::uses::Use;
use super::uses::Uses;
use crate::binding::Access;
use crate::id::Point;

/// The maximum number of segments in the log of one slice: more segments would cost a task more than the precision
/// saves.
pub const MAX_SEGMENTS: usize = 8;

/// A range of bytes with one history.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// The last write. Several entries exist only after a merge, or if reused memory has a residue.
    writes: Uses,
    /// The reads since the last write.
    reads: Uses,
}

impl Segment {
    fn new(range: Range<u64>) -> Self {
        Self {
            start: range.start,
            end: range.end,
            writes: Uses::new(),
            reads: Uses::new(),
        }
    }

    #[inline]
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.start < range.end && range.start < self.end
    }
}

/// The uses of the bytes of a slice or of a recording's parameter, in at most `MAX` segments.
#[derive(Clone, Debug, Default)]
pub struct AccessLog<const MAX: usize = MAX_SEGMENTS> {
    segments: Segments,
}

/// Segments, disjoint and sorted by start. Bytes without a segment were never used.
///
/// Most slices are always accessed as a whole: a single segment needs no heap. A list that was on the heap stays there,
/// so that bytes which are split and merged in turn do not allocate each time (I9).
type Segments = SmallVec<[Segment; 1]>;

impl<const MAX: usize> AccessLog<MAX> {
    /// Creates the log of a slice in reused memory. The points of `residue` still use the memory. They enter the log as
    /// writes, so the next task is ordered after them like after any other write (I4 follows from I2).
    pub fn with_residue(bytes: u64, residue: impl IntoIterator<Item = Point>) -> Self {
        let mut log = Self::default();
        let mut segment = Segment::new(0..bytes);
        let mut is_used = false;
        for point in residue {
            segment.writes.add(Use::Issued(point));
            is_used = true;
        }
        if is_used && bytes > 0 {
            log.segments.push(segment);
        }
        log
    }

    /// Calls `conflict` for each use that a task with this access to `range` must come after.
    #[inline]
    pub fn conflicts(&self, range: Range<u64>, access: Access, mut conflict: impl FnMut(Use)) {
        // An empty range conflicts with nothing, also in the middle of a segment.
        if range.is_empty() {
            return;
        }
        for segment in &self.segments {
            if segment.overlaps(&range) {
                segment.writes.for_each(&mut conflict);
                if access.writes() {
                    segment.reads.for_each(&mut conflict);
                }
            }
        }
    }

    /// The shortcut for a task that was issued at `point`. Enters the task if the log has one segment with exactly
    /// these bytes and all conflicts are with tasks of the same queue, which runs them in order. Otherwise returns
    /// `false` and changes nothing; the caller then calls [`AccessLog::conflicts`] and [`AccessLog::admit`].
    #[inline(always)]
    pub fn enter_own(&mut self, start: u64, end: u64, access: Access, point: Point) -> bool {
        let [segment] = self.segments.as_mut_slice() else {
            return false;
        };
        let own = segment.start == start
            && segment.end == end
            && segment.writes.only_of(point.queue)
            && (!access.writes() || segment.reads.only_of(point.queue));
        if own {
            enter(segment, access, Use::Issued(point));
        }
        own
    }

    /// Calls [`AccessLog::conflicts`], then [`AccessLog::admit`].
    pub fn touch(
        &mut self,
        range: Range<u64>,
        access: Access,
        used: Use,
        conflict: impl FnMut(Use),
    ) {
        self.conflicts(range.clone(), access, conflict);
        self.admit(range, access, used);
    }

    /// Enters a task with this access to `range`. The caller has handled its conflicts.
    #[inline]
    pub fn admit(&mut self, range: Range<u64>, access: Access, used: Use) {
        if range.is_empty() {
            return;
        }
        match self.segments.as_mut_slice() {
            [] => {
                let mut segment = Segment::new(range);
                enter(&mut segment, access, used);
                self.segments.push(segment);
            }
            [segment] if segment.start == range.start && segment.end == range.end => {
                enter(segment, access, used);
            }
            _ => self.admit_part(range, access, used),
        }
    }

    /// Enters a task whose range is not exactly that of the only segment.
    fn admit_part(&mut self, range: Range<u64>, access: Access, used: Use) {
        let list = &mut self.segments;
        split(list, range.start);
        split(list, range.end);
        if access.writes() {
            list.retain(|segment| !segment.overlaps(&range));
            insert(list, Segment::new(range.clone()));
        } else {
            fill_gaps(list, range.clone());
        }
        let touched = list.iter_mut().filter(|segment| segment.overlaps(&range));
        touched.for_each(|segment| enter(segment, access, used));
        while list.len() > MAX {
            merge_closest(list);
        }
    }

    /// Replaces the uses by the held task (`stream`, `sequence`) with uses by `point`. Searches all segments: a merge
    /// may have spread the task's entries beyond the bytes that the task accesses.
    #[inline]
    pub fn issue(&mut self, stream: u32, sequence: u64, point: Point) {
        for segment in &mut self.segments {
            segment.writes.issue(stream, sequence, point);
            segment.reads.issue(stream, sequence, point);
        }
    }

    /// Calls `f` for each use: with `Write` for a write, with `Read` for a read since the last write.
    pub fn for_each(&self, mut f: impl FnMut(Access, Use)) {
        for segment in &self.segments {
            segment.writes.for_each(|used| f(Access::Write, used));
            segment.reads.for_each(|used| f(Access::Read, used));
        }
    }

    /// Returns the number of segments.
    #[cfg(test)]
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }
}

/// Adds a use of exactly the bytes of a segment.
#[inline(always)]
fn enter(segment: &mut Segment, access: Access, used: Use) {
    if access.writes() {
        segment.reads.clear();
        segment.writes.set(used);
    } else {
        segment.reads.add(used);
    }
}

/// Splits the segment that contains `at`.
fn split(list: &mut Segments, at: u64) {
    let cut = |segment: &Segment| segment.start < at && at < segment.end;
    if let Some(index) = list.iter().position(cut) {
        let mut tail = list[index].clone();
        tail.start = at;
        list[index].end = at;
        list.insert(index + 1, tail);
    }
}

/// Inserts empty segments for the bytes of `range` that have none.
fn fill_gaps(list: &mut Segments, range: Range<u64>) {
    let mut gaps: SmallVec<[Range<u64>; MAX_SEGMENTS]> = SmallVec::new();
    let mut at = range.start;
    for segment in list.iter().filter(|segment| segment.overlaps(&range)) {
        if at < segment.start {
            gaps.push(at..segment.start);
        }
        at = segment.end;
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    for gap in gaps {
        insert(list, Segment::new(gap));
    }
}

fn insert(list: &mut Segments, segment: Segment) {
    let index = list.partition_point(|other| other.start < segment.start);
    list.insert(index, segment);
}

/// Merges the two neighbours that together span the fewest bytes.
fn merge_closest(list: &mut Segments) {
    let span = |pair: &[Segment]| pair[1].end - pair[0].start;
    let pairs = list.windows(2).enumerate();
    if let Some((index, _)) = pairs.min_by_key(|(_, pair)| span(pair)) {
        let right = list.remove(index + 1);
        let left = &mut list[index];
        left.end = right.end;
        right.writes.for_each(|used| left.writes.add(used));
        right.reads.for_each(|used| left.reads.add(used));
    }
}
