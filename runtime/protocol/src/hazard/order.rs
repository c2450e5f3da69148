//! Which tasks of a list come before which: each after those that it conflicts with, and after nothing else, so that what is
//! independent may run side by side.

use std::collections::HashMap;
use std::ops::Range;

use super::log::{AccessLog, Use};
use crate::access::Access;

/// Tasks of a list that are told apart, at most (I12): there is a bit for each pair of them, half a mebibyte. More are one behind the
/// other.
pub const TASKS_MAX: usize = 2048;

/// Bytes that a task touches, of a space that overlaps no other: a parameter of a recording, a buffer of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Which space.
    pub space: u32,
    /// Which bytes of it.
    pub range: Range<u64>,
    /// How.
    pub access: Access,
}

/// The order of the tasks of a list.
///
/// ```
/// use millstream_protocol::access::Access;
/// use millstream_protocol::hazard::order::{Order, Touch};
///
/// let touch = |space, access| Touch { space, range: 0..64, access };
/// let order = Order::of(&[
///     vec![touch(0, Access::Write)],
///     vec![touch(1, Access::Write)],
///     vec![touch(0, Access::Read), touch(1, Access::Read), touch(2, Access::Write)],
///     vec![touch(2, Access::Read)],
/// ]);
/// assert_eq!(order.behind(2), [0, 1]);
/// assert_eq!(order.behind(3), [2]);
/// assert!(order.is_before(0, 3) && !order.is_before(0, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Order {
    /// For each task those that it comes right behind, ascending: it comes behind all others that it must through them.
    behind: Vec<Vec<u32>>,
    before: Before,
}

impl Order {
    /// The order of tasks that touch these, each at once.
    pub fn of<T: AsRef<[Touch]>>(tasks: &[T]) -> Self {
        let Some(mut before) = Before::new(tasks.len()) else {
            return Self::in_line(tasks.len());
        };
        // A log that merges nothing: the list has an end, other than the life of a slice.
        let mut logs: HashMap<u32, AccessLog<{ usize::MAX }>> = HashMap::new();
        let mut behind = Vec::with_capacity(tasks.len());
        let mut conflicts: Vec<u32> = Vec::new();
        for (task, touches) in tasks.iter().enumerate() {
            conflicts.clear();
            for touch in touches.as_ref() {
                let log = logs.entry(touch.space).or_default();
                // To a log a task is a stream of its own: what another has used stays beside it.
                let used = Use::Held {
                    stream: task as u32,
                    sequence: 0,
                };
                log.touch(
                    touch.range.clone(),
                    touch.access,
                    used,
                    |other| match other {
                        Use::Held { stream, .. } if stream as usize != task => {
                            conflicts.push(stream);
                        }
                        _ => {}
                    },
                );
            }
            behind.push(before.add(task, &mut conflicts));
        }
        Self { behind, before }
    }

    /// One behind the other.
    fn in_line(tasks: usize) -> Self {
        let behind = (0..tasks as u32).map(|task| task.checked_sub(1).into_iter().collect());
        Self {
            behind: behind.collect(),
            before: Before::all(),
        }
    }

    /// The tasks that a task comes right behind, ascending.
    pub fn behind(&self, task: usize) -> &[u32] {
        &self.behind[task]
    }

    /// Does a task come before a later one, by any way?
    pub fn is_before(&self, task: usize, later: usize) -> bool {
        task < later && self.before.has(later, task)
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.behind.len()
    }

    /// Are there no tasks?
    pub fn is_empty(&self) -> bool {
        self.behind.is_empty()
    }
}

/// Which tasks come before which, by any way: a bit for each pair.
#[derive(Clone, Debug)]
struct Before {
    words: usize,
    bits: Vec<u64>,
    /// There are no bits: each comes before all that follow.
    all: bool,
}

impl Before {
    /// Nothing before anything, unless the tasks are too many to be told apart.
    fn new(tasks: usize) -> Option<Self> {
        let words = tasks.div_ceil(64);
        (tasks <= TASKS_MAX).then(|| Self {
            words,
            bits: vec![0; words * tasks],
            all: false,
        })
    }

    fn all() -> Self {
        Self {
            words: 0,
            bits: Vec::new(),
            all: true,
        }
    }

    fn has(&self, task: usize, other: usize) -> bool {
        self.all || self.bits[task * self.words + other / 64] >> (other % 64) & 1 == 1
    }

