//! The calls of the backend, and their checks.
//!
//! The ledger checks with vector clocks of its own: conflicting accesses to overlapping bytes are ordered by queue
//! order, waits or completion (I2, I4); no wait is implied (I3); waits name recorded points; cursors go up by one;
//! pages and slices are live.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::{Access, BoundSlice, Cursor, MAX_QUEUES, PageId, Point, QueueId, Span};
use millstream_sync::timeline::Timeline;

use super::bytes::Memory;

/// For every queue, the greatest cursor that is known to come before.
pub(super) type Clock = [Cursor; MAX_QUEUES];

/// A call of the backend that matters for order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// A launch or a fill: the queue and its number.
    Run(u8, u64),
    /// Another task: the queue and its kind.
    Other(u8, &'static str),
    /// A wait: the queue, and the point that it waits for.
    Wait(u8, u8, Cursor),
    /// The end of a batch: the queue and the cursor.
    Flush(u8, Cursor),
}

/// One queue.
struct Lane {
    timeline: Arc<Timeline>,
    issued: Cursor,
    flushed: Cursor,
    published: Cursor,
    /// The clock of each cursor at its issue, from cursor 1 on, including its own queue.
    clocks: Vec<Clock>,
    now: Clock,
    /// Waits, each with the cursor that comes after it.
    waits: Vec<(Cursor, Point)>,
}

/// A use of bytes that has not completed.
struct Touch {
    page: PageId,
    range: Range<u64>,
    access: Access,
    by: By,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Task(Point),
    Host(u64),
}

pub(super) struct Ledger {
    lanes: Vec<Lane>,
    open: Vec<Touch>,
    pub(super) memory: Memory,
    hosts: u64,
    /// The most tasks in flight on a queue that the driver takes without blocking (I12).
    pub(super) driver_depth: usize,
    pub(super) calls: Vec<Call>,
    /// The numbers of launches and fills to refuse.
    pub(super) refused: HashSet<u64>,
    /// The call of a copy to refuse, counted down.
    pub(super) refuse_copy: Option<u32>,
    /// Whether host functions and custom tasks are refused their resources.
    pub(super) refuse_resources: bool,
    /// The spans of completed tasks, until the server takes them.
    pub(super) spans: Vec<Span>,
    /// Whether calls are printed, to debug a failure.
    pub(super) trace: bool,
}

impl Ledger {
    pub(super) fn new(queues: usize, memory_bytes: u64) -> Self {
        let lane = |_| Lane {
            timeline: Arc::new(Timeline::new()),
            issued: 0,
            flushed: 0,
            published: 0,
            clocks: Vec::new(),
            now: [0; MAX_QUEUES],
            waits: Vec::new(),
        };
        Self {
            lanes: (0..queues).map(lane).collect(),
            open: Vec::new(),
            memory: Memory::new(memory_bytes),
            hosts: 0,
            driver_depth: usize::MAX,
            calls: Vec::new(),
            refused: HashSet::new(),
            refuse_copy: None,
            refuse_resources: false,
            spans: Vec::new(),
            trace: std::env::var_os("MILLSTREAM_TRACE").is_some(),
        }
    }

    /// Returns `true` if this call of a copy is refused.
    pub(super) fn refuses_copy(&mut self) -> bool {
        let left = self.refuse_copy;
        self.refuse_copy = left.and_then(|left| left.checked_sub(1));
        left == Some(0)
    }

