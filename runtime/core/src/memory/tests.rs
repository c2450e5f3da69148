//! Facts about the pools, one by one. The state machine against an oracle is in `tests/memory.rs`.

use std::collections::HashMap;

use super::*;
use crate::hazard::points::Points;
use crate::id::{Point, QueueId};

const A: QueueId = QueueId(0);
const B: QueueId = QueueId(1);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device with a limit that counts its pages.
struct Source {
    pages: HashMap<PageId, u64>,
    limit: u64,
    asked: Vec<u64>,
    error: Option<PageError>,
}

impl Source {
    fn new(limit: u64) -> Self {
        Self {
            pages: HashMap::new(),
            limit,
            asked: Vec::new(),
            error: None,
        }
    }

    fn used(&self) -> u64 {
        self.pages.values().sum()
    }
}

impl PageSource for Source {
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.asked.push(bytes);
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.used() + bytes > self.limit {
            return Err(PageError::OutOfMemory {
                free: Some(self.limit - self.used()),
            });
        }
        let id = PageId(self.asked.len() as u32);
        self.pages.insert(id, bytes);
        Ok(id)
    }

    fn free_page(&mut self, page: PageId) {
        assert!(self.pages.remove(&page).is_some(), "{page} is freed once");
    }
}

fn point(queue: QueueId, cursor: u64) -> Points {
    Points::from(Point::new(queue, cursor))
}

/// Own points need no wait, others do.
fn own(queue: QueueId) -> impl Fn(Point) -> bool {
    move |point| point.queue == queue
}

/// Pools and their device.
struct Rig {
    pools: Pools,
    source: Source,
}

impl Rig {
    fn new(options: MemoryOptions, limit: u64) -> Self {
        Self {
            pools: Pools::new(options, 256),
            source: Source::new(limit),
        }
    }

    fn try_reserve(
        &mut self,
        bytes: u64,
        mode: AllocationMode,
        queue: QueueId,
    ) -> Result<(Reservation, Points), ReserveError> {
        self.pools
            .reserve(&mut self.source, bytes, mode, queue, &own(queue))
    }

    fn reserve(&mut self, bytes: u64, queue: QueueId) -> (Reservation, Points) {
        self.try_reserve(bytes, AllocationMode::Automatic, queue)
            .unwrap()
    }
}

fn rig() -> Rig {
    Rig::new(MemoryOptions::default(), u64::MAX)
}

const SIZES: [u64; 4] = [KIB, 300 * KIB, 40 * MIB, 200];

#[test]
fn a_queue_reuses_what_it_freed_without_a_wait_and_another_does_not() {
    for bytes in SIZES {
        let mut rig = rig();
        let (first, points) = rig.reserve(bytes, A);
        assert!(points.is_empty());
        rig.pools.release(first, point(A, 5));
        let (other, points) = rig.reserve(bytes, B);
        assert_ne!(
            (other.page, other.offset),
            (first.page, first.offset),
            "I4: queue B has not waited for A"
        );
        assert!(points.is_empty());
        let (again, points) = rig.reserve(bytes, A);
        assert_eq!((again.page, again.offset), (first.page, first.offset));
        assert_eq!(
            points,
            point(A, 5),
            "I4: who else touches it must still wait"
        );
    }
}

#[test]
fn a_range_is_clean_once_its_last_point_has_passed() {
    for bytes in SIZES {
        let mut rig = rig();
        let (range, _) = rig.reserve(bytes, A);
        rig.pools.release(
            range,
            [Point::new(A, 5), Point::new(B, 2)].into_iter().collect(),
        );
        assert!(rig.pools.usage().busy >= bytes && rig.pools.has_busy());
        assert!(
            rig.pools
                .oldest_busy(A)
                .or(rig.pools.oldest_busy(B))
                .is_some()
        );
        assert!(
            !rig.pools.passed(B, 1) && !rig.pools.passed(A, 7),
            "I4: queue B has not passed"
        );
        assert_eq!(
            (rig.pools.oldest_busy(A), rig.pools.oldest_busy(B)),
            (None, Some(2))
        );
        let (other, _) = rig.reserve(bytes, A);
        assert_ne!((other.page, other.offset), (range.page, range.offset), "I4");
        assert!(rig.pools.passed(B, 2) && !rig.pools.has_busy());
        let (again, points) = rig.reserve(bytes, QueueId(3));
        assert_eq!((again.page, again.offset), (range.page, range.offset));
        assert!(points.is_empty());
    }
}

