//! Which pages are allocated, when they are freed, and the errors if there is none.

use super::*;

#[test]
fn smaller_page_is_allocated_if_the_device_lacks_a_full_one() {
    let mut rig = Rig::new(MemoryOptions::default(), MIB);
    assert!(rig.try_reserve(KIB, AllocationMode::Automatic, A).is_ok());
    assert_eq!(
        rig.source.used(),
        MIB,
        "the page has the free bytes that the device reports"
    );
    let error = rig
        .try_reserve(2 * MIB, AllocationMode::Automatic, A)
        .unwrap_err();
    assert_eq!(error, PageError::OutOfMemory { free: Some(0) });
    assert_eq!(rig.pools.usage().reserved, MIB);
}

#[test]
fn persistent_slice_gets_an_exact_page_if_a_full_one_does_not_fit() {
    let mut rig = Rig::new(MemoryOptions::default(), MIB);
    let (range, _) = rig
        .try_reserve(600 * KIB, AllocationMode::Persistent, A)
        .unwrap();
    assert_eq!((range.bytes, rig.source.used()), (600 * KIB, 600 * KIB));
}

#[test]
fn busy_page_does_not_serve_another_queue_before_its_point_has_passed_i4() {
    let mut rig = Rig::new(MemoryOptions::default(), 48 * MIB);
    let (range, _) = rig.reserve(40 * MIB, A);
    rig.pools.release(range, point(A, 1));
    let error = rig
        .try_reserve(40 * MIB, AllocationMode::Automatic, B)
        .unwrap_err();
    let free = Some(8 * MIB);
    assert_eq!(error, PageError::OutOfMemory { free });
    assert_eq!(rig.pools.usage().waiting, 40 * MIB);
    assert!(rig.pass(A, 1));
    rig.reserve(40 * MIB, B);
}

#[test]
fn empty_pages_are_freed_before_out_of_memory() {
    let mut rig = Rig::new(MemoryOptions::default(), 70 * MIB);
    let small: Vec<_> = (0..1000).map(|_| rig.reserve(KIB, A).0).collect();
    assert!(
        rig.try_reserve(30 * MIB, AllocationMode::Automatic, A)
            .is_err()
    );
    small
        .into_iter()
        .for_each(|range| _ = rig.pools.release(range, Points::new()));
    rig.reserve(30 * MIB, A);
    assert_eq!(rig.source.pages.len(), 1);
}

#[test]
fn request_beyond_every_device_is_too_large() {
    let mut rig = rig();
    for bytes in [u64::MAX, u64::MAX - 255, 1 << 49] {
        assert!(matches!(
            rig.try_reserve(bytes, AllocationMode::Dedicated, A),
            Err(PageError::TooLarge { .. })
        ));
    }
    rig.source.error = Some(PageError::TooLarge { limit: 1000 });
    let error = rig
        .try_reserve(MIB, AllocationMode::Automatic, A)
        .unwrap_err();
    assert_eq!(error, PageError::TooLarge { limit: 1000 });
    rig.source.error = Some(PageError::Lost);
    assert_eq!(
        rig.try_reserve(MIB, AllocationMode::Automatic, A)
            .unwrap_err(),
        PageError::Lost
    );
    assert_eq!(rig.pools.usage(), MemoryUsage::default());
}

#[test]
fn dedicated_page_is_due_once_its_points_have_passed() {
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
        rig.pass(A, 1);
        assert!(rig.pools.has_due());
        assert_eq!(
            (rig.pools.trim(&mut rig.source), rig.source.pages.len()),
            (KIB, 2)
        );
    }
}

#[test]
fn persistent_slices_are_packed_and_a_hole_serves_only_its_size() {
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
fn cleanup_keeps_pages_in_use_and_frees_the_rest() {
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
fn empty_pages_are_cached_up_to_the_option() {
    let mut rig = Rig::new(MemoryOptions::default().max_pages_cached(3), u64::MAX);
    let large: Vec<_> = (0..10)
        .map(|step| rig.reserve((20 + 10 * step) * MIB, A).0)
        .collect();
    large
        .into_iter()
        .for_each(|range| _ = rig.pools.release(range, Points::new()));
    assert!(rig.pools.has_due());
    rig.pools.trim(&mut rig.source);
    assert_eq!(rig.source.pages.len(), 3);
    assert_eq!(rig.pools.usage().reserved, rig.source.used());
}

#[test]
fn persistent_page_is_empty_again_after_its_last_slice_is_freed() {
    let mut rig = rig();
    for round in 1..=20 {
        let sizes = (1..=8).map(|step| step * round * 256 * 100);
        let weights: Vec<_> = sizes
            .map(|bytes| {
                rig.try_reserve(bytes, AllocationMode::Persistent, A)
                    .unwrap()
                    .0
            })
            .collect();
        for range in weights {
            rig.pools.release(range, Points::new());
        }
    }
    assert_eq!(
        rig.source.pages.len(),
        1,
        "no range of an earlier round is left"
    );
}

#[test]
fn marked_pages_are_freed_before_others() {
    for bytes in [30 * MIB, 12 * MIB, KIB] {
        let mut rig = Rig::new(MemoryOptions::default(), 150 * MIB);
        // Each gets a page of its own.
        let mode = |bytes| match bytes {
            KIB => AllocationMode::Persistent,
            _ => AllocationMode::Automatic,
        };
        let (cached, _) = rig.reserve(64 * MIB, A);
        let (marked, _) = rig.try_reserve(bytes, mode(bytes), A).unwrap();
        assert_ne!(cached.page, marked.page);
        rig.pools.evict_first(&marked);
        rig.pools.release(cached, Points::new());
        rig.pools.release(marked, Points::new());
        rig.reserve(80 * MIB, A);
        let stays = rig.source.pages.contains_key(&cached.page);
        // A persistent page is not marked, so all empty pages are freed then.
        assert_eq!(stays, bytes != KIB, "{bytes}");
        assert!(!rig.source.pages.contains_key(&marked.page));
        assert_eq!(rig.pools.usage().reserved, rig.source.used());
    }
}

#[test]
fn page_that_is_used_again_loses_its_mark() {
    for bytes in [30 * MIB, 12 * MIB, KIB] {
        let mut rig = Rig::new(MemoryOptions::default().max_pages_cached(1), u64::MAX);
        let (first, _) = rig.reserve(bytes, A);
        rig.pools.evict_first(&first);
        rig.pools.release(first, Points::new());
        let (again, _) = rig.reserve(bytes, A);
        assert_eq!(again.page, first.page);
        let (other, _) = rig.reserve(40 * MIB, A);
        rig.pools.evict_first(&other);
        rig.pools.release(again, Points::new());
        rig.pools.release(other, Points::new());
        rig.pools.trim(&mut rig.source);
        assert!(rig.source.pages.contains_key(&again.page), "{bytes}");
    }
}
