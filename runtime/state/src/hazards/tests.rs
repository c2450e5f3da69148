//! The hazards alone: no streams, no queues, no device.

use millstream_protocol::{
    Access, Binding, ClientId, Failure, Point, QueueId, SliceId, hazard::log::Use,
};
use millstream_sync::slots::SlotId;
use proptest::prelude::*;

use super::{Accessor, Backing, Hazards};
use crate::points::Points;

const QUEUES: usize = 3;
const BYTES: u64 = 12;

fn id(index: u32) -> SliceId {
    SliceId(SlotId {
        index,
        generation: 0,
    })
}

fn point(queue: usize, cursor: u64) -> Point {
    Point::new(QueueId(queue as u8), cursor)
}

fn binding(slice: u32, range: std::ops::Range<u64>, access: Access) -> Binding {
    let mut binding = Binding::new(id(slice), range.start, range.end - range.start, access);
    binding.key = slice;
    binding
}

/// Creates hazards of slices of [`BYTES`] bytes without memory, whose keys are their numbers.
fn hazards(slices: u32) -> Hazards {
    let mut hazards = Hazards::new(QUEUES);
    for slice in 0..slices {
        let key = hazards.insert(id(slice), ClientId(0), BYTES);
        assert_eq!(key, slice);
        hazards.give(key, Backing::None(BYTES), None);
    }
    hazards
}

/// Enters a use and returns the uses that it must come after, while nothing has passed.
fn before(hazards: &mut Hazards, binding: &Binding, accessor: Accessor) -> Vec<Use> {
    let mut before = Vec::new();
    hazards.enter(
        binding.key,
        binding,
        accessor,
        |_| false,
        |used| before.push(used),
    );
    before
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    /// A task is issued to a queue.
    Issue(usize, Vec<(u32, u64, u64, Access)>),
    /// A queue completes its next task.
    Complete(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Write),
        Just(Access::ReadWrite)
    ];
    let touched = (0_u32..2, 0..BYTES, 0..=BYTES, access)
        .prop_map(|(slice, start, end, access)| (slice, start, end.max(start), access));
    let issue = (0..QUEUES, prop::collection::vec(touched, 0..3))
        .prop_map(|(queue, touched)| Step::Issue(queue, touched));
    let complete = (0..QUEUES).prop_map(Step::Complete);
    prop::collection::vec(prop_oneof![3 => issue, 1 => complete], 0..60)
}

/// An issued task: its point, its bindings, and for each earlier task by index whether that comes before it.
struct Issued {
    point: Point,
    touched: Vec<Binding>,
    behind: Vec<bool>,
}

fn conflict(one: &Issued, other: &[Binding]) -> bool {
    let overlap = |a: &Binding, b: &Binding| {
        a.slice == b.slice
            && a.offset < b.offset + b.len
            && b.offset < a.offset + a.len
            && a.len > 0
            && b.len > 0
    };
    let mut mine = one.touched.iter();
    mine.any(|a| {
        let mut theirs = other.iter();
        theirs.any(|b| overlap(a, b) && (a.access.writes() || b.access.writes()))
    })
}

proptest! {
    /// I2: every conflicting pair is ordered by queues, waits and completions. I3: no wait is requested for a task that
    /// comes before anyway.
    #[test]
    fn conflicting_tasks_are_ordered_without_superfluous_waits_i2_i3(steps in steps()) {
        let mut hazards = hazards(2);
        let mut tasks: Vec<Issued> = Vec::new();
        let (mut issued, mut completed) = ([0_u64; QUEUES], [0_u64; QUEUES]);
        for step in steps {
            let (queue, touched) = match step {
                Step::Complete(queue) => {
                    // A task completes after all tasks that come before it.
                    let next = point(queue, completed[queue] + 1);
                    let task = tasks.iter().find(|task| task.point == next);
                    let is_free = task.is_some_and(|task| task.behind.iter().zip(&tasks).all(|(is_behind, other)| {
                        !is_behind || completed[other.point.queue.index()] >= other.point.cursor
                    }));
                    if is_free {
                        completed[queue] += 1;
                        hazards.completed(QueueId(queue as u8), completed[queue]);
                    }
                    continue;
                }
                Step::Issue(queue, touched) => (queue, touched),
            };
            issued[queue] += 1;
            let here = point(queue, issued[queue]);
            let touched: Vec<Binding> =
                touched.into_iter().map(|(slice, start, end, access)| binding(slice, start..end, access)).collect();
            let passed = |point: Point| completed[point.queue.index()] >= point.cursor;
            // The tasks that come before by the order of the queue alone.
            let last = tasks.iter().rposition(|task| task.point.queue == here.queue);
            let mut behind = vec![false; tasks.len()];
            if let Some(last) = last {
                behind[..last].copy_from_slice(&tasks[last].behind);
                behind[last] = true;
            }
            let mut after = Vec::new();
            for touch in &touched {
                hazards.enter(touch.key, touch, Accessor::issued(here), passed, |used| match used {
                    Use::Issued(point) => after.push(point),
                    Use::Held { .. } => unreachable!("nothing is held"),
                });
            }
            for needed in after {
                let index = tasks.iter().position(|task| task.point == needed).unwrap();
                prop_assert!(!passed(needed) && needed.queue != here.queue);
                prop_assert!(last.is_none_or(|last| tasks[last].behind[..].get(index) != Some(&true)));
                hazards.add_wait(here, needed);
                behind[index] = true;
                let theirs = tasks[index].behind.clone();
                behind.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine |= theirs);
            }
            for (index, other) in tasks.iter().enumerate() {
                prop_assert!(!conflict(other, &touched) || behind[index] || passed(other.point));
            }
            tasks.push(Issued { point: here, touched, behind });
        }
    }
}

