//! What the backend was told, and the checks of it.
//!
//! Tasks take effect on bytes when they are issued: any two that conflict are ordered by then, or a
//! check fails. Checked with clocks of our own: conflicting accesses to overlapping bytes are ordered
//! by queue order, waits or completion (I2, I4); no wait is implied (I3); waits name recorded points;
//! cursors go up by one; pages and slices are live. Not checked here: that the order is the mailbox's,
//! which is the oracle's part.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use millstream_sync::timeline::Timeline;

use crate::access::Access;
use crate::backend::BoundSlice;
use crate::id::{Cursor, MAX_QUEUES, Point, QueueId, SliceId};
use crate::memory::{PageError, PageId};

/// For every queue, the greatest cursor that is known to come before.
pub(super) type Clock = [Cursor; MAX_QUEUES];

/// One call of the backend that matters for order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// A launch or a fill with its number.
    Run(u8, u64),
    /// Another task.
    Other(u8, &'static str),
    /// A queue is to wait for a point: on which queue, for which.
    Wait(u8, u8, Cursor),
    /// A batch ends at a cursor.
    Flush(u8, Cursor),
}

/// One queue.
struct Lane {
    timeline: Arc<Timeline>,
    issued: Cursor,
    flushed: Cursor,
    published: Cursor,
    /// The clock that every cursor was issued with, from cursor 1 on; its own queue included.
    clocks: Vec<Clock>,
    now: Clock,
    /// Waits before a cursor.
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

/// Where and after what a numbered task was issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    pub(super) point: Point,
    clock: Clock,
    published: Clock,
}

impl Issue {
    /// Does everything up to `point` come before this task?
    pub(super) fn comes_after(&self, point: Point) -> bool {
        let queue = point.queue.index();
        self.clock[queue].max(self.published[queue]) >= point.cursor
    }
}

/// A slice that is live for the backend.
struct Live {
    page: PageId,
    start: u64,
    len: u64,
}

/// What a task does with bytes.
pub(super) enum Effect {
    /// Nothing.
    None,
    /// See [`compute`].
    Compute(u64),
    /// The first binding's bytes go to the second.
    Copy,
    /// These bytes go to the first binding.
    Store(Vec<u8>),
}

