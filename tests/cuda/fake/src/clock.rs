//! Vector clocks: what happens before what.
//!
//! Each stream is an actor, and the host is one: what one thread has waited for counts for all threads. So races
//! between threads that do not synchronize are missed, but no false race is reported. `access` explains the checker.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The host, or a stream by its handle.
pub(crate) type Actor = u64;

/// The host with all its threads.
pub(crate) const HOST: Actor = 0;

/// For each actor, the number of its steps that happen before. An absent actor has 0.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Clock(BTreeMap<Actor, u64>);

impl Clock {
    /// Returns the number of known steps of an actor.
    pub(crate) fn of(&self, actor: Actor) -> u64 {
        self.0.get(&actor).copied().unwrap_or(0)
    }

    /// Advances an actor by one step and returns its tick.
    pub(crate) fn step(&mut self, actor: Actor) -> u64 {
        let tick = self.0.entry(actor).or_default();
        *tick += 1;
        *tick
    }

    /// Adds everything that `other` knows.
    pub(crate) fn join(&mut self, other: &Clock) {
        for (actor, tick) in &other.0 {
            let known = self.0.entry(*actor).or_default();
            *known = (*known).max(*tick);
        }
    }

    /// Keeps only what `other` knows as well.
    pub(crate) fn meet(&mut self, other: &Clock) {
        for (actor, tick) in &mut self.0 {
            *tick = (*tick).min(other.of(*actor));
        }
    }
}

/// A point of a stream: the tick of an operation, and the clock of that operation.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) stream: u64,
    pub(crate) tick: u64,
    pub(crate) clock: Arc<Clock>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_is_the_maximum_and_meet_the_minimum() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        assert_eq!([a.step(1), a.step(1), b.step(2)], [1, 2, 1]);
        let mut met = a.clone();
        a.join(&b);
        assert_eq!([a.of(1), a.of(2), a.of(3)], [2, 1, 0]);
        met.meet(&b);
        assert_eq!([met.of(1), met.of(2)], [0, 0]);
    }
}
