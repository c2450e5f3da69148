//! Wakes an event loop, or a thread, once for a batch of completions.
//!
//! # Protocol
//! ```text
//!  thread of the runtime                          loop
//!  wake(token): adds it to the list               waits until the pipe is readable
//!    the list was empty: writes one byte ───────► drain: reads the byte, then takes the list
//!    it was not: the byte is in the pipe already         resolves the future of each token
//! ```
//! A byte is written exactly when the list becomes non-empty, after the token was added, and a drain reads one byte
//! before it takes the list. So the pipe holds at most one byte more than there are drains under way: writing it never
//! blocks, and neither does reading one after the loop found the pipe readable. Nothing here attaches to the interpreter,
//! so a wake never waits for its lock.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

/// The writing side, which runtime threads use.
pub(crate) struct Bell {
    /// Tokens whose answers have advanced, and are not drained.
    tokens: Mutex<Vec<u64>>,
    writer: PipeWriter,
}

impl Bell {
    /// Adds a token, and wakes the loop if it has no other to drain.
    pub(crate) fn ring(&self, token: u64) {
        let mut tokens = self.tokens();
        tokens.push(token);
        let is_first = tokens.len() == 1;
        drop(tokens);
        if is_first {
            // Fails only if the loop is gone.
            let _ = (&self.writer).write(&[1]);
        }
    }

    fn tokens(&self) -> MutexGuard<'_, Vec<u64>> {
        // A panic cannot leave the list in a bad state.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens of answers that have arrived, for one event loop.
///
/// ```text
/// def __new__(cls) -> Self
/// ```
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Wakeups {
    reader: PipeReader,
    pub(crate) bell: Arc<Bell>,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = std::io::pipe()?;
        let tokens = Mutex::default();
        let bell = Arc::new(Bell { tokens, writer });
        Ok(Self { reader, bell })
    }

    /// `() -> int`
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// `() -> list[int]`
    ///
    /// Takes the tokens. Blocks, detached, until there is one, so an event loop calls it when the pipe is readable.
    fn drain(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        py.detach(|| (&self.reader).read(&mut [0]))?;
        Ok(std::mem::take(&mut *self.bell.tokens()))
    }
}
