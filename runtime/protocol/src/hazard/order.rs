//! The order of the tasks of a list: each task comes after the earlier tasks that it conflicts with, and after no
//! others, so that independent tasks may run concurrently.
//!
//! [`Order::of`] enters the tasks in one [access log](super::log) per space and collects the conflicts of each task.
//! [`Order::is_before`] answers for the transitive closure of these conflicts. [`Order::predecessors`] has the transitive
//! reduction: the edges that no other path implies.

use std::collections::HashMap;
use std::ops::Range;

use super::log::{AccessLog, Use};
use crate::binding::Access;

/// The maximum number of tasks whose pairs are ordered separately (I12): the order has one bit for each pair, half a
/// mebibyte. The tasks of a longer list run strictly in sequence.
pub const TASKS_MAX: usize = 2048;

/// Bytes that a task accesses, in one of several disjoint spaces: a parameter of a recording, a buffer of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The space.
    pub space: u32,
    /// The bytes within the space.
    pub range: Range<u64>,
    /// How the task accesses the bytes.
    pub access: Access,
}

/// The order of the tasks of a list.
///
/// ```
/// use millstream_protocol::Access;
/// use millstream_protocol::hazard::order::{Order, Touch};
///
/// let touch = |space, access| Touch { space, range: 0..64, access };
/// let order = Order::of(&[
///     vec![touch(0, Access::Write)],
///     vec![touch(1, Access::Write)],
///     vec![touch(0, Access::Read), touch(1, Access::Read), touch(2, Access::Write)],
///     vec![touch(2, Access::Read)],
/// ]);
/// assert_eq!(order.predecessors(2), [0, 1]);
/// assert_eq!(order.predecessors(3), [2]);
/// assert!(order.is_before(0, 3) && !order.is_before(0, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Order {
    /// The direct predecessors of each task, ascending. A task comes after its other predecessors through these.
    predecessors: Vec<Vec<u32>>,
    before: Closure,
}

impl Order {
    /// Computes the order of tasks with these accesses. All accesses of one task count as simultaneous.
    pub fn of<T: AsRef<[Touch]>>(tasks: &[T]) -> Self {
        let Some(mut before) = Closure::new(tasks.len()) else {
            return Self::sequential(tasks.len());
        };
        // These logs merge no segments: unlike the history of a slice, a list of tasks is bounded.
        let mut logs: HashMap<u32, AccessLog<{ usize::MAX }>> = HashMap::new();
        let mut predecessors = Vec::with_capacity(tasks.len());
        let mut conflicts: Vec<u32> = Vec::new();
        for (task, touches) in tasks.iter().enumerate() {
            conflicts.clear();
            for touch in touches.as_ref() {
                let log = logs.entry(touch.space).or_default();
                // In the log each task is a stream of its own, so that no use replaces the use of another task.
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
            predecessors.push(before.add(task, &mut conflicts));
        }
        Self {
            predecessors,
            before,
        }
    }

    /// Orders each task after the one before it.
    fn sequential(tasks: usize) -> Self {
        let predecessors = (0..tasks as u32).map(|task| task.checked_sub(1).into_iter().collect());
        Self {
            predecessors: predecessors.collect(),
            before: Closure::total(),
        }
    }

    /// Returns the direct predecessors of a task, ascending.
    pub fn predecessors(&self, task: usize) -> &[u32] {
        &self.predecessors[task]
    }

    /// Returns `true` if `task` comes before `later`, directly or transitively.
    pub fn is_before(&self, task: usize, later: usize) -> bool {
        task < later && self.before.has(later, task)
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.predecessors.len()
    }

    /// Returns `true` if there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.predecessors.is_empty()
    }
}

/// The transitive closure of the order: for each pair of tasks a bit, set if one comes before the other.
#[derive(Clone, Debug)]
struct Closure {
    words: usize,
    bits: Vec<u64>,
    /// The order is total and there are no bits: each task comes before all that follow.
    is_total: bool,
}

