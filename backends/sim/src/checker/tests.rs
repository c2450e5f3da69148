//! Each violation is reported with its tasks, places and bytes; ordered accesses are not reported.

use super::*;
use Access::{Read, ReadWrite, Write};
use millstream_sync::slots::SlotId;

const A: SliceId = slice(1, 1);
const B: SliceId = slice(2, 1);
const PAGE: PageId = PageId(0);

const fn slice(index: u32, generation: u32) -> SliceId {
    SliceId(SlotId { index, generation })
}

fn at(queue: u8, cursor: u64) -> Point {
    Point::new(QueueId(queue), cursor)
}

/// Bytes of slice `A`, which begins with the page.
fn bytes(range: Range<u64>, access: Access) -> BoundSlice {
    BoundSlice {
        page: Some(PAGE),
        offset: range.start,
        len: range.end - range.start,
        access,
        slice: A,
        slice_offset: range.start,
    }
}

/// Three queues, and a page of 64 bytes whose first 32 are slice `A`.
struct Rig(Checker);

impl Rig {
    fn new() -> Self {
        let mut checker = Checker::new(3);
        checker.page_allocated(PAGE, 64);
        checker.slice_reserved(A, PAGE, 0..32);
        Self(checker)
    }

    /// Issues a task over some bytes of `A`, named by its point.
    fn task(&mut self, point: Point, bound: &[BoundSlice]) {
        let name: Arc<str> = format!("task {}.{}", point.queue.0, point.cursor).into();
        self.0.task(point, &name, bound);
    }

    fn use_all(&mut self, point: Point, access: Access) {
        self.task(point, &[bytes(0..32, access)]);
    }

    fn wait(&mut self, queue: u8, point: Point) {
        self.0.wait(QueueId(queue), point);
    }

    fn violations(&mut self) -> Vec<Violation> {
        self.0.take_violations()
    }

    /// The text of the only violation.
    #[track_caller]
    fn message(&mut self) -> String {
        let violations = self.violations();
        assert_eq!(violations.len(), 1, "{violations:?}");
        violations[0].to_string()
    }

    #[track_caller]
    fn finds(&mut self, message: &str) {
        assert_eq!(self.message(), message);
    }

    #[track_caller]
    fn finds_part(&mut self, part: &str) {
        let message = self.message();
        assert!(message.contains(part), "{message}");
    }

    /// The waits so far: issued, implied by others, for points that have passed.
    fn waits(&self) -> [u64; 3] {
        let waits = self.0.waits();
        [waits.issued, waits.implied, waits.passed]
    }

    #[track_caller]
    fn assert_clean(&mut self) {
        assert_eq!(self.violations(), []);
    }
}

#[test]
fn unordered_conflict_is_a_race_that_names_both_tasks() {
    for (first, second) in [
        (Write, Read),
        (Read, Write),
        (ReadWrite, Write),
        (Write, ReadWrite),
    ] {
        let mut rig = Rig::new();
        rig.task(at(0, 1), &[bytes(0..8, first)]);
        rig.task(at(1, 1), &[bytes(4..16, second)]);
        let expected = format!(
            "`task 1.1` on queue 1 at 1 ({second} of slice 1) races with `task 0.1` on queue 0 at 1 ({first} of \
             slice 1) over bytes 4..8 of page 0: neither happens before the other (I2, I4)"
        );
        rig.finds(&expected);
    }
}

#[test]
fn readers_and_disjoint_writers_do_not_race() {
    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Read);
    rig.use_all(at(1, 1), Read);
    rig.assert_clean();
    let mut rig = Rig::new();
    rig.task(at(0, 1), &[bytes(0..8, Write)]);
    rig.task(at(1, 1), &[bytes(8..16, Write)]);
    rig.assert_clean();
}

#[test]
fn tasks_of_one_queue_are_ordered() {
    let mut rig = Rig::new();
    (1..4).for_each(|cursor| rig.use_all(at(0, cursor), ReadWrite));
    rig.assert_clean();
}

#[test]
fn wait_orders_later_tasks_of_its_queue_only() {
    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Write);
    rig.0.flushed(at(0, 1));
    rig.wait(1, at(0, 1));
    rig.use_all(at(1, 1), Read);
    rig.assert_clean();
    rig.use_all(at(2, 1), Read);
    assert!(rig.message().starts_with("`task 2.1`"));
}

