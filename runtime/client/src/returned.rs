//! The error of a call that takes a value by move and hands it back on failure.
//!
//! A call that takes a value and may fail before using it returns a [`Returned`], like crossbeam's `SendError`. So a
//! call that failed with [`Error::Busy`] can be repeated with the same value.

use std::fmt;
use std::time::Duration;

use millstream_protocol::Error;

/// An error together with the value that the call did not take. The `?` operator in a function that returns [`Error`]
/// keeps the error and drops the value.
///
/// ```
/// # use millstream_client::{Returned, Stream};
/// # use millstream_protocol::Error;
/// # use millstream_client::handle::Handle;
/// /// Uploads `data` if there is room now; otherwise the caller still has it.
/// fn upload(stream: &Stream, data: &mut Vec<f32>) -> Result<Handle<f32>, Error> {
///     let uploaded = stream.nowait().create_owned(std::mem::take(data));
///     uploaded.map_err(|returned: Returned<Vec<f32>>| returned.restore(data))
/// }
/// ```
pub struct Returned<V> {
    /// The value that was passed to the call.
    pub value: V,
    /// The reason why the call failed.
    pub error: Error,
}

impl<V> Returned<V> {
    /// Moves the value back to `to`, and returns the error.
    pub fn restore(self, to: &mut V) -> Error {
        *to = self.value;
        self.error
    }

    /// Returns the value and discards the error, to repeat the call.
    pub fn into_value(self) -> V {
        self.value
    }

    /// Returns how long to wait before repeating the call, if repeating it can succeed: [`Error::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.error.retry_after()
    }

    /// Maps the value and keeps the error.
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

/// Drops the value, so that `?` works.
impl<V> From<Returned<V>> for Error {
    fn from(returned: Returned<V>) -> Self {
        returned.error
    }
}