#[test]
fn a_release_after_the_points_passed_is_clean_at_once() {
    let mut rig = rig();
    let (range, _) = rig.reserve(KIB, A);
    rig.pools.passed(A, 9);
    rig.pools.release(range, point(A, 9));
    assert!(!rig.pools.has_busy() && rig.pools.usage().busy == 0);
}

#[test]
fn the_rest_of_the_points_must_be_covered_too() {
    let mut rig = rig();
    let (range, _) = rig.reserve(KIB, A);
    let points: Points = [Point::new(A, 5), Point::new(B, 2)].into_iter().collect();
    rig.pools.release(range, points.clone());
    assert_ne!(
        rig.reserve(KIB, A).0.offset,
        range.offset,
        "I4: B's point is not covered for A"
    );
    let covered = |point: Point| point.queue == A || point.cursor <= 2;
    let (again, residue) = rig
        .pools
        .reserve(&mut rig.source, KIB, AllocationMode::Automatic, A, &covered)
        .unwrap();
    assert_eq!((again.offset, residue), (range.offset, points));
}

#[test]
fn no_bytes_need_no_page() {
    let mut rig = rig();
    let (nothing, points) = rig.reserve(0, A);
    assert_eq!(
        (
            nothing.page(),
            nothing.bytes,
            points.len(),
            rig.pools.usage().live
        ),
        (None, 0, 0, 1)
    );
    rig.pools.release(nothing, point(A, 1));
    assert_eq!(rig.pools.usage(), PoolUsage::default());
    assert!(!rig.pools.has_busy() && rig.source.asked.is_empty());
}

#[test]
fn a_page_that_cannot_be_had_is_asked_for_in_less() {
    let mut rig = Rig::new(MemoryOptions::default(), MIB);
    assert!(rig.try_reserve(KIB, AllocationMode::Automatic, A).is_ok());
    assert_eq!(
        rig.source.used(),
        MIB,
        "the device's own word is taken for what is free"
    );
    let error = rig
        .try_reserve(2 * MIB, AllocationMode::Automatic, A)
        .unwrap_err();
    assert_eq!(
        error,
        ReserveError::OutOfMemory {
            asked: 2 * MIB,
            reserved: MIB,
            free: Some(0),
            waiting: 0
        }
    );
}

#[test]
fn a_persistent_slice_fits_where_a_persistent_page_does_not() {
    let mut rig = Rig::new(MemoryOptions::default(), MIB);
    let (range, _) = rig
        .try_reserve(600 * KIB, AllocationMode::Persistent, A)
        .unwrap();
    assert_eq!((range.bytes, rig.source.used()), (600 * KIB, 600 * KIB));
}

#[test]
fn out_of_memory_says_what_will_come_back() {
    let mut rig = Rig::new(MemoryOptions::default(), 48 * MIB);
    let (range, _) = rig.reserve(40 * MIB, A);
    rig.pools.release(range, point(A, 1));
    let error = rig
        .try_reserve(40 * MIB, AllocationMode::Automatic, B)
        .unwrap_err();
    assert_eq!(
        error,
        ReserveError::OutOfMemory {
            asked: 40 * MIB,
            reserved: 40 * MIB,
            free: Some(8 * MIB),
            waiting: 40 * MIB
        }
    );
    assert!(rig.pools.passed(A, 1));
    rig.reserve(40 * MIB, B);
}

