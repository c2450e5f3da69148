//! The access log of a slice: who last wrote each of its bytes, and who has read them since.
//!
//! A log has at most [`MAX_SEGMENTS`] disjoint segments; beyond that neighbours are merged, which
//! may order more than needed but never less. Entries are made at admission, in mailbox order, as
//! [`Use::Held`], and become [`Use::Issued`] when their task is handed to a queue.
//!
//! A queue is ordered, so the greatest cursor per queue stands for all readers there; the same
//! holds for the tasks that one stream holds.

use std::ops::Range;

use smallvec::SmallVec;

use crate::access::Access;
use crate::hazard::points::Points;
use crate::id::Point;

/// Most segments of one log.
pub const MAX_SEGMENTS: usize = 8;

/// One use of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// By a task that a stream still holds.
    Held {
        /// The stream's key on the device thread.
        stream: u32,
        /// The task's place in the stream.
        sequence: u64,
    },
    /// By a task that a queue has.
    Issued(Point),
}

/// Bytes with one history.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// The last write; more than one only after a merge, or where a fresh slice inherits residue.
    writes: SmallVec<[Use; 1]>,
    /// Reads since that write.
    reads: SmallVec<[Use; 2]>,
}

impl Segment {
    fn new(range: Range<u64>) -> Self {
        Self {
            start: range.start,
            end: range.end,
            writes: SmallVec::new(),
            reads: SmallVec::new(),
        }
    }

    #[inline]
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.start < range.end && range.start < self.end
    }
}

/// Adds a use, keeping the greatest per queue and per stream.
#[inline]
fn add<A: smallvec::Array<Item = Use>>(uses: &mut SmallVec<A>, new: Use) {
    for old in uses.iter_mut() {
        match (&mut *old, new) {
            (Use::Issued(old), Use::Issued(new)) if old.queue == new.queue => {
                old.cursor = old.cursor.max(new.cursor);
                return;
            }
            (
                Use::Held { stream, sequence },
                Use::Held {
                    stream: same,
                    sequence: later,
                },
            ) if *stream == same => {
                *sequence = (*sequence).max(later);
                return;
            }
            _ => {}
        }
    }
    uses.push(new);
}

/// Turns the use by a held task into one by `point`.
#[inline]
fn issue_in<A: smallvec::Array<Item = Use>>(uses: &mut SmallVec<A>, held: Use, point: Point) {
    if let Some(index) = uses.iter().position(|old| *old == held) {
        if uses.len() == 1 {
            uses[0] = Use::Issued(point);
        } else {
            uses.swap_remove(index);
            add(uses, Use::Issued(point));
        }
    }
}

/// Who last touched which bytes of one slice.
#[derive(Clone, Debug, Default)]
pub struct AccessLog {
    /// Sorted by start, disjoint. Bytes without a segment were never touched.
    segments: SmallVec<[Segment; 1]>,
}

impl AccessLog {
    /// The log of a fresh slice of `bytes` whose memory is still used by `residue`: reuse of memory is
    /// one more hazard (I4 follows from I2).
    pub fn with_residue(bytes: u64, residue: &Points) -> Self {
        let mut log = Self::default();
        if !residue.is_empty() && bytes > 0 {
            let mut segment = Segment::new(0..bytes);
            segment.writes.extend(residue.iter().map(Use::Issued));
            log.segments.push(segment);
        }
        log
    }

    /// Calls `conflict` for every use that a task with this access to `range` must come after.
    #[inline]
    pub fn conflicts(&self, range: Range<u64>, access: Access, mut conflict: impl FnMut(Use)) {
        for segment in &self.segments {
            if segment.overlaps(&range) {
                segment.writes.iter().for_each(|used| conflict(*used));
                if access.writes() {
                    segment.reads.iter().for_each(|used| conflict(*used));
                }
            }
        }
    }

    /// As [`AccessLog::conflicts`], then [`AccessLog::admit`], in one pass over the log where that can
    /// be.
    #[inline]
    pub fn touch(
        &mut self,
        range: Range<u64>,
        access: Access,
        used: Use,
        mut conflict: impl FnMut(Use),
    ) {
        // Most slices are touched whole, always the same way.
        if let [segment] = self.segments.as_mut_slice()
            && segment.start == range.start
            && segment.end == range.end
        {
            segment.writes.iter().for_each(|used| conflict(*used));
            if access.writes() {
                segment.reads.iter().for_each(|used| conflict(*used));
            }
            return enter(segment, access, used);
        }
        self.conflicts(range.clone(), access, conflict);
        self.admit(range, access, used);
    }

