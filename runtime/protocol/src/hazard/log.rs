//! The access log of some bytes: which task last wrote each of them, and which tasks have read it since.
//!
//! A log has at most so many disjoint segments as it was made with; beyond that neighbours are merged, which
//! may order more than needed but never less. A server makes its entries at admission, in mailbox order, as
//! [`Use::Held`], and they become [`Use::Issued`] when their task is handed to a queue.
//!
//! A queue is ordered, so the greatest cursor per queue stands for all readers there; the same
//! holds for the tasks that one stream holds.

use std::ops::Range;

use smallvec::SmallVec;

pub use super::uses::Use;
use super::uses::Uses;
use crate::access::Access;
use crate::id::Point;

/// Most segments of the log of one slice: more would cost a task more than it gains.
pub const MAX_SEGMENTS: usize = 8;

/// Bytes with one history.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// The last write; more than one only after a merge, or where a fresh slice inherits residue.
    writes: Uses,
    /// Reads since that write.
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

/// Who last touched which bytes, of a slice or of a recording's parameter: in at most `MAX` segments.
#[derive(Clone, Debug, Default)]
pub struct AccessLog<const MAX: usize = MAX_SEGMENTS> {
    segments: Segments,
}

/// Sorted by start, disjoint. Bytes without a segment were never touched.
///
/// Most slices are touched whole, always the same way: one segment needs no heap, and is seen to be one by one comparison. A list stays
/// a list, so that bytes which are cut and merged in turn take no heap each time (I9).
#[derive(Clone, Debug, Default)]
enum Segments {
    #[default]
    None,
    One(Segment),
    List(Vec<Segment>),
}

impl Segments {
    #[inline]
    fn as_slice(&self) -> &[Segment] {
        match self {
            Segments::None => &[],
            Segments::One(segment) => std::slice::from_ref(segment),
            Segments::List(list) => list,
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [Segment] {
        match self {
            Segments::None => &mut [],
            Segments::One(segment) => std::slice::from_mut(segment),
            Segments::List(list) => list,
        }
    }

    /// As a list from here on, to be cut.
    fn list(&mut self) -> &mut Vec<Segment> {
        if let Segments::None | Segments::One(_) = self {
            let mut list = Vec::with_capacity(2);
            if let Segments::One(segment) = std::mem::take(self) {
                list.push(segment);
            }
            *self = Segments::List(list);
        }
        match self {
            Segments::List(list) => list,
            Segments::None | Segments::One(_) => unreachable!("it has just become a list"),
        }
    }
}

impl<const MAX: usize> AccessLog<MAX> {
    /// The log of bytes that are still used by `residue`: reuse of memory is one more hazard (I4 follows from I2).
    pub fn with_residue(bytes: u64, residue: impl IntoIterator<Item = Point>) -> Self {
        let mut log = Self::default();
        let mut segment = Segment::new(0..bytes);
        let mut is_used = false;
        for point in residue {
            segment.writes.add(Use::Issued(point));
            is_used = true;
        }
        if is_used && bytes > 0 {
            log.segments = Segments::One(segment);
        }
        log
    }

    /// Calls `conflict` for every use that a task with this access to `range` must come after.
    #[inline]
    pub fn conflicts(&self, range: Range<u64>, access: Access, mut conflict: impl FnMut(Use)) {
        // No bytes conflict with nothing, wherever they lie.
        if range.is_empty() {
            return;
        }
        for segment in self.segments.as_slice() {
            if segment.overlaps(&range) {
                segment.writes.for_each(&mut conflict);
                if access.writes() {
                    segment.reads.for_each(&mut conflict);
                }
            }
        }
    }

    /// Enters a task at `point` that conflicts at most with its own queue. Says no, having done nothing,
    /// where that is not plain to see: then it is for [`AccessLog::conflicts`] and [`AccessLog::admit`].
    #[inline(always)]
    pub fn enter_own(&mut self, start: u64, end: u64, access: Access, point: Point) -> bool {
        let segment = match &mut self.segments {
            Segments::One(segment) => segment,
            Segments::List(list) if list.len() == 1 => &mut list[0],
            Segments::List(_) | Segments::None => return false,
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

    /// As [`AccessLog::conflicts`], then [`AccessLog::admit`].
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

    /// Enters a task with this access to `range`, after its conflicts were taken.
    #[inline]
    pub fn admit(&mut self, range: Range<u64>, access: Access, used: Use) {
        if range.is_empty() {
            return;
        }
        match &mut self.segments {
            Segments::None => {
                let mut segment = Segment::new(range);
                enter(&mut segment, access, used);
                self.segments = Segments::One(segment);
            }
            Segments::One(segment) if segment.start == range.start && segment.end == range.end => {
                enter(segment, access, used);
            }
            Segments::One(_) | Segments::List(_) => self.admit_part(range, access, used),
        }
    }

    fn admit_part(&mut self, range: Range<u64>, access: Access, used: Use) {
        if access.writes()
            && let Segments::One(segment) = &mut self.segments
            && range.start <= segment.start
            && segment.end <= range.end
        {
            (segment.start, segment.end) = (range.start, range.end);
            return enter(segment, access, used);
        }
        let list = self.segments.list();
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

    /// The held task (`stream`, `sequence`) is now at `point`. Looks at all segments: a merge may have
    /// spread the task's entry beyond what it touches.
    #[inline]
    pub fn issue(&mut self, stream: u32, sequence: u64, point: Point) {
        for segment in self.segments.as_mut_slice() {
            segment.writes.issue(stream, sequence, point);
            segment.reads.issue(stream, sequence, point);
        }
    }

    /// Calls `f` for every use: as a write, or as a read since.
    pub fn for_each(&self, mut f: impl FnMut(Access, Use)) {
        for segment in self.segments.as_slice() {
            segment.writes.for_each(|used| f(Access::Write, used));
            segment.reads.for_each(|used| f(Access::Read, used));
        }
    }

    /// Segments in use.
    pub fn segments(&self) -> usize {
        self.segments.as_slice().len()
    }
}

#[inline(always)]
fn enter(segment: &mut Segment, access: Access, used: Use) {
    if access.writes() {
        segment.reads.clear();
        segment.writes.set(used);
    } else {
        segment.reads.add(used);
    }
}

/// Cuts the segment that contains `at` in two.
fn split(list: &mut Vec<Segment>, at: u64) {
    let cut = |segment: &Segment| segment.start < at && at < segment.end;
    if let Some(index) = list.iter().position(cut) {
        let mut tail = list[index].clone();
        tail.start = at;
        list[index].end = at;
        list.insert(index + 1, tail);
    }
}

/// Makes empty segments for the bytes of `range` that have none.
fn fill_gaps(list: &mut Vec<Segment>, range: Range<u64>) {
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

fn insert(list: &mut Vec<Segment>, segment: Segment) {
    let index = list.partition_point(|other| other.start < segment.start);
    list.insert(index, segment);
}

/// Merges the two neighbours that together span the fewest bytes.
fn merge_closest(list: &mut Vec<Segment>) {
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
