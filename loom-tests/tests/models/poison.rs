//! Poison cell: later threads see a mark, and clearing a range keeps the marks of others.

use super::SPIN;
use millstream_loom::{Bound, check};
use millstream_sync::facade::Arc;
use millstream_sync::poison::PoisonCell;
use millstream_sync::timeline::Timeline;

#[test]
fn a_mark_is_visible_after_its_cursor_completed() {
    check(Bound::TwoThreads, |sides| {
        let shared = Arc::new((PoisonCell::new(), Timeline::new()));
        let queue = shared.clone();
        let wait_and_find = move || {
            shared.1.wait(1, &SPIN).unwrap();
            shared.0.find(5..6)
        };
        let fail = move || {
            queue.0.mark(0..10, "failed");
            queue.1.publish(1);
        };
        let (found, ()) = sides.run(wait_and_find, fail);
        assert_eq!(found, Some("failed"));
    });
}

#[test]
fn clearing_one_range_keeps_the_mark_of_another() {
    check(Bound::TwoThreads, |sides| {
        let cell = Arc::new(PoisonCell::new());
        cell.mark(0..10, "old");
        let (one, two) = (cell.clone(), cell.clone());
        sides.run(move || one.clear(0..10), move || two.mark(10..20, "new"));
        assert_eq!((cell.find(0..10), cell.find(10..20)), (None, Some("new")));
    });
}

#[test]
fn two_first_marks_share_one_list() {
    check(Bound::TwoThreads, |sides| {
        let cell = Arc::new(PoisonCell::new());
        let (one, two) = (cell.clone(), cell.clone());
        sides.run(
            move || one.mark(0..10, Arc::new(1)),
            move || two.mark(10..20, Arc::new(2)),
        );
        let found = [0..10, 10..20].map(|range| cell.find(range).map(|why| *why));
        assert_eq!(found, [Some(1), Some(2)]);
    });
}

#[test]
fn a_reset_during_a_find_drops_the_reason_once() {
    check(Bound::TwoThreads, |sides| {
        let cell = Arc::new(PoisonCell::new());
        let why = Arc::new(1);
        cell.mark(0..10, why.clone());
        let (one, two) = (cell.clone(), cell.clone());
        let (found, ()) = sides.run(move || one.find(0..1), move || two.reset());
        assert!(found.is_none_or(|found| *found == 1) && cell.is_clean());
        assert_eq!(Arc::strong_count(&why), 1);
    });
}