pub(super) struct Ledger {
    lanes: Vec<Lane>,
    open: Vec<Touch>,
    pages: BTreeMap<PageId, Vec<u8>>,
    pages_made: u32,
    memory_bytes: u64,
    slices: HashMap<SliceId, Live>,
    hosts: u64,
    pub(super) calls: Vec<Call>,
    pub(super) issues: HashMap<u64, Issue>,
    /// Slices that ever had memory.
    pub(super) reserved: HashSet<SliceId>,
    /// Numbers of launches and fills to refuse.
    pub(super) refused: HashSet<u64>,
    /// Which call of a copy to refuse, counted down.
    pub(super) refuse_copy: Option<u32>,
    /// Completes tasks in the middle of calls, as a device does: state of the dice, and how often of 256.
    pub(super) dice: (u64, u8),
    /// Say what happens, for debugging a failure.
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
            pages: BTreeMap::new(),
            pages_made: 0,
            memory_bytes,
            slices: HashMap::new(),
            hosts: 0,
            calls: Vec::new(),
            issues: HashMap::new(),
            reserved: HashSet::new(),
            refused: HashSet::new(),
            refuse_copy: None,
            dice: (1, 0),
            trace: std::env::var_os("MILLSTREAM_TRACE").is_some(),
        }
    }

    pub(super) fn queues(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn timeline(&self, queue: QueueId) -> Arc<Timeline> {
        self.lanes[queue.index()].timeline.clone()
    }

    /// Pages and slices that live.
    pub(super) fn live(&self) -> (usize, usize) {
        (self.pages.len(), self.slices.len())
    }

    /// Tasks of `queue` that were issued and have not completed.
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
        lane.timeline.publish(next);
        let done = |touch: &Touch| matches!(touch.by, By::Task(point) if point.queue.index() == queue && point.cursor <= next);
        self.open.retain(|touch| !done(touch));
        true
    }

    /// The device goes on while it is being told things.
    pub(super) fn tick(&mut self) {
        while self.roll() {
            let queue = self.dice.0 as usize / 256 % self.lanes.len();
            self.step(queue);
        }
    }

    fn roll(&mut self) -> bool {
        // xorshift64: the same seed, the same run.
        let dice = &mut self.dice.0;
        *dice ^= *dice << 13;
        *dice ^= *dice >> 7;
        *dice ^= *dice << 17;
        (*dice as u8) < self.dice.1
    }

    fn published_clock(&self) -> Clock {
        let mut clock = [0; MAX_QUEUES];
        for (mine, lane) in clock.iter_mut().zip(&self.lanes) {
            *mine = lane.published;
        }
        clock
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
        let twice =
            |(cursor, other): &(Cursor, Point)| *cursor == next && other.queue == point.queue;
        assert!(
            !lane.waits.iter().any(twice),
            "{queue} waits twice for {} before one task: the later point implies the earlier (I3)",
            point.queue
        );
        for (mine, theirs) in lane.now.iter_mut().zip(theirs) {
            *mine = (*mine).max(theirs);
        }
        lane.waits.push((lane.issued + 1, point));
    }

    /// Takes a task: its place, what it touches, what it does.
    pub(super) fn task(&mut self, point: Point, bindings: &[BoundSlice], effect: Effect) {
        let lane = &mut self.lanes[point.queue.index()];
        assert_eq!(
            point.cursor,
            lane.issued + 1,
            "cursors of {} go up by one",
            point.queue
        );
        lane.issued = point.cursor;
        lane.now[point.queue.index()] = point.cursor;
        lane.clocks.push(lane.now);
        let clock = lane.now;
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let page = self.check_live(bound);
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
        self.apply(bindings, effect);
    }

    /// Notes a numbered task that was taken.
    pub(super) fn note(&mut self, number: u64, point: Point) {
        if self.trace {
            eprintln!("run {number} at {point}");
        }
        self.calls.push(Call::Run(point.queue.0, number));
        let clock = self.lanes[point.queue.index()].now;
        let published = self.published_clock();
        self.issues.insert(
            number,
            Issue {
                point,
                clock,
                published,
            },
        );
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

    /// A host function begins with these bindings: all that conflicts has completed.
    pub(super) fn host_begins(&mut self, bindings: &[BoundSlice]) -> u64 {
        self.hosts += 1;
        let by = By::Host(self.hosts);
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let page = self.check_live(bound);
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

    pub(super) fn host_ends(&mut self, host: u64, bindings: &[BoundSlice], effect: Effect) {
        self.open.retain(|touch| touch.by != By::Host(host));
        self.apply(bindings, effect);
    }

    pub(super) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let used: u64 = self.pages.values().map(|page| page.len() as u64).sum();
        let free = self.memory_bytes - used;
        if bytes > free {
            return Err(PageError::OutOfMemory { free: Some(free) });
        }
        let page = PageId(self.pages_made);
        self.pages_made += 1;
        self.pages.insert(page, vec![0xCD; bytes as usize]);
        Ok(page)
    }

    pub(super) fn free(&mut self, page: PageId) {
        if self.trace {
            eprintln!("free {page}");
        }
        assert!(
            self.open.iter().all(|touch| touch.page != page),
            "{page} is freed in use (I4)"
        );
        assert!(
            self.slices.values().all(|slice| slice.page != page),
            "{page} is freed with a slice on it"
        );
        assert!(self.pages.remove(&page).is_some(), "{page} is freed twice");
    }

    pub(super) fn reserve(&mut self, slice: SliceId, page: PageId, start: u64, len: u64) {
        if self.trace {
            eprintln!("reserve {slice} {page} {start} {len}");
        }
        let bytes = self
            .pages
            .get_mut(&page)
            .expect("a slice lies in a live page");
        bytes[start as usize..(start + len) as usize].fill(0);
        let overlaps = |other: &Live| {
            other.page == page && other.start < start + len && start < other.start + other.len
        };
        assert!(
            !self.slices.values().any(overlaps),
            "{slice} overlaps a live one (I4)"
        );
        assert!(
            self.slices
                .insert(slice, Live { page, start, len })
                .is_none(),
            "{slice} is reserved twice"
        );
        self.reserved.insert(slice);
    }

    pub(super) fn release(&mut self, slice: SliceId) {
        if self.trace {
            eprintln!("release {slice}");
        }
        assert!(
            self.slices.remove(&slice).is_some(),
            "{slice} is released without being live"
        );
    }

    /// The page of a binding, which lies in its live slice.
    fn check_live(&self, bound: &BoundSlice) -> PageId {
        let live = &self.slices[&bound.slice];
        assert_eq!(
            Some(live.page),
            bound.page,
            "{} lies elsewhere",
            bound.slice
        );
        assert_eq!(live.start + bound.slice_offset, bound.offset);
        assert!(
            bound.slice_offset + bound.len <= live.len,
            "beyond {}",
            bound.slice
        );
        live.page
    }

    /// The bytes of a binding.
    pub(super) fn bytes(&self, bound: &BoundSlice) -> &[u8] {
        match bound.page {
            Some(page) => {
                &self.pages[&page][bound.offset as usize..(bound.offset + bound.len) as usize]
            }
            None => &[],
        }
    }

    fn store(&mut self, bound: &BoundSlice, bytes: &[u8]) {
        if let Some(page) = bound.page.and_then(|page| self.pages.get_mut(&page)) {
            page[bound.offset as usize..(bound.offset + bound.len) as usize].copy_from_slice(bytes);
        }
    }

    fn apply(&mut self, bindings: &[BoundSlice], effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Store(bytes) => self.store(&bindings[0], &bytes),
            Effect::Copy => {
                let bytes = self.bytes(&bindings[0]).to_vec();
                self.store(&bindings[1], &bytes);
            }
            Effect::Compute(number) => {
                let mut views: Vec<_> = bindings
                    .iter()
                    .map(|bound| (bound.access, self.bytes(bound).to_vec()))
                    .collect();
                compute(number, &mut views);
                for (bound, (access, bytes)) in bindings.iter().zip(&views) {
                    if access.writes() {
                        self.store(bound, bytes);
                    }
                }
            }
        }
    }
}

fn conflict(touch: &Touch, page: PageId, range: &Range<u64>, access: Access) -> bool {
    touch.page == page
        && touch.range.start < range.end
        && range.start < touch.range.end
        && (touch.access.writes() || access.writes())
}

/// What launch `number` does: every byte that it writes depends on its number and on all it reads.
pub(super) fn compute(number: u64, views: &mut [(Access, Vec<u8>)]) {
    let mut hash = number ^ 0xcbf2_9ce4_8422_2325;
    for byte in views
        .iter()
        .filter(|(access, _)| access.reads())
        .flat_map(|(_, bytes)| bytes)
    {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for (access, bytes) in views.iter_mut().filter(|(access, _)| access.writes()) {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let fresh = (hash >> (index % 7 * 8)) as u8;
            *byte = match access {
                Access::ReadWrite => byte.wrapping_mul(3) ^ fresh,
                _ => fresh,
            };
        }
    }
}
