//! What happened before what.
//!
//! Every stream is an actor, and so is the host, as one: whatever one thread has waited for, all threads know. That
//! misses races between threads that tell each other nothing, and never reports one that is none.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Who does something: the host, or a stream by its handle.
pub(crate) type Actor = u64;

/// The host, with all its threads.
pub(crate) const HOST: Actor = 0;

/// How far each actor had come, as somebody knows it. Absent is 0: nothing of it is known.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Clock(BTreeMap<Actor, u64>);

impl Clock {
    /// What this actor had done.
    pub(crate) fn of(&self, actor: Actor) -> u64 {
        self.0.get(&actor).copied().unwrap_or(0)
    }

    /// One more step of this actor, and which it is.
    pub(crate) fn step(&mut self, actor: Actor) -> u64 {
        let tick = self.0.entry(actor).or_default();
        *tick += 1;
        *tick
    }

    /// Knows from here on what the other knows, too.
    pub(crate) fn join(&mut self, other: &Clock) {
        for (actor, tick) in &other.0 {
            let known = self.0.entry(*actor).or_default();
            *known = (*known).max(*tick);
        }
    }

    /// Only what the other knows, too.
    pub(crate) fn meet(&mut self, other: &Clock) {
        for (actor, tick) in &mut self.0 {
            *tick = (*tick).min(other.of(*actor));
        }
    }
}

/// A moment of a stream: everything up to an operation of it, and what that knew.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) stream: u64,
    pub(crate) tick: u64,
    pub(crate) clock: Arc<Clock>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_knows_both_and_a_meet_what_both_know() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        assert_eq!([a.step(1), a.step(1), b.step(2)], [1, 2, 1]);
        let mut met = a.clone();
        a.join(&b);
        assert_eq!([a.of(1), a.of(2), a.of(3)], [2, 1, 0]);
        met.meet(&b);
        assert_eq!([met.of(1), met.of(2)], [0, 0]);
    }
}
