//! The race checker: logs the accesses to each block of memory, and reports conflicting accesses without an order.
//!
//! # What it tracks
//!
//! An actor is a stream, or the host (all threads as one). A vector clock ([`Clock`]) maps each actor to a tick: the
//! number of its steps that happen before.
//!
//! | object | stores |
//! | --- | --- |
//! | stream | its clock; each submitted operation is one tick |
//! | queued operation | a [`Step`]: stream, tick, a copy of the stream's clock, a name for reports |
//! | event | the point of its last record: stream, tick, and the clock there |
//! | host | its clock; each free without a stream is one tick |
//! | block of memory | an [`AccessLog`]: for each access the actor, tick, kind, byte range and name |
//!
//! Clocks change when the driver is *called*:
//!
//! - A call that submits an operation joins the host's clock to the stream's, and advances the stream by one tick.
//! - `cuStreamWaitEvent` joins the clock that the event stores at that time. Later records of the event have no effect.
//! - A call that waits for a point, or a query that finds it complete, joins the point's clock to the host's.
//! - A graph launch joins the point of the previous launch of the same executable graph.
//!
//! # How a race is found
//!
//! The checker runs when an operation is *executed*. Everything that happens before an operation is executed before it.
//! So of two conflicting accesses it suffices to check the one that is executed later: if the earlier one happens
//! before, the clock of the later one includes its tick. [`AccessLog::record`] compares the new access with each logged
//! one. It reports those whose bytes overlap, whose kinds conflict (one of the two writes; atomics conflict with all
//! kinds but atomics), and whose tick the new step's clock does not include. The result does not depend on the order of
//! execution that the seed chose.
//!
//! The log stays short. A write removes the accesses within its bytes that happen before it: an access that races with
//! one of them also races with the write, or is ordered after it. If a log grows beyond [`ACCESSES_MAX`], the accesses
//! that every actor knows are removed.
//!
//! # Example: two streams and an event
//!
//! W fills a block in stream S1, R copies from it in stream S2.
//!
//! ```text
//!  call                        clock of S1   clock of S2      event E
//!  W: cuMemsetD8Async(.., S1)  {S1:1}
//!  cuEventRecord(E, S1)        {S1:2}                         point S1:2, clock {S1:2}
//!  cuStreamWaitEvent(S2, E)                  {S1:2, S2:1}
//!  R: cuMemcpyDtoDAsync(.., S2)              {S1:2, S2:2}
//! ```
//!
//! The wait may not run before S1 has completed tick 2. W logs `(S1, 1, write)`. R finds this entry; its clock has
//! `S1:2 >= 1`, so W happens before R.
//!
//! Without the event, R has the clock `{S2:1}`, and the seed may choose either order:
//!
//! ```text
//!  W first: R finds (S1, 1, write), and its clock {S2:1} has S1:0 < 1. Race.
//!  R first: W finds (S2, 1, read),  and its clock {S1:1} has S2:0 < 1. Race.
//! ```
//!
//! If E is recorded before W, then W has the tick S1:2 and R the clock `{S1:1, ..}`: a race as well.
//!
//! # How a use after free is found
//!
//! 1. The call of a free marks the block with `freed_by`. A second free, or one by the wrong function, is reported
//!    here.
//! 2. The executed free counts as a write of all bytes, so it races with each access that is not ordered before it.
//!    Then the storage is dropped. `cuMemFreeAsync` is executed in its stream, the other frees during the call.
//! 3. An access that is executed afterwards is reported as a use after free. GPU addresses are never reused, and a
//!    pinned block is kept until the session ends, so the address still identifies the block.
//!
//! A use that is not ordered with the free is therefore found whichever runs first: as a race, or as a use after free.
//! Pinned blocks also count the copies in flight that use them; freeing such a block is reported at the call.
//!
//! # Other checkers, limits, tests
//!
//! Nodes of one graph launch share a step; `execute::graph` checks them by the paths of edges. Threads of one kernel
//! launch are checked by the interpreter (`ptx`). The host is one actor, so races between its threads are missed, but
//! no false race is reported. `tests/driver/checks.rs` makes each mistake on purpose; the missing wait of the example
//! is reported with every seed, while the copied bytes show both orders.

