//! Which range a request gets: reuse before and after the points of a freed range have passed (I4).

use super::*;

const SIZES: [u64; 4] = [KIB, 300 * KIB, 40 * MIB, 200];

#[test]
fn queue_reuses_its_own_range_at_once_and_another_queue_does_not_i4() {
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
            "I4: another queue that touches it must wait"
        );
    }
}

/// Each queue comes after its own uses only.
#[test]
fn range_that_two_queues_use_is_reused_by_neither_i4() {
    for (bytes, queue) in SIZES.iter().flat_map(|bytes| [(*bytes, A), (*bytes, B)]) {
        let mut rig = rig();
        let (range, _) = rig.reserve(bytes, A);
        let points = [Point::new(A, 5), Point::new(B, 2)];
        rig.pools.release(range, points.into_iter().collect());
        let (other, _) = rig.reserve(bytes, queue);
        assert_ne!((other.page, other.offset), (range.page, range.offset));
    }
}

#[test]
fn range_is_clean_once_its_last_point_has_passed() {
    for bytes in SIZES {
        let mut rig = rig();
        let (range, _) = rig.reserve(bytes, A);
        rig.pools.release(
            range,
            [Point::new(A, 5), Point::new(B, 2)].into_iter().collect(),
        );
        assert!(rig.pools.usage().waiting >= bytes && rig.pools.has_busy());
        assert!(
            rig.pools
                .oldest_busy(A)
                .or(rig.pools.oldest_busy(B))
                .is_some()
        );
        assert!(
            !rig.pass(B, 1) && !rig.pass(A, 7),
            "I4: queue B has not passed"
        );
        assert_eq!(
            (rig.pools.oldest_busy(A), rig.pools.oldest_busy(B)),
            (None, Some(2))
        );
        let (other, _) = rig.reserve(bytes, A);
        assert_ne!((other.page, other.offset), (range.page, range.offset), "I4");
        assert!(rig.pass(B, 2) && !rig.pools.has_busy());
        let (again, points) = rig.reserve(bytes, QueueId(3));
        assert_eq!((again.page, again.offset), (range.page, range.offset));
        assert!(points.is_empty());
    }
}

#[test]
fn release_after_its_points_have_passed_is_clean_at_once() {
    let mut rig = rig();
    let (range, _) = rig.reserve(KIB, A);
    rig.pass(A, 9);
    rig.pools.release(range, point(A, 9));
    assert!(!rig.pools.has_busy() && rig.pools.usage().waiting == 0);
}

#[test]
fn range_is_reused_only_if_all_its_points_are_covered_i4() {
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
fn full_device_serves_small_slices_from_larger_holes() {
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
fn large_page_serves_slices_at_most_an_eighth_smaller() {
    let mut rig = rig();
    let (page, _) = rig.reserve(100 * MIB, A);
    rig.pools.release(page, Points::new());
    assert_ne!(rig.reserve(80 * MIB, A).0.page, page.page);
    assert_eq!(rig.reserve(90 * MIB, A).0.page, page.page);
    assert_eq!(rig.pools.usage().padding, 10 * MIB);
}

#[test]
fn freed_range_serves_its_class_again() {
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
fn pools_hold_a_million_small_slices() {
    let mut rig = rig();
    let live: Vec<_> = (0..1_000_000).map(|_| rig.reserve(KIB, A).0).collect();
    assert_eq!(
        (rig.pools.usage().live_slices, rig.pools.usage().in_use),
        (1_000_000, KIB * 1_000_000)
    );
    assert!(rig.pools.usage().reserved < KIB * 1_000_000 * 11 / 10);
    for (step, range) in live.into_iter().enumerate() {
        rig.pools.release(range, point(A, 1 + step as u64 / 1000));
    }
    assert!(rig.pass(A, 500) && rig.pools.oldest_busy(A) == Some(501));
    assert!(rig.pass(A, 1000) && !rig.pools.has_busy());
    rig.pools.cleanup(&mut rig.source);
    assert_eq!(rig.source.pages.len(), 0);
}

#[test]
fn reservation_is_at_most_40_bytes() {
    assert!(size_of::<Reservation>() <= 40);
}