#[test]
fn write_races_with_every_unordered_reader() {
    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Read);
    rig.use_all(at(1, 1), Read);
    rig.0.flushed(at(1, 1));
    rig.wait(2, at(1, 1));
    rig.use_all(at(2, 1), Write);
    // The wait covers the other reader only.
    rig.finds_part("races with `task 0.1`");
}

/// A clock that is read at the wait instead of at the point would hide this.
#[test]
fn awaited_point_adds_its_own_clock_and_nothing_later() {
    let mut rig = Rig::new();
    rig.task(at(1, 1), &[]);
    rig.0.flushed(at(1, 1));
    rig.use_all(at(0, 1), Write);
    rig.0.flushed(at(0, 1));
    rig.wait(1, at(0, 1));
    rig.task(at(1, 2), &[]);
    rig.0.flushed(at(1, 2));
    rig.wait(2, at(1, 1));
    rig.use_all(at(2, 1), Read);
    rig.finds_part("races with `task 0.1`");
    rig.wait(2, at(1, 2));
    rig.use_all(at(2, 2), Read);
    rig.assert_clean();
}

#[test]
fn published_point_happens_before_tasks_issued_later() {
    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Write);
    rig.0.flushed(at(0, 1));
    rig.wait(1, at(0, 1));
    rig.task(at(1, 1), &[]);
    rig.0.flushed(at(1, 1));
    // The task that waited is seen to have passed, so the task it waited for has passed.
    rig.0.published(at(1, 1));
    rig.use_all(at(2, 1), Write);
    rig.assert_clean();
}

#[test]
fn slice_that_reuses_bytes_races_with_tasks_of_its_predecessor() {
    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Read);
    rig.0.slice_released(A);
    rig.0.slice_reserved(B, PAGE, 0..32);
    rig.assert_clean();
    let name: Arc<str> = "next".into();
    let bound = BoundSlice {
        slice: B,
        ..bytes(0..32, Write)
    };
    rig.0.task(at(1, 1), &name, &[bound]);
    rig.finds_part("(write of slice 2) races with `task 0.1`");
}

#[test]
fn use_of_a_slice_that_is_not_live_is_reported() {
    let mut rig = Rig::new();
    rig.0.slice_released(A);
    rig.use_all(at(0, 1), Read);
    let expected =
        "`task 0.1` on queue 0 at 1 (read of slice 1) uses its slice after it was released (I4)";
    rig.finds(expected);
    // Its slot has gone to another slice.
    rig.0.slice_reserved(slice(1, 2), PAGE, 0..32);
    rig.use_all(at(0, 2), Read);
    rig.finds_part("after it was released");
    let never = BoundSlice {
        slice: B,
        ..bytes(0..1, Read)
    };
    rig.task(at(0, 3), &[never]);
    rig.finds_part("never reserved");
}

#[test]
fn bytes_outside_the_slice_are_reported() {
    let mut rig = Rig::new();
    rig.task(at(0, 1), &[bytes(16..33, Read)]);
    rig.finds_part("touches bytes 16..33 of page 0");
    let shifted = BoundSlice {
        offset: 1,
        ..bytes(0..8, Read)
    };
    rig.task(at(0, 2), &[shifted]);
    rig.finds_part("touches bytes 1..9 of page 0");
    let elsewhere = BoundSlice {
        page: Some(PageId(9)),
        ..bytes(0..8, Read)
    };
    rig.task(at(0, 3), &[elsewhere]);
    rig.finds_part("of page 9");
}

#[test]
fn slices_are_reserved_and_released_once_and_do_not_overlap() {
    let mut rig = Rig::new();
    rig.0.slice_reserved(A, PAGE, 32..40);
    rig.finds("slice 1 is reserved twice");
    let mut rig = Rig::new();
    rig.0.slice_released(A);
    rig.0.slice_released(A);
    rig.finds("slice 1 is released, but is not live");
    let mut rig = Rig::new();
    rig.0.slice_reserved(B, PAGE, 31..40);
    rig.finds("slice 2 overlaps live slice 1 over bytes 31..32 of page 0 (I4)");
    let mut rig = Rig::new();
    rig.0.slice_reserved(B, PAGE, 32..65);
    rig.finds_part("bytes 32..65 of page 0, which are not within a live page");
}