    /// A task comes after these. Those of them that it comes right behind.
    fn add(&mut self, task: usize, these: &mut Vec<u32>) -> Vec<u32> {
        these.sort_unstable();
        these.dedup();
        // From the last one back: what comes before one comes before the task through it.
        let mut behind = Vec::new();
        for other in these.iter().rev() {
            if !self.has(task, *other as usize) {
                self.set(task, *other as usize);
                behind.push(*other);
            }
        }
        behind.reverse();
        behind
    }

    /// `other`, and all that come before it, come before `task`, which is later.
    fn set(&mut self, task: usize, other: usize) {
        let (earlier, later) = self.bits.split_at_mut(task * self.words);
        let earlier = &earlier[other * self.words..][..self.words];
        for (bits, more) in later.iter_mut().zip(earlier) {
            *bits |= more;
        }
        later[other / 64] |= 1 << (other % 64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn touches() -> impl Strategy<Value = Vec<Vec<Touch>>> {
        let access = prop_oneof![
            Just(Access::Read),
            Just(Access::Write),
            Just(Access::ReadWrite)
        ];
        let touch =
            (0_u32..4, 0_u64..6, 0_u64..4, access).prop_map(|(space, start, len, access)| Touch {
                space,
                range: start..start + len,
                access,
            });
        prop::collection::vec(prop::collection::vec(touch, 0..4), 0..70)
    }

    /// The relation itself.
    fn conflict(one: &[Touch], other: &[Touch]) -> bool {
        let pair = |a: &Touch, b: &Touch| {
            a.space == b.space
                && (a.access.writes() || b.access.writes())
                && a.range.start.max(b.range.start) < a.range.end.min(b.range.end)
        };
        one.iter().any(|a| other.iter().any(|b| pair(a, b)))
    }

    proptest! {
        /// I1, I2: conflicting tasks are in order, and no other order is made than what follows from that.
        #[test]
        fn conflicts_are_in_order_and_nothing_else_is_i1_i2(tasks in touches()) {
            let order = Order::of(&tasks);
            let mut reached: Vec<Vec<bool>> = Vec::new();
            for task in 0..tasks.len() {
                let by_any_way = |other: usize| {
                    let mut between = other + 1..task;
                    conflict(&tasks[task], &tasks[other])
                        || between.any(|by| conflict(&tasks[task], &tasks[by]) && reached[by][other])
                };
                let before: Vec<bool> = (0..task).map(by_any_way).collect();
                let known: Vec<bool> = (0..task).map(|other| order.is_before(other, task)).collect();
                prop_assert_eq!(&before, &known);
                reached.push(before);
                for other in order.behind(task) {
                    prop_assert!(conflict(&tasks[task], &tasks[*other as usize]));
                    // None of them comes before another of them: each edge is needed.
                    let mut others = order.behind(task).iter();
                    prop_assert!(!others.any(|by| by > other && reached[*by as usize][*other as usize]));
                }
            }
        }
    }

    #[test]
    fn more_tasks_than_are_told_apart_are_one_behind_the_other_i12() {
        let tasks = vec![vec![]; TASKS_MAX + 1];
        let order = Order::of(&tasks);
        assert_eq!(order.behind(0), [0_u32; 0]);
        assert!((1..tasks.len()).all(|task| order.behind(task) == [task as u32 - 1]));
        assert!(order.is_before(0, TASKS_MAX) && !order.is_before(2, 1));
    }

    #[test]
    fn what_comes_before_is_known_by_any_way() {
        // Each task writes a space of its own. 0 and 1 before 2, and 2 before 3; 70 others by themselves; 73 behind 3.
        let touch = |space, access| Touch {
            space,
            range: 0..1,
            access,
        };
        let mut tasks: Vec<Vec<Touch>> = (0..74)
            .map(|task| vec![touch(task, Access::Write)])
            .collect();
        for (task, other) in [(2, 0), (2, 1), (3, 0), (3, 2), (73, 3)] {
            tasks[task].push(touch(other, Access::Read));
        }
        let order = Order::of(&tasks);
        let before: Vec<usize> = (0..74).filter(|task| order.is_before(*task, 73)).collect();
        assert_eq!(before, [0, 1, 2, 3]);
        assert_eq!(order.behind(3), [2]);
        assert!(!order.is_before(0, 1) && !order.is_before(3, 2) && !order.is_before(3, 72));
    }
}
