//! A drop guard that cancels a token.

use super::CancelToken;

impl CancelToken {
    /// Returns a guard that cancels the token when it is dropped: for a handler whose future is dropped when its client
    /// disconnects, or that returns early.
    ///
    /// ```
    /// # use millstream_protocol::CancelToken;
    /// # use millstream_client::Stream;
    /// # use millstream_protocol::Error;
    /// # use millstream_client::handle::Handle;
    /// async fn handle(stream: &Stream, values: &Handle<u32>) -> Result<Vec<u32>, Error> {
    ///     let token = CancelToken::new();
    ///     let request = stream.with_cancel(&token).nowait();
    ///     let guard = token.drop_guard(); // from here on, dropping this future withdraws its tasks
    ///     request.fill(values, 1)?;
    ///     let answer = request.read(values).await?;
    ///     guard.disarm();
    ///     Ok(answer)
    /// }
    /// ```
    pub fn drop_guard(self) -> DropGuard {
        DropGuard(Some(self))
    }
}

/// A guard that cancels a token when it is dropped: [`CancelToken::drop_guard`].
#[derive(Debug)]
#[must_use = "dropping the guard cancels the token at once"]
pub struct DropGuard(Option<CancelToken>);

impl DropGuard {
    /// Returns the token, which the guard no longer cancels.
    pub fn disarm(mut self) -> CancelToken {
        self.0.take().unwrap_or_default()
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = self.0.take() {
            token.cancel();
        }
    }
}
