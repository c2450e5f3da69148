//! The facts that must hold for the pools, derived simply: bytes, their holders, and the points that still use them.

use std::collections::HashMap;

use millstream_protocol::{
    AllocationMode, Cursor, MemoryOptions, PageError, PageId, Point, QueueId,
};

use millstream_state::memory::{PageSource, Pools, Reservation};
use millstream_state::points::Points;

pub(crate) const QUEUES: usize = 3;
const ALIGNMENT: u64 = 256;

/// One step of a test.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Reserve {
        bytes: u64,
        mode: AllocationMode,
        queue: usize,
    },
    /// A new task of a queue uses the nth live slice, after the waits that it needs.
    Use {
        nth: usize,
        queue: usize,
    },
    Release {
        nth: usize,
    },
    /// A queue completes further tasks.
    Pass {
        queue: usize,
        tasks: u64,
    },
    /// A queue waits for everything that was issued on another.
    Wait {
        queue: usize,
        other: usize,
    },
    Trim,
    Cleanup,
}

/// Bytes of a page.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    page: PageId,
    start: u64,
    end: u64,
}

impl Bytes {
    fn of(reservation: &Reservation) -> Self {
        let start = reservation.offset;
        Self {
            page: reservation.page,
            start,
            end: start + reservation.bytes,
        }
    }

    fn overlaps(&self, other: &Bytes) -> bool {
        self.page == other.page && self.start < other.end && other.start < self.end
    }
}

struct Live {
    reservation: Reservation,
    requested: u64,
    /// The points that it inherited, and every use of it.
    points: Points,
}

/// A device with a memory limit that records the pages that it frees.
struct Device {
    pages: HashMap<PageId, u64>,
    limit: u64,
    next: u32,
    returned: Vec<PageId>,
}

impl Device {
    fn used(&self) -> u64 {
        self.pages.values().sum()
    }
}

impl PageSource for Device {
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let free = self.limit - self.used();
        if bytes > free {
            // Not every device reports its free bytes.
            return Err(PageError::OutOfMemory {
                free: free.is_multiple_of(512).then_some(free),
            });
        }
        self.next += 1;
        self.pages.insert(PageId(self.next), bytes);
        Ok(PageId(self.next))
    }

    fn free_page(&mut self, page: PageId) {
        assert!(self.pages.remove(&page).is_some(), "{page} is freed once");
        self.returned.push(page);
    }
}

/// The pools, the device, and the facts about them.
pub(crate) struct Oracle {
    pools: Pools,
    device: Device,
    live: Vec<Live>,
    freed: Vec<(Bytes, Points)>,
    issued: [Cursor; QUEUES],
    passed: [Cursor; QUEUES],
    /// For each queue, the cursor that it has waited for on each queue.
    clocks: [[Cursor; QUEUES]; QUEUES],
    high_water: u64,
}

