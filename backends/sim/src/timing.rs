//! Virtual time: the start and end of each task, from its cost and the tasks it comes after.
//!
//! A task starts once its queue is free, the points it waits for have ended, and its bytes are ready. The last
//! condition is needed because the runtime omits waits for points that it has seen pass, and virtual time must not.

use std::collections::{BTreeMap, VecDeque};

use millstream_protocol::{BoundSlice, PageId, Point, QueueId, Span};

use crate::cost::{CostModel, Work};
use crate::ranges::RangeMap;

/// The number of recent tasks per queue whose ends are known exactly. A queue has fewer in flight.
const ENDS_KEPT: usize = 4096;

/// The end of the last write and of the last read of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Used {
    written_ns: u64,
    read_ns: u64,
}

#[derive(Default)]
struct Lane {
    free_ns: u64,
    busy_ns: u64,
    /// Cursor and end of the last tasks.
    ends: VecDeque<(u64, u64)>,
}

/// The clocks of all queues.
pub(crate) struct Timing {
    cost: CostModel,
    /// The factor by which each queue is slowed down.
    pub(crate) slow: Vec<u64>,
    lanes: Vec<Lane>,
    pages: BTreeMap<PageId, RangeMap<Used>>,
    /// Recorded spans that were not taken yet; the oldest are dropped when the capacity is reached.
    pub(crate) spans: VecDeque<Span>,
    /// The capacity that was set when the device was opened, and the capacity now.
    spans_min: usize,
    spans_max: usize,
    /// The end of the last task.
    pub(crate) end_ns: u64,
    /// The virtual time of the host, before which no later task starts.
    pub(crate) now_ns: u64,
}

impl Timing {
    pub(crate) fn new(cost: CostModel, slow: &[u32], spans_max: usize) -> Self {
        Self {
            cost,
            slow: slow.iter().map(|factor| u64::from(*factor)).collect(),
            lanes: slow.iter().map(|_| Lane::default()).collect(),
            pages: BTreeMap::new(),
            spans: VecDeque::new(),
            spans_min: spans_max,
            spans_max,
            end_ns: 0,
            now_ns: 0,
        }
    }

    /// Returns the time at which a queue can begin its next task.
    pub(crate) fn free_ns(&self, queue: usize) -> u64 {
        self.lanes[queue].free_ns.max(self.now_ns)
    }

    /// Returns the end of the task at `cursor` of a queue.
    pub(crate) fn ended_ns(&self, queue: usize, cursor: u64) -> u64 {
        self.lanes[queue].end_of(cursor)
    }

    /// Advances the clock: later tasks do not start before `now_ns`.
    pub(crate) fn advance_clock(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    pub(crate) fn busy_ns(&self, queue: QueueId) -> u64 {
        self.lanes.get(queue.index()).map_or(0, |lane| lane.busy_ns)
    }

    /// Sets the number of spans that are kept for all queues, at least as many as when the device was opened.
    pub(crate) fn set_span_capacity(&mut self, capacity: usize) {
        self.spans_max = self.spans_min.max(capacity);
    }

    pub(crate) fn page_freed(&mut self, page: PageId) {
        self.pages.remove(&page);
    }

    /// A queue has waited for a point, which has completed.
    pub(crate) fn waited(&mut self, queue: usize, point: Point) {
        let end_ns = self
            .lanes
            .get(point.queue.index())
            .map_or(0, |lane| lane.end_of(point.cursor));
        let lane = &mut self.lanes[queue];
        lane.free_ns = lane.free_ns.max(end_ns).saturating_add(self.cost.wait_ns);
    }

    /// A task has run.
    pub(crate) fn ran(&mut self, point: Point, name: &str, bindings: &[BoundSlice], work: Work) {
        let queue = point.queue.index();
        let ready_ns = bindings.iter().map(|bound| self.ready_ns(bound)).max();
        let start_ns = self.free_ns(queue).max(ready_ns.unwrap_or(0));
        let took_ns = self.cost.of(name, work).saturating_mul(self.slow[queue]);
        let end_ns = start_ns.saturating_add(took_ns);
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let Some(page) = bound.page else { continue };
            let range = bound.offset..bound.offset + bound.len;
            self.pages.entry(page).or_default().update(range, |used| {
                let last = if bound.access.writes() {
                    &mut used.written_ns
                } else {
                    &mut used.read_ns
                };
                *last = end_ns.max(*last);
            });
        }
        let lane = &mut self.lanes[queue];
        lane.free_ns = end_ns;
        lane.busy_ns += took_ns;
        if lane.ends.len() == ENDS_KEPT {
            lane.ends.pop_front();
        }
        lane.ends.push_back((point.cursor, end_ns));
        self.end_ns = self.end_ns.max(end_ns);
        if took_ns > 0 && self.spans_max > 0 {
            while self.spans.len() >= self.spans_max {
                self.spans.pop_front();
            }
            self.spans.push_back(Span {
                point,
                start_ns,
                end_ns,
                // A failed task does no work here, and has no span.
                failure: None,
            });
        }
    }

