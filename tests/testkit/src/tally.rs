//! What programs did, and what was wrong: counters that all threads share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::end::End;

/// Sentences that are kept of what was wrong; the rest is counted. The first ones explain the others.
const SENTENCES_KEPT: usize = 20;

/// A kind of thing that is counted.
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
    /// Bytes of those.
    Bytes,
    /// Answers that were asked.
    Asked,
    /// Answers that came.
    Answered,
    /// Answers that were given up on purpose.
    Withdrawn,
    /// Answers with data, every element of which was right.
    Data,
    /// Answers with a failure that was to be expected.
    Failures,
    /// Calls and answers that said that the device was lost.
    Lost,
    /// Calls refused by a client's limit.
    Limits,
    /// Calls that found no room and did not wait.
    Busy,
    /// Host functions and callbacks that were given away.
    Given,
    /// Those that ended: called or dropped.
    Ended,
    /// Those of them that were called.
    Called,
    /// Values that were given to be dropped later.
    Values,
    /// Those that were dropped.
    Dropped,
    /// Tasks under a token or deadline.
    Terms,
    /// Tasks that the soak's own equal clients completed.
    Even,
}

/// Each of them, at its place.
pub const COUNTS: [Count; 20] = [
    Count::Steps,
    Count::Clients,
    Count::Streams,
    Count::Buffers,
    Count::Bytes,
    Count::Asked,
    Count::Answered,
    Count::Withdrawn,
    Count::Data,
    Count::Failures,
    Count::Lost,
    Count::Limits,
    Count::Busy,
    Count::Given,
    Count::Ended,
    Count::Called,
    Count::Values,
    Count::Dropped,
    Count::Terms,
    Count::Even,
];

/// What is wrong, and how often.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize)]
pub struct Wrongs {
    /// How often.
    pub seen: u64,
    /// The first of them.
    pub sentences: Vec<String>,
}

/// What was done and what was wrong, by all threads that share it.
#[derive(Default, Debug)]
pub struct Tally {
    counts: [AtomicU64; COUNTS.len()],
    /// Data that was not what it must be.
    wrong: Mutex<Wrongs>,
    /// Errors that nothing explains.
    unexpected: Mutex<Wrongs>,
    /// Answers that never came.
    unanswered: Mutex<Wrongs>,
    /// Ends the threads: the time is up, or the user interrupts.
    pub stop: Arc<AtomicBool>,
}

impl Tally {
    /// Counts several.
    pub fn add(&self, count: Count, by: u64) {
        // Relaxed: a figure.
        self.counts[count as usize].fetch_add(by, Ordering::Relaxed);
    }

    /// Counts one.
    pub fn one(&self, count: Count) {
        self.add(count, 1);
    }

    /// How many there are.
    pub fn get(&self, count: Count) -> u64 {
        // Relaxed: a figure; what decides is read after the threads were joined.
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// All counts.
    pub fn all(&self) -> BTreeMap<Count, u64> {
        COUNTS.map(|count| (count, self.get(count))).into()
    }

    /// Whether threads are to end.
    pub fn stopped(&self) -> bool {
        // Relaxed: it says when, not what.
        self.stop.load(Ordering::Relaxed)
    }

    /// Data was not what it must be.
    pub fn is_wrong(&self, what: impl Into<String>) {
        note(&self.wrong, what.into());
    }

    /// An error that nothing explains.
    pub fn is_unexpected(&self, what: impl Into<String>) {
        note(&self.unexpected, what.into());
    }

    /// An answer never came.
    pub fn is_unanswered(&self, what: impl Into<String>) {
        note(&self.unanswered, what.into());
    }

    /// Wrong data, unexpected errors, answers that never came.
    pub fn wrongs(&self) -> [Wrongs; 3] {
        [&self.wrong, &self.unexpected, &self.unanswered].map(|wrongs| lock(wrongs).clone())
    }

    /// Why a program ended early: the first sentence about something wrong.
    pub fn reason(&self, end: End) -> String {
        let mut all = self.wrongs().into_iter();
        match (
            end,
            all.find_map(|wrongs| wrongs.sentences.into_iter().next()),
        ) {
            (_, Some(sentence)) => sentence,
            (End::Lost, None) => "the device is lost".to_owned(),
            (End::Wrong, None) => "something was wrong, and nothing says what".to_owned(),
        }
    }

    /// How many things were wrong.
    pub fn violations(&self) -> u64 {
        self.wrongs().iter().map(|wrongs| wrongs.seen).sum()
    }
}

fn note(wrongs: &Mutex<Wrongs>, what: String) {
    let mut wrongs = lock(wrongs);
    wrongs.seen += 1;
    if wrongs.sentences.len() < SENTENCES_KEPT {
        wrongs.sentences.push(what);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that is given away with a closure, and counts when that ends, called or not.
#[derive(Debug)]
pub struct Token(Arc<Tally>);

impl Token {
    /// Gives one away.
    pub fn new(tally: &Arc<Tally>) -> Self {
        tally.one(Count::Given);
        Self(tally.clone())
    }

    /// The closure runs.
    pub fn called(&self) {
        self.0.one(Count::Called);
    }

    /// Where it is counted.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.0
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.one(Count::Ended);
    }
}

/// A value that is given away to be dropped, and counts when it is.
#[derive(Debug)]
pub struct Value(Arc<Tally>);

impl Value {
    /// Gives one away.
    pub fn new(tally: &Arc<Tally>) -> Self {
        tally.one(Count::Values);
        Self(tally.clone())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.one(Count::Dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_place_of_its_own() {
        for (place, count) in COUNTS.into_iter().enumerate() {
            assert_eq!(count as usize, place);
        }
    }

    #[test]
    fn sentences_are_bounded_and_their_number_is_not() {
        let tally = Tally::default();
        (0..100).for_each(|index| tally.is_wrong(format!("{index}")));
        let [wrong, unexpected, _] = tally.wrongs();
        assert_eq!((wrong.seen, wrong.sentences.len()), (100, SENTENCES_KEPT));
        assert_eq!(unexpected, Wrongs::default());
        assert_eq!(tally.violations(), 100);
    }

    #[test]
    fn what_is_given_away_ends_once() {
        let tally = Arc::new(Tally::default());
        drop((Token::new(&tally), Token::new(&tally)));
        assert_eq!((tally.get(Count::Given), tally.get(Count::Ended)), (2, 2));
    }
}
