//! Answers in every form they come in: waited for, polled, awaited, called back, withdrawn. Each is counted when it
//! is asked and when it comes, and what it brings is checked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use millstream::{Error, Pending};

use super::dice::Dice;
use super::model::{Expected, Outcome};
use super::tally::{Count, Tally, Token};

/// Far longer than any answer takes. Who waits longer is taken to wait for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Why a session ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The device is lost.
    Lost,
    /// An answer did not come, or something was wrong: it has been noted.
    Wrong,
}

/// What a read must bring.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) what: &'static str,
    pub(crate) expected: Expected,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Wanted {
    /// Counts an answer, and says what is wrong with it.
    pub(crate) fn check(&self, tally: &Tally, answer: &Result<Vec<u32>, Error>) -> Result<(), End> {
        let outcome = self.expected.check(self.start, self.len, answer);
        let (what, expected) = (self.what, &self.expected);
        match outcome {
            Ok(Outcome::Data) => tally.one(Count::Data),
            Ok(Outcome::Failed) => tally.one(Count::Failures),
            Ok(Outcome::Lost) => {
                tally.one(Count::Lost);
                return Err(End::Lost);
            }
            Err(wrong) if answer.is_ok() => {
                tally.is_wrong(format!("{what}: {wrong} ({expected:?})"));
                return Err(End::Wrong);
            }
            Err(wrong) => {
                tally.is_unexpected(format!("{what}: {wrong} ({expected:?})"));
                return Err(End::Wrong);
            }
        }
        Ok(())
    }
}

/// Waits for any answer, in a form that the dice choose. The answer, or nothing if it did not come.
pub(crate) fn answer<T: Send + 'static>(
    tally: &Tally,
    dice: &mut Dice,
    what: &str,
    mut pending: Pending<T>,
) -> Result<Result<T, Error>, End> {
    tally.one(Count::Asked);
    let answer = match dice.below(4) {
        0 => block_on(pending),
        1 => poll(pending),
        _ => match pending.wait_timeout(PATIENCE) {
            Err(Error::TimedOut { .. }) => None,
            answer => Some(answer),
        },
    };
    match answer {
        Some(answer) => {
            tally.one(Count::Answered);
            Ok(answer)
        }
        None => {
            tally.is_unanswered(format!("{what}: no answer within {PATIENCE:?}"));
            Err(End::Wrong)
        }
    }
}

/// Asks, and reads or leaves the answer as the dice choose.
pub(crate) fn read(
    tally: &Arc<Tally>,
    dice: &mut Dice,
    wanted: Wanted,
    pending: Pending<Vec<u32>>,
) -> Result<(), End> {
    match dice.below(8) {
        0 => call_back(tally, wanted, pending),
        1 => {
            tally.one(Count::Asked);
            drop(pending);
            tally.one(Count::Withdrawn);
            Ok(())
        }
        _ => {
            let answer = answer(tally, dice, wanted.what, pending)?;
            wanted.check(tally, &answer)
        }
    }
}

/// Leaves the answer to a callback, which checks it.
fn call_back(tally: &Arc<Tally>, wanted: Wanted, pending: Pending<Vec<u32>>) -> Result<(), End> {
    let token = Token::new(tally);
    tally.one(Count::Asked);
    let asked = pending.on_ready(move |answer| {
        token.called();
        token.tally().one(Count::Answered);
        // Nobody here ends a session: what is wrong has been noted.
        let _ = wanted.check(token.tally(), &answer);
    });
    if asked.is_err() {
        // The callback comes back, uncalled: the device is gone.
        tally.one(Count::Withdrawn);
        return Err(End::Lost);
    }
    Ok(())
}

/// Polls an answer as a frame would, until it is there.
fn poll<T: Send + 'static>(mut pending: Pending<T>) -> Option<Result<T, Error>> {
    let began = Instant::now();
    loop {
        if let Some(answer) = pending.try_take() {
            return Some(answer);
        }
        if began.elapsed() > PATIENCE {
            return None;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The least executor.
fn block_on<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let began = Instant::now();
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return Some(output);
        }
        let left = PATIENCE.checked_sub(began.elapsed())?;
        thread::park_timeout(left);
    }
}