    /// Enters a task with this access to `range`, after its conflicts were taken.
    #[inline]
    pub fn admit(&mut self, range: Range<u64>, access: Access, used: Use) {
        if range.is_empty() {
            return;
        }
        // Most slices are touched whole, always the same way.
        if let [segment] = self.segments.as_mut_slice()
            && segment.start == range.start
            && segment.end == range.end
        {
            return enter(segment, access, used);
        }
        self.admit_part(range, access, used);
    }

    fn admit_part(&mut self, range: Range<u64>, access: Access, used: Use) {
        self.split(range.start);
        self.split(range.end);
        if access.writes() {
            self.segments.retain(|segment| !segment.overlaps(&range));
            self.insert(Segment::new(range.clone()));
        } else {
            self.fill_gaps(range.clone());
        }
        for segment in self
            .segments
            .iter_mut()
            .filter(|segment| segment.overlaps(&range))
        {
            enter(segment, access, used);
        }
        while self.segments.len() > MAX_SEGMENTS {
            self.merge_closest();
        }
    }

    /// Cuts the segment that contains `at` in two.
    fn split(&mut self, at: u64) {
        if let Some(index) = self
            .segments
            .iter()
            .position(|segment| segment.start < at && at < segment.end)
        {
            let mut tail = self.segments[index].clone();
            tail.start = at;
            self.segments[index].end = at;
            self.segments.insert(index + 1, tail);
        }
    }

    /// Makes empty segments for the bytes of `range` that have none.
    fn fill_gaps(&mut self, range: Range<u64>) {
        let mut gaps: SmallVec<[Range<u64>; MAX_SEGMENTS]> = SmallVec::new();
        let mut at = range.start;
        for segment in self
            .segments
            .iter()
            .filter(|segment| segment.overlaps(&range))
        {
            if at < segment.start {
                gaps.push(at..segment.start);
            }
            at = segment.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            self.insert(Segment::new(gap));
        }
    }

    fn insert(&mut self, segment: Segment) {
        let index = self
            .segments
            .partition_point(|other| other.start < segment.start);
        self.segments.insert(index, segment);
    }

    /// Merges the two neighbours that together span the fewest bytes.
    fn merge_closest(&mut self) {
        let span = |pair: &[Segment]| pair[1].end - pair[0].start;
        let closest = (0..self.segments.len().saturating_sub(1))
            .min_by_key(|index| span(&self.segments[*index..index + 2]));
        if let Some(index) = closest {
            let right = self.segments.remove(index + 1);
            let left = &mut self.segments[index];
            left.end = right.end;
            right
                .writes
                .iter()
                .for_each(|used| add(&mut left.writes, *used));
            right
                .reads
                .iter()
                .for_each(|used| add(&mut left.reads, *used));
        }
    }

    /// The held task (`stream`, `sequence`) is now at `point`. Looks at all segments: a merge may have
    /// spread the task's entry beyond what it touches.
    #[inline]
    pub fn issue(&mut self, stream: u32, sequence: u64, point: Point) {
        let held = Use::Held { stream, sequence };
        for segment in &mut self.segments {
            issue_in(&mut segment.writes, held, point);
            issue_in(&mut segment.reads, held, point);
        }
    }

    /// The points that still use the slice.
    pub fn points(&self, passed: impl Fn(Point) -> bool) -> Points {
        let mut points = Points::default();
        for used in self
            .segments
            .iter()
            .flat_map(|segment| segment.writes.iter().chain(&segment.reads))
        {
            match used {
                Use::Issued(point) if !passed(*point) => points.insert(*point),
                Use::Issued(_) => {}
                Use::Held { .. } => debug_assert!(
                    false,
                    "a slice is freed while a stream holds a task on it (I4)"
                ),
            }
        }
        points
    }

    /// Segments in use.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }
}

#[inline(always)]
fn enter(segment: &mut Segment, access: Access, used: Use) {
    if access.writes() {
        segment.reads.clear();
        if let [only] = segment.writes.as_mut_slice() {
            *only = used;
        } else {
            segment.writes.clear();
            segment.writes.push(used);
        }
    } else {
        add(&mut segment.reads, used);
    }
}
