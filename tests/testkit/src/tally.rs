//! Counters of the work of programs, and the violations that they found. All threads share one tally.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::end::End;

/// The maximum number of messages that are kept for each kind of violation; further ones are only counted. The first
/// messages explain the others.
const SENTENCES_KEPT: usize = 20;

/// The counters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// Steps of the mixed load.
    Steps,
    /// Clients opened and dropped.
    Clients,
    /// Streams opened and dropped.
    Streams,
    /// Buffers opened and dropped.
    Buffers,
    /// Bytes of these buffers.
    Bytes,
    /// Requests for an answer.
    Requests,
    /// Answers that arrived.
    Answered,
    /// Requests whose answer was dropped on purpose.
    Withdrawn,
    /// Answers with data, every element of which was right.
    Data,
    /// Answers with an expected failure.
    Failures,
    /// Calls and answers that reported the loss of the device.
    Lost,
    /// Calls refused by a client's limit.
    Limits,
    /// Calls that found no room and did not wait.
    Busy,
    /// Host functions and callbacks that were submitted.
    Closures,
    /// Host functions and callbacks that ended: called or dropped.
    Ended,
    /// Host functions and callbacks that were called.
    Called,
    /// Values that were submitted to be dropped later.
    Values,
    /// Values of these that the runtime dropped.
    Dropped,
    /// Tasks under a token or deadline.
    Cancellable,
    /// Tasks that the soak's own equal clients completed.
    EqualClientTasks,
}

/// Violations of one kind.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Violations {
    /// The number of violations.
    pub seen: u64,
    /// Messages about the first violations.
    pub sentences: Vec<String>,
}

/// The counters and violations of all threads that share it.
#[derive(Default, Debug)]
pub struct Tally {
    counts: Mutex<BTreeMap<Count, u64>>,
    /// Answers with wrong data.
    wrong: Mutex<Violations>,
    /// Errors without a reason.
    unexpected: Mutex<Violations>,
    /// Requests without an answer.
    unanswered: Mutex<Violations>,
    /// Ends the threads: the time is up, or the user interrupts.
    pub stop: Arc<AtomicBool>,
}

impl Tally {
    /// Adds to a counter.
    pub fn add(&self, count: Count, by: u64) {
        *lock(&self.counts).entry(count).or_default() += by;
    }

    /// Adds one to a counter.
    pub fn increment(&self, count: Count) {
        self.add(count, 1);
    }

    /// Returns the value of a counter.
    pub fn get(&self, count: Count) -> u64 {
        lock(&self.counts).get(&count).copied().unwrap_or_default()
    }

    /// Returns all counters that are not 0.
    pub fn all(&self) -> BTreeMap<Count, u64> {
        lock(&self.counts).clone()
    }

    /// Returns `true` if the threads must end.
    pub fn stopped(&self) -> bool {
        // Relaxed: the flag publishes no other data.
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes an answer with wrong data.
    pub fn note_wrong(&self, what: impl Into<String>) {
        note(&self.wrong, what.into());
    }

    /// Notes an error without a reason.
    pub fn note_unexpected(&self, what: impl Into<String>) {
        note(&self.unexpected, what.into());
    }

    /// Notes a request without an answer.
    pub fn note_unanswered(&self, what: impl Into<String>) {
        note(&self.unanswered, what.into());
    }

    /// Returns the violations: wrong data, errors without a reason, requests without an answer.
    pub fn violations(&self) -> [Violations; 3] {
        [&self.wrong, &self.unexpected, &self.unanswered].map(|violations| lock(violations).clone())
    }

    /// Returns why a program ended early: the message of the first violation.
    pub fn reason(&self, end: End) -> String {
        let mut all = self.violations().into_iter();
        match (
            end,
            all.find_map(|violations| violations.sentences.into_iter().next()),
        ) {
            (_, Some(sentence)) => sentence,
            (End::Lost, None) => "the device is lost".to_owned(),
            (End::Wrong, None) => {
                "the program ended early without a violation in the tally".to_owned()
            }
        }
    }

    /// Returns the number of violations of all kinds.
    pub fn violation_count(&self) -> u64 {
        self.violations()
            .iter()
            .map(|violations| violations.seen)
            .sum()
    }
}

fn note(violations: &Mutex<Violations>, what: String) {
    let mut violations = lock(violations);
    violations.seen += 1;
    if violations.sentences.len() < SENTENCES_KEPT {
        violations.sentences.push(what);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that a closure owns. Its drop counts the end of the closure, whether it was called or not.
#[derive(Debug)]
pub struct Token(Arc<Tally>);

impl Token {
    /// Counts a new closure.
    pub fn new(tally: &Arc<Tally>) -> Self {
        tally.increment(Count::Closures);
        Self(tally.clone())
    }

    /// Counts a call of the closure.
    pub fn called(&self) {
        self.0.increment(Count::Called);
    }

    /// Returns the tally.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.0
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.increment(Count::Ended);
    }
}

/// A value that the runtime must drop. Its drop is counted.
#[derive(Debug)]
pub struct Value(Arc<Tally>);

impl Value {
    /// Counts a new value.
    pub fn new(tally: &Arc<Tally>) -> Self {
        tally.increment(Count::Values);
        Self(tally.clone())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.increment(Count::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_sentences_are_bounded_and_the_count_is_not() {
        let tally = Tally::default();
        (0..100).for_each(|index| tally.note_wrong(format!("{index}")));
        let [wrong, unexpected, _] = tally.violations();
        assert_eq!((wrong.seen, wrong.sentences.len()), (100, SENTENCES_KEPT));
        assert_eq!(unexpected, Violations::default());
        assert_eq!(tally.violation_count(), 100);
    }

    #[test]
    fn each_token_ends_once() {
        let tally = Arc::new(Tally::default());
        drop((Token::new(&tally), Token::new(&tally)));
        assert_eq!(
            (tally.get(Count::Closures), tally.get(Count::Ended)),
            (2, 2)
        );
    }
}