    pub(super) fn queues(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn timeline(&self, queue: QueueId) -> Arc<Timeline> {
        self.lanes[queue.index()].timeline.clone()
    }

    /// Returns the number of tasks of `queue` in flight.
    pub(super) fn in_flight(&self, queue: usize) -> u64 {
        self.lanes[queue].issued - self.lanes[queue].published
    }

    pub(super) fn published(&self, queue: QueueId) -> Cursor {
        self.lanes[queue.index()].published
    }

    /// Completes the next task of a queue, if it was flushed and its waits have passed.
    pub(super) fn step(&mut self, queue: usize) -> bool {
        let lane = &self.lanes[queue];
        let next = lane.published + 1;
        let ready = lane
            .waits
            .iter()
            .filter(|(cursor, _)| *cursor <= next)
            .all(|(_, point)| self.lanes[point.queue.index()].published >= point.cursor);
        if next > lane.flushed || !ready {
            return false;
        }
        let lane = &mut self.lanes[queue];
        if self.trace {
            eprintln!("publish queue {queue} {next}");
        }
        lane.published = next;
        lane.waits.retain(|(cursor, _)| *cursor > next);
        self.spans.push(Span {
            point: Point::new(QueueId(queue as u8), next),
            start_ns: 10 * next,
            end_ns: 10 * next + 5,
            failure: None,
        });
        lane.timeline.publish(next);
        let done = |touch: &Touch| matches!(touch.by, By::Task(point) if point.queue.index() == queue && point.cursor <= next);
        self.open.retain(|touch| !done(touch));
        true
    }

    pub(super) fn wait(&mut self, queue: QueueId, point: Point) {
        if self.trace {
            eprintln!("{queue} waits {point}");
        }
        self.calls
            .push(Call::Wait(queue.0, point.queue.0, point.cursor));
        let other = &self.lanes[point.queue.index()];
        assert_ne!(point.queue, queue, "a queue waits for itself (I3)");
        assert!(
            point.cursor <= other.flushed,
            "{queue} waits for {point}, which was not flushed"
        );
        let theirs = other.clocks[point.cursor as usize - 1];
        let lane = &mut self.lanes[queue.index()];
        assert!(
            lane.now[point.queue.index()] < point.cursor,
            "{queue} waits for {point}, which its clock implies (I3)"
        );
        let next = lane.issued + 1;
        let idle = |(cursor, earlier): &(Cursor, Point)| {
            *cursor == next && theirs[earlier.queue.index()] >= earlier.cursor
        };
        assert!(
            !lane.waits.iter().any(idle),
            "{queue} waits for {point}, which implies a point that it waited for before the same task (I3)"
        );
        for (mine, theirs) in lane.now.iter_mut().zip(theirs) {
            *mine = (*mine).max(theirs);
        }
        lane.waits.push((lane.issued + 1, point));
    }

    /// Takes a task: checks its order, and records its uses of bytes.
    pub(super) fn task(&mut self, point: Point, bindings: &[BoundSlice]) {
        let lane = &mut self.lanes[point.queue.index()];
        assert_eq!(
            point.cursor,
            lane.issued + 1,
            "cursors of {} go up by one",
            point.queue
        );
        lane.issued = point.cursor;
        assert!(
            lane.issued - lane.published <= self.driver_depth as u64,
            "the driver would block at {point:?} (I12)"
        );
        lane.now[point.queue.index()] = point.cursor;
        lane.clocks.push(lane.now);
        let clock = lane.now;
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let page = self.memory.page_of(bound);
            let range = bound.offset..bound.offset + bound.len;
            for touch in &self.open {
                let ordered = match touch.by {
                    By::Task(before) => clock[before.queue.index()] >= before.cursor,
                    By::Host(_) => false,
                };
                assert!(
                    ordered || !conflict(touch, page, &range, bound.access),
                    "{:?} of bytes {range:?} of {page} at {point} races with {:?} of {:?} by {:?} (I2, I4)",
                    bound.access,
                    touch.access,
                    touch.range,
                    touch.by
                );
            }
        }
        let touched = bindings.iter().filter(|bound| bound.len > 0);
        let touches = touched.filter_map(|bound| {
            Some(Touch {
                page: bound.page?,
                range: bound.offset..bound.offset + bound.len,
                access: bound.access,
                by: By::Task(point),
            })
        });
        self.open.extend(touches);
    }

    /// Records a numbered task.
    pub(super) fn note(&mut self, number: u64, point: Point) {
        if self.trace {
            eprintln!("run {number} at {point}");
        }
        self.calls.push(Call::Run(point.queue.0, number));
    }

    pub(super) fn note_other(&mut self, point: Point, what: &'static str) {
        if self.trace {
            eprintln!("{what} at {point}");
        }
        self.calls.push(Call::Other(point.queue.0, what));
    }

    pub(super) fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        self.calls.push(Call::Flush(queue.0, cursor));
        let lane = &mut self.lanes[queue.index()];
        assert!(
            lane.flushed < cursor && cursor <= lane.issued,
            "a batch ends once, at a task"
        );
        lane.flushed = cursor;
    }

    /// Begins a host function with these bindings: every task that conflicts has completed.
    pub(super) fn host_begins(&mut self, bindings: &[BoundSlice]) -> u64 {
        self.hosts += 1;
        let by = By::Host(self.hosts);
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let page = self.memory.page_of(bound);
            let range = bound.offset..bound.offset + bound.len;
            if let Some(touch) = self
                .open
                .iter()
                .find(|touch| touch.by != by && conflict(touch, page, &range, bound.access))
            {
                panic!(
                    "a host function begins while {:?} still uses its bytes (I2)",
                    touch.by
                );
            }
            self.open.push(Touch {
                page,
                range,
                access: bound.access,
                by,
            });
        }
        self.hosts
    }

    pub(super) fn host_ends(&mut self, host: u64) {
        self.open.retain(|touch| touch.by != By::Host(host));
    }

    /// Frees a page: nothing uses it any more.
    pub(super) fn free(&mut self, page: PageId) {
        let in_use = |touch: &Touch| touch.page == page;
        assert!(!self.open.iter().any(in_use), "{page} is freed in use (I4)");
        self.memory.free(page);
    }
}

fn conflict(touch: &Touch, page: PageId, range: &Range<u64>, access: Access) -> bool {
    touch.page == page
        && touch.range.start < range.end
        && range.start < touch.range.end
        && (touch.access.writes() || access.writes())
}
