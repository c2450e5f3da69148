//! What a poison cell marks, cleans and finds.

use super::*;
use std::sync::Arc;

#[test]
fn a_mark_is_found_by_overlapping_ranges_until_it_is_cleared() {
    let cell = PoisonCell::new();
    assert!(cell.is_clean() && cell.find(0..100).is_none());
    cell.mark(10..20, "a");
    assert!(!cell.is_clean());
    let found = [
        cell.find(0..10),
        cell.find(0..11),
        cell.find(19..30),
        cell.find(20..30),
    ];
    assert_eq!(found, [None, Some("a"), Some("a"), None]);
    cell.clear(12..15);
    assert_eq!(
        (cell.find(12..15), cell.find(10..12), cell.find(15..16)),
        (None, Some("a"), Some("a"))
    );
    cell.clear(0..100);
    assert!(cell.is_clean());
}

#[test]
fn the_oldest_reason_is_found_and_a_new_mark_replaces_its_bytes() {
    let cell = PoisonCell::new();
    cell.mark(10..20, "old");
    cell.mark(0..10, "new");
    assert_eq!(cell.find(0..20), Some("old"));
    cell.mark(5..15, "newest");
    assert_eq!(
        [cell.find(5..15), cell.find(15..20), cell.find(0..5)],
        [Some("newest"), Some("old"), Some("new")]
    );
}

#[test]
fn nothing_overlaps_an_empty_range() {
    let cell = PoisonCell::new();
    cell.mark(7..7, "nothing");
    assert!(cell.is_clean());
    cell.mark(0..10, "a");
    assert_eq!(cell.find(5..5), None);
}

#[test]
fn a_reset_removes_all_marks_and_the_cell_can_be_used_again() {
    let why = Arc::new(());
    let cell = PoisonCell::new();
    cell.mark(0..10, why.clone());
    cell.reset();
    assert!(cell.is_clean());
    assert_eq!(Arc::strong_count(&why), 1);
    cell.mark(0..10, why.clone());
    drop(cell);
    assert_eq!(Arc::strong_count(&why), 1);
}
