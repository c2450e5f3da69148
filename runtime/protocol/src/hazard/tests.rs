//! Compares the access log with an oracle that remembers every use of every byte.

use proptest::prelude::*;

use super::log::{AccessLog, MAX_SEGMENTS, Use};
use crate::binding::Access;
use crate::id::{Point, QueueId};

const BYTES: u64 = 24;

/// One step of a random history.
#[derive(Clone, Debug)]
struct Step {
    start: u64,
    len: u64,
    access: Access,
    queue: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Write),
        Just(Access::ReadWrite)
    ];
    // Ranges often start at 0, and a queue often occurs twice in a row.
    let start = prop_oneof![Just(0), 0..BYTES];
    let queue = prop_oneof![3 => Just(0_u8), 2 => 0_u8..3];
    let step = (start, 0..BYTES, access, queue).prop_map(|(start, len, access, queue)| Step {
        start,
        len: len.min(BYTES - start),
        access,
        queue,
    });
    prop::collection::vec(step, 0..40)
}

/// The last write of a byte, and the reads since.
#[derive(Clone, Default)]
struct Byte {
    write: Option<Point>,
    reads: Vec<Point>,
}

/// Returns `true` if a point of `found` represents `wanted`: it is of the same queue and not earlier.
fn represents(found: &[Point], wanted: Point) -> bool {
    found
        .iter()
        .any(|point| point.queue == wanted.queue && point.cursor >= wanted.cursor)
}

proptest! {
    /// I2: the log reports every earlier conflicting use of every byte, or that all of them are of the task's own
    /// queue.
    #[test]
    fn log_reports_every_conflict_i2(steps in steps()) {
        let mut log = AccessLog::<MAX_SEGMENTS>::default();
        let mut bytes = vec![Byte::default(); BYTES as usize];
        for (index, step) in steps.iter().enumerate() {
            let range = step.start..step.start + step.len;
            let point = Point::new(QueueId(step.queue), index as u64 + 1);
            let mut found = Vec::new();
            if log.enter_own(range.start, range.end, step.access, point) {
                found.push(point);
            } else {
                log.touch(range.clone(), step.access, Use::Issued(point), |used| {
                    if let Use::Issued(point) = used {
                        found.push(point);
                    }
                });
            }
            for byte in &mut bytes[range.start as usize..range.end as usize] {
                if let Some(write) = byte.write {
                    prop_assert!(represents(&found, write));
                }
                if step.access.writes() {
                    for read in &byte.reads {
                        prop_assert!(represents(&found, *read));
                    }
                    *byte = Byte { write: Some(point), reads: Vec::new() };
                } else {
                    byte.reads.push(point);
                }
            }
            prop_assert!(log.segments() <= MAX_SEGMENTS);
        }
    }

    /// After all tasks are issued, no segment has a held use, however segments were split.
    #[test]
    fn issuing_a_task_replaces_all_of_its_held_uses(steps in steps()) {
        let mut log = AccessLog::<MAX_SEGMENTS>::default();
        let mut held = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let range = step.start..step.start + step.len;
            log.admit(range.clone(), step.access, Use::Held { stream: u32::from(step.queue), sequence: index as u64 });
            held.push((u32::from(step.queue), index as u64));
        }
        for (stream, sequence) in held {
            log.issue(stream, sequence, Point::new(QueueId(stream as u8), sequence + 1));
        }
        log.conflicts(0..BYTES, Access::Write, |used| assert!(matches!(used, Use::Issued(_))));
    }
}

#[test]
fn writes_of_two_halves_do_not_conflict_and_a_read_of_the_whole_conflicts_with_both() {
    let mut log = AccessLog::<MAX_SEGMENTS>::default();
    let (left, right) = (Point::new(QueueId(0), 1), Point::new(QueueId(1), 1));
    log.admit(0..8, Access::Write, Use::Issued(left));
    log.conflicts(8..16, Access::Write, |used| panic!("{used:?}"));
    log.admit(8..16, Access::Write, Use::Issued(right));
    let mut found = Vec::new();
    log.conflicts(0..16, Access::Read, |used| found.push(used));
    assert_eq!(found, [Use::Issued(left), Use::Issued(right)]);
}