impl Oracle {
    pub(crate) fn new(options: MemoryOptions, limit: u64) -> Self {
        Self {
            pools: Pools::new(options, ALIGNMENT),
            device: Device {
                pages: HashMap::new(),
                limit,
                next: 0,
                returned: Vec::new(),
            },
            live: Vec::new(),
            freed: Vec::new(),
            issued: [0; QUEUES],
            passed: [0; QUEUES],
            clocks: [[0; QUEUES]; QUEUES],
            high_water: 0,
        }
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Reserve { bytes, mode, queue } => self.reserve(bytes, mode, queue),
            Step::Use { nth, queue } => self.use_nth(nth, queue),
            Step::Release { nth } => self.release(nth),
            Step::Pass { queue, tasks } => {
                self.pass(queue, self.issued[queue].min(self.passed[queue] + tasks));
            }
            Step::Wait { queue, other } => self.wait(queue, other, self.issued[other]),
            Step::Trim => {
                let before = self.device.used();
                assert_eq!(
                    self.pools.trim(&mut self.device),
                    before - self.device.used()
                );
                assert!(!self.pools.has_due());
            }
            Step::Cleanup => {
                let before = self.device.used();
                assert_eq!(
                    self.pools.cleanup(&mut self.device),
                    before - self.device.used()
                );
            }
        }
        self.check();
    }

    fn reserve(&mut self, bytes: u64, mode: AllocationMode, queue: usize) {
        let (clock, passed) = (self.clocks[queue], self.passed);
        let covered = move |point: Point| {
            let other = point.queue.index();
            other == queue || point.cursor <= clock[other].max(passed[other])
        };
        let id = QueueId(queue as u8);
        match self
            .pools
            .reserve(&mut self.device, bytes, mode, id, &covered)
        {
            Ok((reservation, residue)) => {
                self.check_reserved(&reservation, &residue, bytes, covered);
                self.live.push(Live {
                    reservation,
                    requested: bytes,
                    points: residue,
                });
            }
            Err(PageError::OutOfMemory { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn check_reserved(
        &self,
        reservation: &Reservation,
        residue: &Points,
        bytes: u64,
        covered: impl Fn(Point) -> bool,
    ) {
        let new = Bytes::of(reservation);
        assert!(reservation.bytes >= bytes && reservation.requested == bytes);
        assert!(new.start.is_multiple_of(ALIGNMENT) && new.end <= self.device.pages[&new.page]);
        for live in &self.live {
            assert!(
                !new.overlaps(&Bytes::of(&live.reservation)),
                "two slices share bytes"
            );
        }
        for (old, points) in self.freed.iter().filter(|(old, _)| old.overlaps(&new)) {
            for point in points.iter().filter(|point| !self.has_passed(*point)) {
                assert!(
                    covered(point),
                    "I4: {old:?} is handed out before {point} passed"
                );
                let mut residue = residue.iter();
                let kept =
                    residue.any(|kept| kept.queue == point.queue && kept.cursor >= point.cursor);
                assert!(kept, "I4: {point} is forgotten");
            }
        }
        assert!(residue.iter().all(|point| !self.has_passed(point)));
    }

    fn use_nth(&mut self, nth: usize, queue: usize) {
        if self.live.is_empty() {
            return;
        }
        let nth = nth % self.live.len();
        for point in self.live[nth].points.clone().iter() {
            self.wait(queue, point.queue.index(), point.cursor);
        }
        self.issued[queue] += 1;
        let point = Point::new(QueueId(queue as u8), self.issued[queue]);
        self.live[nth].points.insert(point);
    }

    fn release(&mut self, nth: usize) {
        if self.live.is_empty() {
            return;
        }
        let nth = nth % self.live.len();
        let Live {
            reservation,
            points,
            ..
        } = self.live.swap_remove(nth);
        let bytes = Bytes::of(&reservation);
        // The inherited points are among the new ones, so the old record is not needed any more.
        self.freed.retain(|(old, _)| {
            !(old.overlaps(&bytes) && bytes.start <= old.start && old.end <= bytes.end)
        });
        self.freed.push((bytes, points.clone()));
        self.pools.release(reservation, points);
    }

    fn wait(&mut self, queue: usize, other: usize, cursor: Cursor) {
        let reached = &mut self.clocks[queue][other];
        *reached = cursor.max(*reached);
    }

    fn pass(&mut self, queue: usize, cursor: Cursor) {
        self.passed[queue] = cursor;
        let before = self.pools.usage().waiting;
        let mut clean = 0;
        let count = |reservation: &Reservation| clean += reservation.bytes;
        self.pools.passed(QueueId(queue as u8), cursor, count);
        assert_eq!(clean, before - self.pools.usage().waiting);
        let passed = self.passed;
        for (_, points) in &mut self.freed {
            points.retain_open(|point| point.cursor <= passed[point.queue.index()]);
        }
        self.freed.retain(|(_, points)| !points.is_empty());
    }

    fn has_passed(&self, point: Point) -> bool {
        point.cursor <= self.passed[point.queue.index()]
    }

    /// Returns the freed bytes that a point still uses and that no slice holds again.
    fn busy_bytes(&self) -> u64 {
        let open = |points: &Points| points.iter().any(|point| !self.has_passed(point));
        let held = |bytes: &Bytes| {
            self.live
                .iter()
                .any(|live| Bytes::of(&live.reservation).overlaps(bytes))
        };
        let busy = self
            .freed
            .iter()
            .filter(|(bytes, points)| open(points) && !held(bytes));
        busy.map(|(bytes, _)| bytes.end - bytes.start).sum()
    }

    fn check(&mut self) {
        let usage = self.pools.usage();
        let in_use = self.live.iter().map(|live| live.reservation.bytes).sum();
        let requested: u64 = self.live.iter().map(|live| live.requested).sum();
        self.high_water = self.high_water.max(in_use);
        assert_eq!((usage.in_use, usage.padding), (in_use, in_use - requested));
        assert_eq!(
            (usage.live_slices, usage.high_water),
            (self.live.len() as u64, self.high_water)
        );
        assert_eq!(
            (usage.reserved, self.pools.pages()),
            (self.device.used(), self.device.pages.len())
        );
        assert_eq!(usage.waiting, self.busy_bytes());
        assert!(usage.in_use + usage.waiting <= usage.reserved);
        for page in self.device.returned.drain(..) {
            assert!(
                self.live.iter().all(|live| live.reservation.page != page),
                "{page} was freed while in use"
            );
            let passed = self.passed;
            let mut open = self
                .freed
                .iter()
                .filter(|(bytes, _)| bytes.page == page)
                .flat_map(|(_, points)| points.iter());
            assert!(
                open.all(|point| point.cursor <= passed[point.queue.index()]),
                "I4: {page} was freed before its points passed"
            );
        }
        let oldest = (0..QUEUES).filter_map(|queue| {
            let oldest = self.pools.oldest_busy(QueueId(queue as u8))?;
            assert!(
                oldest > self.passed[queue] && oldest <= self.issued[queue],
                "a range waits for a point that was issued and has not passed"
            );
            Some(oldest)
        });
        assert_eq!(oldest.count() > 0, self.pools.has_busy());
        assert_eq!(self.pools.has_busy(), usage.waiting > 0);
    }

    /// Releases everything and lets it pass: nothing may be left (I10).
    pub(crate) fn finish(mut self) {
        while !self.live.is_empty() {
            self.release(0);
        }
        // As the GC actor does: wait for the oldest cursor, record it, query again.
        while let Some((queue, cursor)) = (0..QUEUES)
            .find_map(|queue| Some((queue, self.pools.oldest_busy(QueueId(queue as u8))?)))
        {
            self.pass(queue, cursor);
        }
        self.check();
        self.step(Step::Cleanup);
        assert_eq!(
            (self.pools.usage().reserved, self.device.pages.len()),
            (0, 0)
        );
    }
}
