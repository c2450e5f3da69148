//! The error of a call that takes a value of its caller: it gives the value back.
//!
//! Whatever takes a value and may fail before it has used it answers a [`Returned`], as crossbeam's `SendError` does; so
//! a call that is told [`Error::Busy`] can be made again with the same value.

use std::fmt;
use std::time::Duration;

use millstream_protocol::error::Error;

/// A value that was not taken, and why. `?` in a function that answers [`Error`] keeps the error and drops the value.
///
/// ```
/// # use millstream_client::{Returned, Stream};
/// # use millstream_protocol::error::Error;
/// # use millstream_client::handle::Handle;
/// /// Uploads `data` if there is room now; else the caller has it again.
/// fn upload(stream: &Stream, data: &mut Vec<f32>) -> Result<Handle<f32>, Error> {
///     let uploaded = stream.nowait().create_owned(std::mem::take(data));
///     uploaded.map_err(|returned: Returned<Vec<f32>>| returned.restore(data))
/// }
/// ```
pub struct Returned<V> {
    /// The value.
    pub value: V,
    /// Why it was not taken.
    pub error: Error,
}

impl<V> Returned<V> {
    /// Puts the value back to where it was taken from, and answers the error.
    pub fn restore(self, to: &mut V) -> Error {
        *to = self.value;
        self.error
    }

    /// The value, without the error: for a call that will be made again.
    pub fn into_value(self) -> V {
        self.value
    }

    /// How long to wait before trying again, if that is what helps: [`Error::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.error.retry_after()
    }

    /// The same error with another value.
    pub(crate) fn map<W>(self, change: impl FnOnce(V) -> W) -> Returned<W> {
        Returned {
            value: change(self.value),
            error: self.error,
        }
    }
}

impl<V> fmt::Debug for Returned<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<V> fmt::Display for Returned<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<V> std::error::Error for Returned<V> {}

/// For `?`: the value is dropped.
impl<V> From<Returned<V>> for Error {
    fn from(returned: Returned<V>) -> Self {
        returned.error
    }
}