impl Closure {
    /// Creates the closure of no edges, or `None` if there are more than [`TASKS_MAX`] tasks.
    fn new(tasks: usize) -> Option<Self> {
        let words = tasks.div_ceil(64);
        (tasks <= TASKS_MAX).then(|| Self {
            words,
            bits: vec![0; words * tasks],
            is_total: false,
        })
    }

    fn total() -> Self {
        Self {
            words: 0,
            bits: Vec::new(),
            is_total: true,
        }
    }

    fn has(&self, task: usize, other: usize) -> bool {
        self.is_total || self.bits[task * self.words + other / 64] >> (other % 64) & 1 == 1
    }

    /// Adds the edges from `conflicts` to `task`. Returns the direct predecessors of `task`.
    fn add(&mut self, task: usize, conflicts: &mut Vec<u32>) -> Vec<u32> {
        conflicts.sort_unstable();
        conflicts.dedup();
        // From the last to the first: a task that comes before a later conflict is implied by it, so its bit is set
        // already.
        let mut predecessors = Vec::new();
        for other in conflicts.iter().rev() {
            if !self.has(task, *other as usize) {
                self.set(task, *other as usize);
                predecessors.push(*other);
            }
        }
        predecessors.reverse();
        predecessors
    }

    /// Adds the edge from `other` to the later `task`, and from all that come before `other`.
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

    /// The hazard relation, from its definition.
    fn conflict(one: &[Touch], other: &[Touch]) -> bool {
        let pair = |a: &Touch, b: &Touch| {
            a.space == b.space
                && (a.access.writes() || b.access.writes())
                && a.range.start.max(b.range.start) < a.range.end.min(b.range.end)
        };
        one.iter().any(|a| other.iter().any(|b| pair(a, b)))
    }

    proptest! {
        /// I1, I2: the order contains each conflict, and nothing but the transitive closure of the conflicts.
        #[test]
        fn order_is_the_transitive_closure_of_the_conflicts_i1_i2(tasks in touches()) {
            let order = Order::of(&tasks);
            let mut reached: Vec<Vec<bool>> = Vec::new();
            for task in 0..tasks.len() {
                let is_reached = |other: usize| {
                    let mut between = other + 1..task;
                    conflict(&tasks[task], &tasks[other])
                        || between.any(|by| conflict(&tasks[task], &tasks[by]) && reached[by][other])
                };
                let before: Vec<bool> = (0..task).map(is_reached).collect();
                let known: Vec<bool> = (0..task).map(|other| order.is_before(other, task)).collect();
                prop_assert_eq!(&before, &known);
                reached.push(before);
                for other in order.predecessors(task) {
                    prop_assert!(conflict(&tasks[task], &tasks[*other as usize]));
                    // No direct predecessor comes before another one: each edge is needed.
                    let mut others = order.predecessors(task).iter();
                    prop_assert!(!others.any(|by| by > other && reached[*by as usize][*other as usize]));
                }
            }
        }
    }

    #[test]
    fn more_tasks_than_the_limit_are_ordered_sequentially_i12() {
        let tasks = vec![vec![]; TASKS_MAX + 1];
        let order = Order::of(&tasks);
        assert_eq!(order.predecessors(0), [0_u32; 0]);
        assert!((1..tasks.len()).all(|task| order.predecessors(task) == [task as u32 - 1]));
        assert!(order.is_before(0, TASKS_MAX) && !order.is_before(2, 1));
    }

    #[test]
    fn happens_before_is_transitive() {
        // Each task writes a space of its own. 0 and 1 come before 2, 2 before 3, and 3 before 73; the others are
        // independent.
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
        assert_eq!(order.predecessors(3), [2]);
        assert!(!order.is_before(0, 1) && !order.is_before(3, 2) && !order.is_before(3, 72));
    }
}