use std::ops::Range;
use std::sync::Arc;

use ptx::Kind;

use crate::clock::{Actor, Clock};

/// A step of an actor, which identifies its accesses.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) actor: Actor,
    pub(crate) tick: u64,
    /// The actor's clock after this step.
    pub(crate) clock: Arc<Clock>,
    /// The name in reports.
    pub(crate) name: Arc<str>,
}

struct Access {
    actor: Actor,
    tick: u64,
    name: Arc<str>,
    kind: Kind,
    bytes: Range<u64>,
}

/// Above this number of accesses, the log of a block is pruned.
const ACCESSES_MAX: usize = 64;

/// The accesses to one block of memory that a later access may race with.
#[derive(Default)]
pub(crate) struct AccessLog(Vec<Access>);

impl AccessLog {
    /// Records an access. Returns a report for each earlier access that it races with.
    pub(crate) fn record(&mut self, step: &Step, kind: Kind, bytes: Range<u64>) -> Vec<String> {
        let mut reports = Vec::new();
        if bytes.is_empty() {
            return reports;
        }
        for access in &self.0 {
            let (start, end) = (
                access.bytes.start.max(bytes.start),
                access.bytes.end.min(bytes.end),
            );
            let known = step.clock.of(access.actor) >= access.tick;
            if start < end && kind.conflicts(access.kind) && !known {
                reports.push(format!(
                    "race: {} {} bytes {start:#x} to {end:#x}, which {} {}, without an order between the two",
                    step.name,
                    kind.verb(),
                    access.name,
                    access.kind.verb(),
                ));
            }
        }
        // An access that races with a removed one also races with the new one, or is ordered after it.
        self.0.retain(|access| {
            let within = bytes.start <= access.bytes.start && access.bytes.end <= bytes.end;
            let known = step.clock.of(access.actor) >= access.tick;
            let covered = match kind {
                Kind::Write => known,
                _ => access.actor == step.actor && access.kind == kind,
            };
            !(within && covered)
        });
        self.0.push(Access {
            actor: step.actor,
            tick: step.tick,
            name: step.name.clone(),
            kind,
            bytes,
        });
        reports
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > ACCESSES_MAX
    }

    /// Removes the accesses that happen before this clock, which every actor knows.
    pub(crate) fn prune(&mut self, known: &Clock) {
        self.0.retain(|access| known.of(access.actor) < access.tick);
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
    fn a_write_races_with_each_unordered_reader_of_its_bytes() {
        let mut log = AccessLog::default();
        assert!(log.record(&step(1, &[]), Kind::Read, 0..8).is_empty());
        assert!(log.record(&step(2, &[]), Kind::Read, 4..12).is_empty());
        assert!(log.record(&step(3, &[]), Kind::Write, 12..16).is_empty());
        let one = log.record(&step(4, &[(1, 1)]), Kind::Write, 0..12);
        assert_eq!(one.len(), 1, "{one:?}");
        assert!(one[0].contains("step 1 of 2"), "{one:?}");
        let knowing = step(5, &[(1, 1), (2, 1), (3, 1), (4, 1)]);
        assert!(log.record(&knowing, Kind::Write, 0..16).is_empty());
    }

    #[test]
    fn atomics_conflict_with_all_kinds_but_atomics() {
        let mut log = AccessLog::default();
        assert!(log.record(&step(1, &[]), Kind::Atomic, 0..4).is_empty());
        assert!(log.record(&step(2, &[]), Kind::Atomic, 0..4).is_empty());
        assert_eq!(log.record(&step(3, &[]), Kind::Read, 0..4).len(), 2);
    }
}
