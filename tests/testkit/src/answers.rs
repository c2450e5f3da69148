//! Receives answers in every form: by a wait, a poll, an await or a callback; some are dropped unread. The tally counts
//! each request and each answer, and every received answer is checked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use millstream::{Error, Pending};

use crate::config::ProgramConfig;
use crate::contents::{AllowedFailures, Contents, Outcome};
use crate::dice::Dice;
use crate::end::End;
use crate::tally::{Count, Tally, Token};

/// The expected result of a read.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The kind of read, for messages.
    pub what: &'static str,
    /// The contents of the buffer when the read was submitted.
    pub contents: Contents,
    /// The read itself may fail for these reasons.
    pub allowed: AllowedFailures,
}

impl Expected {
    /// Counts an answer, and notes a violation in the tally if the answer is wrong.
    ///
    /// # Errors
    /// [`End`] if the answer is wrong, or the device is lost.
    pub fn check(&self, tally: &Tally, answer: &Result<Vec<u32>, Error>) -> Result<(), End> {
        let what = self.what;
        match self.contents.check(answer, self.allowed) {
            Ok(Outcome::Data) => tally.increment(Count::Data),
            Ok(Outcome::Failed) => tally.increment(Count::Failures),
            Ok(Outcome::Lost) => {
                tally.increment(Count::Lost);
                return Err(End::Lost);
            }
            Err(wrong) => {
                let message = format!("{what}: {wrong}");
                match answer {
                    Ok(_) => tally.note_wrong(message),
                    Err(_) => tally.note_unexpected(message),
                }
                return Err(End::Wrong);
            }
        }
        Ok(())
    }
}

/// Waits for an answer of any kind, in a form that the dice choose.
///
/// # Errors
/// [`End::Wrong`] if no answer comes within the config's patience.
pub fn answer<T: Send + 'static>(
    config: &ProgramConfig,
    dice: &mut Dice,
    what: &str,
    pending: Pending<T>,
) -> Result<Result<T, Error>, End> {
    config.tally.increment(Count::Requests);
    receive(config, dice, what, pending)
}

/// As [`answer`], for a request that is counted already.
pub(crate) fn receive<T: Send + 'static>(
    config: &ProgramConfig,
    dice: &mut Dice,
    what: &str,
    mut pending: Pending<T>,
) -> Result<Result<T, Error>, End> {
    let patience = config.patience;
    let answer = match dice.below(4) {
        0 if !config.is_driven => block_on(pending, patience),
        1 if !config.is_driven => poll(pending, patience),
        _ => match pending.wait_timeout(patience) {
            Err(Error::TimedOut { .. }) => None,
            answer => Some(answer),
        },
    };
    match answer {
        Some(answer) => {
            config.tally.increment(Count::Answered);
            Ok(answer)
        }
        None => {
            let message = format!("{what}: no answer within {patience:?} (I5)");
            config.tally.note_unanswered(message);
            Err(End::Wrong)
        }
    }
}

/// Waits for the answer of a read, drops the answer, or registers a callback for it, as the dice choose.
pub(crate) fn read(
    config: &ProgramConfig,
    dice: &mut Dice,
    expected: Expected,
    pending: Pending<Vec<u32>>,
) -> Result<(), End> {
    let tally = &config.tally;
    match dice.below(8) {
        0 => receive_by_callback(tally, expected, pending),
        1 => {
            tally.increment(Count::Requests);
            drop(pending);
            tally.increment(Count::Withdrawn);
            Ok(())
        }
        _ => {
            let answer = answer(config, dice, expected.what, pending)?;
            expected.check(tally, &answer)
        }
    }
}

/// Registers a callback that checks the answer.
fn receive_by_callback(
    tally: &Arc<Tally>,
    expected: Expected,
    pending: Pending<Vec<u32>>,
) -> Result<(), End> {
    let token = Token::new(tally);
    tally.increment(Count::Requests);
    let registered = pending.on_ready(move |answer| {
        token.called();
        token.tally().increment(Count::Answered);
        // A callback cannot end the program. The tally has the violation.
        let _ = expected.check(token.tally(), &answer);
    });
    if registered.is_err() {
        // If the device is lost, the callback is returned without a call.
        tally.increment(Count::Withdrawn);
        return Err(End::Lost);
    }
    Ok(())
}

/// Polls an answer until it arrives, as the frames of a game do between other work.
fn poll<T: Send + 'static>(
    mut pending: Pending<T>,
    patience: Duration,
) -> Option<Result<T, Error>> {
    let start = Instant::now();
    loop {
        if let Some(answer) = pending.try_take() {
            return Some(answer);
        }
        if start.elapsed() > patience {
            return None;
        }
        thread::yield_now();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor.
fn block_on<F: Future + Unpin>(mut future: F, patience: Duration) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return Some(output);
        }
        let left = patience.checked_sub(start.elapsed())?;
        thread::park_timeout(left);
    }
}