#[test]
fn free_pages_are_given_back_before_out_of_memory() {
    let mut rig = Rig::new(MemoryOptions::default(), 70 * MIB);
    let small: Vec<_> = (0..1000).map(|_| rig.reserve(KIB, A).0).collect();
    assert!(
        rig.try_reserve(30 * MIB, AllocationMode::Automatic, A)
            .is_err()
    );
    small
        .into_iter()
        .for_each(|range| rig.pools.release(range, Points::new()));
    rig.reserve(30 * MIB, A);
    assert_eq!(rig.source.pages.len(), 1);
}

#[test]
fn a_full_device_serves_small_slices_from_larger_holes() {
    let mut rig = Rig::new(MemoryOptions::default().page_bytes(MIB), MIB);
    let blocks: Vec<_> =
        std::iter::from_fn(|| rig.try_reserve(2 * KIB, AllocationMode::Automatic, A).ok())
            .collect();
    assert_eq!(blocks.len(), 512);
    rig.pools.release(blocks[0].0, point(A, 1));
    let (range, points) = rig.reserve(KIB, A);
    assert_eq!(
        (range.offset, range.bytes, points),
        (blocks[0].0.offset, 2 * KIB, point(A, 1))
    );
    assert_eq!(rig.pools.usage().padding, KIB);
}

#[test]
fn what_no_device_has_is_too_large() {
    let mut rig = rig();
    for bytes in [u64::MAX, u64::MAX - 255, 1 << 49] {
        assert!(matches!(
            rig.try_reserve(bytes, AllocationMode::Dedicated, A),
            Err(ReserveError::TooLarge { .. })
        ));
    }
    rig.source.error = Some(PageError::TooLarge { limit: 1000 });
    let error = rig
        .try_reserve(MIB, AllocationMode::Automatic, A)
        .unwrap_err();
    assert_eq!(
        error,
        ReserveError::TooLarge {
            asked: MIB,
            limit: 1000
        }
    );
    rig.source.error = Some(PageError::Lost);
    assert_eq!(
        rig.try_reserve(MIB, AllocationMode::Automatic, A)
            .unwrap_err(),
        ReserveError::Lost
    );
    assert_eq!(rig.pools.usage(), PoolUsage::default());
}

#[test]
fn dedicated_pages_are_due_once_their_points_passed() {
    for options in [
        MemoryOptions::default(),
        MemoryOptions::default().isolate(true),
    ] {
        let mode = if options.isolate {
            AllocationMode::Automatic
        } else {
            AllocationMode::Dedicated
        };
        let mut rig = Rig::new(options, u64::MAX);
        let (first, _) = rig.try_reserve(KIB, mode, A).unwrap();
        let (second, _) = rig.try_reserve(KIB, mode, A).unwrap();
        assert!(first.page != second.page && first.bytes == KIB);
        rig.pools.release(first, point(A, 1));
        let (third, _) = rig.try_reserve(KIB, mode, A).unwrap();
        assert!(
            third.page != first.page && rig.source.pages.len() == 3,
            "I4"
        );
        rig.pools.passed(A, 1);
        assert!(rig.pools.has_due());
        assert_eq!(
            (rig.pools.trim(&mut rig.source), rig.source.pages.len()),
            (KIB, 2)
        );
    }
}

#[test]
fn persistent_slices_are_packed_and_their_holes_serve_their_size_only() {
    let mut rig = rig();
    let persistent = |rig: &mut Rig, bytes| {
        rig.try_reserve(bytes, AllocationMode::Persistent, A)
            .unwrap()
            .0
    };
    let (first, second) = (
        persistent(&mut rig, 1000 * 256),
        persistent(&mut rig, 999 * 256),
    );
    assert_eq!(
        (first.page, first.offset + first.bytes),
        (second.page, second.offset)
    );
    rig.pools.release(first, Points::new());
    assert_ne!(persistent(&mut rig, 998 * 256).offset, first.offset);
    let (other, _) = rig.reserve(1000 * 256, A);
    assert_ne!(
        other.page, first.page,
        "nothing short-lived shares the page"
    );
    assert_eq!(persistent(&mut rig, 1000 * 256), first);
}

