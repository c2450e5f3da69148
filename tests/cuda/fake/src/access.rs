//! Who touched which bytes when, and which touches nothing orders.
//!
//! Operations are checked when they are executed. What happens before an operation is executed before it, so of two
//! that conflict the one executed later must know the other: if its clock does not, nothing orders them, whatever
//! order the seed chose.

use std::ops::Range;
use std::sync::Arc;

use ptx::Kind;

use crate::clock::{Actor, Clock};

/// A step of an actor: what a touch is known by.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) actor: Actor,
    pub(crate) tick: u64,
    /// What it knew, itself included.
    pub(crate) clock: Arc<Clock>,
    /// As a report calls it.
    pub(crate) name: Arc<str>,
}

struct Touch {
    actor: Actor,
    tick: u64,
    name: Arc<str>,
    kind: Kind,
    bytes: Range<u64>,
}

/// More touches than these of one block, and those that everybody knows are forgotten.
const TOUCHES_MANY: usize = 64;

/// The touches of one block of memory that somebody may not know yet.
#[derive(Default)]
pub(crate) struct Touches(Vec<Touch>);

impl Touches {
    /// Notes a touch. Says of each earlier one that it conflicts with and does not know.
    pub(crate) fn note(&mut self, step: &Step, kind: Kind, bytes: Range<u64>) -> Vec<String> {
        let mut said = Vec::new();
        if bytes.is_empty() {
            return said;
        }
        for touch in &self.0 {
            let (start, end) = (
                touch.bytes.start.max(bytes.start),
                touch.bytes.end.min(bytes.end),
            );
            let known = step.clock.of(touch.actor) >= touch.tick;
            if start < end && kind.conflicts(touch.kind) && !known {
                said.push(format!(
                    "race: {} {} bytes {start:#x} to {end:#x}, which {} {}, and nothing orders the two",
                    step.name,
                    kind.verb(),
                    touch.name,
                    touch.kind.verb(),
                ));
            }
        }
        // What conflicts with the old one conflicts with the new one, too, which knows it.
        self.0.retain(|touch| {
            let within = bytes.start <= touch.bytes.start && touch.bytes.end <= bytes.end;
            let known = step.clock.of(touch.actor) >= touch.tick;
            let covered = match kind {
                Kind::Write => known,
                _ => touch.actor == step.actor && touch.kind == kind,
            };
            !(within && covered)
        });
        self.0.push(Touch {
            actor: step.actor,
            tick: step.tick,
            name: step.name.clone(),
            kind,
            bytes,
        });
        said
    }

    pub(crate) fn are_many(&self) -> bool {
        self.0.len() > TOUCHES_MANY
    }

    /// Forgets what everybody knows by this clock.
    pub(crate) fn forget(&mut self, known: &Clock) {
        self.0.retain(|touch| known.of(touch.actor) < touch.tick);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(actor: Actor, knows: &[(Actor, u64)]) -> Step {
        let mut clock = Clock::default();
        for (known, tick) in knows {
            (0..*tick).for_each(|_| _ = clock.step(*known));
        }
        let tick = clock.step(actor);
        Step {
            actor,
            tick,
            clock: Arc::new(clock),
            name: format!("step {tick} of {actor}").into(),
        }
    }

    #[test]
    fn a_write_must_know_every_reader_of_its_bytes() {
        let mut touches = Touches::default();
        assert!(touches.note(&step(1, &[]), Kind::Read, 0..8).is_empty());
        assert!(touches.note(&step(2, &[]), Kind::Read, 4..12).is_empty());
        assert!(touches.note(&step(3, &[]), Kind::Write, 12..16).is_empty());
        let one = touches.note(&step(4, &[(1, 1)]), Kind::Write, 0..12);
        assert_eq!(one.len(), 1, "{one:?}");
        assert!(one[0].contains("step 1 of 2"), "{one:?}");
        let knowing = step(5, &[(1, 1), (2, 1), (3, 1), (4, 1)]);
        assert!(touches.note(&knowing, Kind::Write, 0..16).is_empty());
    }

    #[test]
    fn atomics_conflict_with_all_but_atomics() {
        let mut touches = Touches::default();
        assert!(touches.note(&step(1, &[]), Kind::Atomic, 0..4).is_empty());
        assert!(touches.note(&step(2, &[]), Kind::Atomic, 0..4).is_empty());
        assert_eq!(touches.note(&step(3, &[]), Kind::Read, 0..4).len(), 2);
    }
}