    /// Returns the time at which a binding's bytes are ready.
    fn ready_ns(&self, bound: &BoundSlice) -> u64 {
        let page = bound.page.filter(|_| bound.len > 0);
        let Some(page) = page.and_then(|page| self.pages.get(&page)) else {
            return 0;
        };
        let of = |used: &Used| match bound.access.writes() {
            true => used.written_ns.max(used.read_ns),
            false => used.written_ns,
        };
        let range = bound.offset..bound.offset + bound.len;
        page.iter(range)
            .map(|(_, used)| of(used))
            .max()
            .unwrap_or(0)
    }
}

impl Lane {
    /// Returns the end of the task at `cursor`. A task too old to be known ended before the oldest known one, whose
    /// end is returned.
    fn end_of(&self, cursor: u64) -> u64 {
        let at = self.ends.partition_point(|(ended, _)| *ended < cursor);
        let end = self.ends.get(at).or(self.ends.back());
        end.map_or(0, |(_, end_ns)| *end_ns)
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::{Access, SliceId};
    use millstream_sync::slots::SlotId;

    use super::*;
    const COST: u64 = 10;

    fn timing() -> Timing {
        let cost = CostModel {
            custom_ns: COST,
            wait_ns: 1,
            ..CostModel::default()
        };
        Timing::new(cost, &[1, 1, 3], 100)
    }

    fn at(queue: u8, cursor: u64) -> Point {
        Point::new(QueueId(queue), cursor)
    }

    fn bytes(offset: u64, len: u64, access: Access) -> BoundSlice {
        let slice = SliceId(SlotId {
            index: 1,
            generation: 1,
        });
        BoundSlice {
            page: Some(PageId(0)),
            offset,
            len,
            access,
            slice,
            slice_offset: offset,
        }
    }

    #[test]
    fn queues_overlap_unless_a_wait_or_shared_bytes_order_them() {
        let mut timing = timing();
        timing.ran(
            at(0, 1),
            "task",
            &[bytes(0, 8, Access::Write)],
            Work::Custom,
        );
        timing.ran(
            at(1, 1),
            "task",
            &[bytes(8, 8, Access::Write)],
            Work::Custom,
        );
        assert_eq!(timing.end_ns, COST, "they overlap");
        timing.ran(at(1, 2), "task", &[bytes(4, 8, Access::Read)], Work::Custom);
        timing.waited(0, at(1, 2));
        timing.ran(at(0, 2), "task", &[], Work::Custom);
        assert_eq!(timing.end_ns, 2 * COST + 1 + COST);
        timing.ran(at(2, 1), "task", &[], Work::Custom);
        assert_eq!(
            timing.busy_ns(QueueId(2)),
            3 * COST,
            "a slow queue takes longer"
        );
        let starts: Vec<u64> = timing.spans.iter().map(|span| span.start_ns).collect();
        assert_eq!(starts, [0, 0, COST, 2 * COST + 1, 0]);
    }

    #[test]
    fn readers_overlap_and_a_writer_starts_after_them() {
        let mut timing = timing();
        timing.ran(at(0, 1), "task", &[bytes(0, 8, Access::Read)], Work::Custom);
        timing.ran(at(1, 1), "task", &[bytes(0, 8, Access::Read)], Work::Custom);
        assert_eq!(timing.end_ns, COST);
        timing.ran(
            at(2, 1),
            "task",
            &[bytes(7, 1, Access::ReadWrite)],
            Work::Custom,
        );
        assert_eq!(timing.end_ns, COST + 3 * COST);
    }
}