#[test]
fn page_is_freed_once_and_after_every_use() {
    let mut rig = Rig::new();
    rig.0.page_freed(PAGE, false);
    rig.finds("page 0 is freed while slice 1 lies on it (I4)");
    rig.0.page_freed(PAGE, false);
    rig.finds("page 0 is freed, but is not live");

    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Read);
    rig.0.flushed(at(0, 1));
    rig.0.slice_released(A);
    rig.0.page_freed(PAGE, false);
    assert!(
        rig.message()
            .starts_with("page 0 is freed before `task 0.1`")
    );

    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Read);
    rig.0.flushed(at(0, 1));
    rig.0.published(at(0, 1));
    rig.0.slice_released(A);
    rig.0.page_freed(PAGE, false);
    rig.assert_clean();
}

#[test]
fn host_guard_races_with_tasks_not_seen_to_have_passed() {
    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Write);
    rig.0.flushed(at(0, 1));
    rig.0.host_begins(&[bytes(0..32, Read)]);
    assert!(
        rig.message()
            .starts_with("`guard` 1 on the host (read of slice 1) races with `task 0.1`")
    );

    let mut rig = Rig::new();
    rig.use_all(at(0, 1), Write);
    rig.0.flushed(at(0, 1));
    rig.0.published(at(0, 1));
    let guard = rig.0.host_begins(&[bytes(0..8, Read)]);
    rig.task(at(1, 1), &[bytes(8..16, Write), bytes(0..4, Read)]);
    rig.assert_clean();
    rig.task(at(1, 2), &[bytes(7..9, Write)]);
    rig.finds_part("races with `guard` 1 on the host");
    rig.0.host_ends(guard);
    rig.use_all(at(1, 3), Write);
    rig.assert_clean();
}

#[test]
fn wait_for_an_unflushed_point_or_the_own_queue_is_reported() {
    let mut rig = Rig::new();
    rig.task(at(0, 1), &[]);
    rig.task(at(0, 2), &[]);
    rig.0.flushed(at(0, 1));
    rig.wait(1, at(0, 2));
    rig.finds("queue 1 waits for queue 0 at 2, but queue 0 was flushed only up to 1");
    rig.wait(0, at(0, 1));
    rig.finds("queue 0 waits for itself at 1 (I3)");
}

#[test]
fn cursors_and_flushes_must_increase() {
    let mut rig = Rig::new();
    rig.task(at(0, 2), &[]);
    rig.task(at(0, 2), &[]);
    rig.finds("queue 0 at 2 is issued after 2: cursors must increase");
    rig.0.flushed(at(0, 3));
    rig.finds_part("2 is the last issued and 0 the last flushed cursor");
    rig.0.flushed(at(0, 2));
    // A batch ends once.
    rig.finds_part("flushed");
}

#[test]
fn needless_waits_are_counted() {
    let mut rig = Rig::new();
    rig.task(at(0, 1), &[]);
    rig.task(at(0, 2), &[]);
    rig.0.flushed(at(0, 2));
    rig.wait(1, at(0, 2));
    assert_eq!(rig.waits(), [1, 0, 0]);
    rig.wait(1, at(0, 1));
    assert_eq!(rig.waits()[1], 1, "an earlier cursor of the same queue");
    rig.task(at(1, 1), &[]);
    rig.0.flushed(at(1, 1));
    rig.wait(2, at(0, 1));
    rig.wait(2, at(1, 1));
    assert_eq!(
        rig.waits()[1],
        2,
        "the second wait of a task covers the first"
    );
    rig.wait(2, at(0, 2));
    assert_eq!(rig.waits()[1], 3, "covered by the point of another queue");
    rig.task(at(2, 1), &[]);
    rig.task(at(0, 3), &[]);
    rig.0.flushed(at(0, 3));
    rig.0.published(at(0, 3));
    rig.wait(2, at(0, 3));
    assert_eq!(rig.waits(), [6, 3, 1]);
    rig.assert_clean();
}

#[test]
fn slice_or_page_without_a_handle_at_close_is_a_leak() {
    let mut rig = Rig::new();
    rig.0.page_allocated(PageId(1), 8);
    rig.0.closed(|_| true);
    rig.finds("page 1 of 8 bytes is leaked (I10)");
    rig.0.page_freed(PageId(1), false);
    rig.0.closed(|slice| slice != A);
    rig.finds("slice 1 is leaked: bytes 0..32 of page 0 (I10)");
}