#[test]
fn cleanup_keeps_persistent_pages_in_use_and_returns_the_rest() {
    let mut rig = rig();
    let (weights, _) = rig.try_reserve(KIB, AllocationMode::Persistent, A).unwrap();
    let (short, _) = rig.reserve(KIB, A);
    rig.pools.release(short, Points::new());
    assert_eq!(rig.pools.cleanup(&mut rig.source), 64 * MIB);
    assert_eq!(
        rig.source.pages.keys().copied().collect::<Vec<_>>(),
        [weights.page]
    );
    rig.pools.release(weights, Points::new());
    assert_eq!(rig.pools.cleanup(&mut rig.source), 64 * MIB);
    assert_eq!((rig.source.pages.len(), rig.pools.usage().reserved), (0, 0));
}

#[test]
fn no_more_empty_pages_are_kept_than_the_options_say() {
    let mut rig = Rig::new(MemoryOptions::default().max_pages_cached(3), u64::MAX);
    let large: Vec<_> = (0..10)
        .map(|step| rig.reserve((20 + 10 * step) * MIB, A).0)
        .collect();
    large
        .into_iter()
        .for_each(|range| rig.pools.release(range, Points::new()));
    assert!(rig.pools.has_due());
    rig.pools.trim(&mut rig.source);
    assert_eq!(rig.source.pages.len(), 3);
    assert_eq!(rig.pools.usage().reserved, rig.source.used());
}

#[test]
fn a_large_page_serves_a_slice_at_most_an_eighth_smaller() {
    let mut rig = rig();
    let (page, _) = rig.reserve(100 * MIB, A);
    rig.pools.release(page, Points::new());
    assert_ne!(rig.reserve(80 * MIB, A).0.page, page.page);
    assert_eq!(rig.reserve(90 * MIB, A).0.page, page.page);
    assert_eq!(rig.pools.usage().padding, 10 * MIB);
}

#[test]
fn a_freed_range_of_every_class_serves_its_class_again() {
    let mut rig = rig();
    for bytes in (1..400).map(|step| step * 997 * (1 + step / 30)) {
        let (range, _) = rig.reserve(bytes, A);
        let fence = rig.reserve(bytes, A).0;
        let before = rig.pools.usage().reserved;
        rig.pools.release(range, Points::new());
        let again = rig.reserve(bytes, A).0;
        assert_eq!(rig.pools.usage().reserved, before);
        rig.pools.release(again, Points::new());
        rig.pools.release(fence, Points::new());
    }
    rig.pools.cleanup(&mut rig.source);
    assert_eq!(rig.source.pages.len(), 0);
}

#[test]
fn a_million_small_slices_live_at_once() {
    let mut rig = rig();
    let live: Vec<_> = (0..1_000_000).map(|_| rig.reserve(KIB, A).0).collect();
    assert_eq!(
        (rig.pools.usage().live, rig.pools.usage().in_use),
        (1_000_000, KIB * 1_000_000)
    );
    assert!(rig.pools.usage().reserved < KIB * 1_000_000 * 11 / 10);
    for (step, range) in live.into_iter().enumerate() {
        rig.pools.release(range, point(A, 1 + step as u64 / 1000));
    }
    assert!(rig.pools.passed(A, 500) && rig.pools.oldest_busy(A) == Some(501));
    assert!(rig.pools.passed(A, 1000) && !rig.pools.has_busy());
    rig.pools.cleanup(&mut rig.source);
    assert_eq!(rig.source.pages.len(), 0);
}

#[test]
fn a_reservation_is_forty_bytes() {
    assert!(size_of::<Reservation>() <= 40);
}