#[test]
fn held_task_is_a_dependency_until_it_is_issued_as_its_point_i2() {
    let mut hazards = hazards(1);
    let write = binding(0, 0..8, Access::Write);
    let (first, second) = (
        Accessor::held(7, 1, Some(QueueId(0))),
        Accessor::held(8, 1, Some(QueueId(1))),
    );
    assert_eq!(before(&mut hazards, &write, first), []);
    let mut reported = Vec::new();
    hazards.held_before(0, &write, 8, |stream, sequence| {
        reported.push((stream, sequence));
    });
    assert_eq!(reported, [(7, 1)]);
    let held = Use::Held {
        stream: 7,
        sequence: 1,
    };
    let read = binding(0, 4..8, Access::Read);
    assert_eq!(before(&mut hazards, &read, second), [held]);
    // No task of its own stream comes before: the stream keeps its own order.
    let own = Accessor::held(8, 2, Some(QueueId(1)));
    assert_eq!(before(&mut hazards, &read, own), [held]);
    hazards.issued(0, (7, 1), point(0, 5));
    let third = Accessor::held(9, 1, Some(QueueId(1)));
    assert_eq!(
        before(&mut hazards, &read, third),
        [Use::Issued(point(0, 5))]
    );
}

/// A host function is on no queue, so no queue's order and no clock puts a task before it.
#[test]
fn host_function_comes_after_every_conflicting_point_that_has_not_passed_i2() {
    let mut hazards = hazards(1);
    let write = binding(0, 0..8, Access::Write);
    before(&mut hazards, &write, Accessor::issued(point(0, 3)));
    let on_queue = Accessor::held(1, 1, Some(QueueId(0)));
    assert_eq!(
        before(&mut hazards, &binding(0, 0..8, Access::Read), on_queue),
        []
    );
    let read = binding(0, 0..8, Access::Read);
    let on_host = Accessor::held(2, 1, None);
    let mut reported = Vec::new();
    hazards.enter(0, &read, on_host, |_| false, |used| reported.push(used));
    let held = Use::Held {
        stream: 1,
        sequence: 1,
    };
    assert_eq!(reported, [Use::Issued(point(0, 3))], "{held:?} only reads");
    reported.clear();
    hazards.enter(
        0,
        &read,
        Accessor::held(3, 1, None),
        |_| true,
        |used| reported.push(used),
    );
    assert_eq!(reported, []);
}

/// Reuse of memory is a hazard like any other.
#[test]
fn first_use_of_reused_memory_comes_after_its_last_uses_i4() {
    let mut hazards = hazards(1);
    let key = hazards.insert(id(1), ClientId(0), BYTES);
    let residue: Points = [point(0, 4), point(2, 1)].into_iter().collect();
    hazards.give(key, Backing::None(BYTES), Some(&residue));
    let mut read = binding(1, 3..5, Access::Read);
    read.key = key;
    let reported = before(&mut hazards, &read, Accessor::issued(point(1, 1)));
    assert_eq!(
        reported,
        [Use::Issued(point(0, 4)), Use::Issued(point(2, 1))]
    );
    let removed = hazards.remove(key, |point| point.queue.index() == 2);
    assert_eq!(
        removed.busy,
        [point(0, 4), point(1, 1)].into_iter().collect()
    );
}

#[test]
fn dropped_slice_stays_until_its_last_held_task_is_issued_i4() {
    let mut hazards = hazards(1);
    hazards.hold(0);
    hazards.hold(0);
    assert!(!hazards.drop_slice(0));
    assert!(hazards.slice(0).dropped && hazards.live() == 0);
    assert!(!hazards.release(0));
    assert!(hazards.release(0));
    let removed = hazards.remove(0, |_| true);
    assert_eq!(removed.id, id(0));
    assert!(removed.busy.is_empty());
}

#[test]
fn poisoned_bytes_bind_for_a_write_and_not_for_a_read_i7() {
    let mut hazards = hazards(1);
    let failure = Failure::panicked(&"k".into(), "boom".into());
    hazards.poison(0, 4..8, failure);
    let bind = |hazards: &Hazards, range, access| hazards.bind(&binding(0, range, access)).is_ok();
    assert!(!bind(&hazards, 0..5, Access::Read) && bind(&hazards, 0..4, Access::Read));
    assert!(bind(&hazards, 0..12, Access::Write) && hazards.poisoned(|_| false) == 1);
    hazards.heal(0, &(0..8));
    assert!(hazards.slice(0).is_clean() && bind(&hazards, 0..12, Access::Read));
}

/// I7: an overwrite heals its bytes and no others.
#[test]
fn heal_heals_only_the_given_bytes_i7() {
    let mut hazards = hazards(1);
    hazards.poison(0, 2..8, Failure::panicked(&"k".into(), "boom".into()));
    hazards.heal(0, &(4..6));
    let fails = |hazards: &Hazards, range| hazards.failure(0, &range, Access::Read).is_some();
    assert!(!fails(&hazards, 4..6) && fails(&hazards, 3..4) && fails(&hazards, 6..7));
    hazards.heal(0, &(0..BYTES));
    assert!(hazards.slice(0).is_clean());
}
