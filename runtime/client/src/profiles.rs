//! Profiles: the time that tasks take between two calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use millstream_protocol::{DeviceRequest, Error, Profile, ProfileToken, Scope};

use crate::{ComputeClient, DeviceShared, Pending, Recording, Stream};

/// The number of profiles that this process has started, on all devices.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl DeviceShared {
    /// Starts a profile of all tasks submitted to `scope` from now on. May block while the mailbox is full, if `wait`
    /// is set.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`]; [`Error::Busy`] if it may not block.
    pub fn start_profile(&self, wait: bool, scope: Scope) -> Result<ProfileToken, Error> {
        // Relaxed: the numbers must only be distinct.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let token = ProfileToken::new(number, Instant::now());
        self.request(wait, DeviceRequest::StartProfile { number, scope })?;
        Ok(token)
    }

    /// Ends a profile. May block while the mailbox is full, if `wait` is set.
    pub fn end_profile(self: &Arc<Self>, wait: bool, token: ProfileToken) -> Pending<Profile> {
        self.query_if(wait, |reply| DeviceRequest::EndProfile {
            number: token.number(),
            calls: token.started().elapsed(),
            reply,
        })
    }
}

impl Stream {
    /// Starts a profile of all tasks that any thread submits to this stream until the token is ended. May block while
    /// the mailbox is full. Profiles may nest and overlap: a task counts in each profile that is open when it is
    /// submitted.
    ///
    /// While a profile is open, each task costs the device thread one entry for each profile that covers it, and the
    /// device reads its clock twice. Without an open profile a task costs neither.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`]; [`Error::Busy`] if the stream's calls do not block.
    pub fn start_profile(&self) -> Result<ProfileToken, Error> {
        let scope = Scope::Streams(vec![self.registered_id()?]);
        self.device().start_profile(self.waits(), scope)
    }

    /// Ends a profile of this device. May block while the mailbox is full. The answer arrives once all its tasks have
    /// completed, as that of [`Stream::sync`] does. Dropping the answer ends the profile as well.
    ///
    /// The answer is [`Error::NoProfile`] for a profile of another device, and for one that was ended before, that belongs to
    /// a lost epoch, or that was evicted: a device keeps 16,384 profiles.
    pub fn end_profile(&self, token: ProfileToken) -> Pending<Profile> {
        self.device().end_profile(self.waits(), token)
    }

    /// Runs `work` and profiles the tasks that are submitted to this stream meanwhile. May block while the mailbox is
    /// full. The profile ends when `work` returns or panics. If the stream's calls do not block, the answer may be
    /// [`Error::Busy`].
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, values: &Handle<u32>) -> Result<(), millstream_protocol::Error> {
    /// let (filled, profile) = stream.profiled(|stream| stream.fill(values, 7))?;
    /// filled?;
    /// assert_eq!(profile.wait()?.kernel("fill").map(|fill| fill.tasks), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::start_profile`]; `work` did not run then.
    pub fn profiled<T>(
        &self,
        work: impl FnOnce(&Stream) -> T,
    ) -> Result<(T, Pending<Profile>), Error> {
        let token = self.start_profile()?;
        let mut ends = EndOnDrop(self, Some(token));
        let made = work(self);
        ends.1 = None;
        Ok((made, self.end_profile(token)))
    }
}

impl Stream {
    /// As [`Stream::profiled`], for a closure that returns a `Result`, so that `?` works in it. If the closure returns
    /// an error, that error is returned and the profile is discarded. May block while the mailbox is full.
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, values: &Handle<u32>) -> Result<(), millstream_protocol::Error> {
    /// let ((), profile) = stream.try_profiled(|stream| {
    ///     stream.fill(values, 7)?;
    ///     stream.fill(values, 8)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(profile.wait()?.tasks, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::start_profile`]; `work` did not run then. The error of `work`.
    pub fn try_profiled<T>(
        &self,
        work: impl FnOnce(&Stream) -> Result<T, Error>,
    ) -> Result<(T, Pending<Profile>), Error> {
        let (made, profile) = self.profiled(work)?;
        Ok((made?, profile))
    }
}

/// Ends a profile on drop, in case the closure panics.
struct EndOnDrop<'a>(&'a Stream, Option<ProfileToken>);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.1 {
            drop(self.0.end_profile(token));
        }
    }
}

impl Recording {
    /// Replays the recording as [`Recording::replay`] does, and profiles the replay. May block while the mailbox is
    /// full. The profile lists each task by its name. Tasks that other threads submit to the stream meanwhile may be in
    /// the profile as well.
    ///
    /// On a GPU the tasks are submitted to the driver one by one while the profile is open, since the driver times a
    /// graph only as a whole.
    ///
    /// # Errors
    /// Same as [`Recording::replay`].
    pub fn replay_profiled(&self, stream: &Stream) -> Result<Pending<Profile>, Error> {
        let (replayed, profile) = stream.profiled(|stream| self.replay(stream))?;
        replayed?;
        Ok(profile)
    }
}

impl ComputeClient {
    /// Starts a profile of all tasks submitted to this client's streams from now on, including streams made later. May
    /// block while the mailbox is full. Otherwise like [`Stream::start_profile`].
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`].
    pub fn start_profile(&self) -> Result<ProfileToken, Error> {
        let scope = Scope::Client(self.id());
        self.device().start_profile(true, scope)
    }

    /// Starts one profile of several streams, of any clients of the device. Duplicates count once. May block while the
    /// mailbox is full.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a stream of another device; otherwise the same as [`ComputeClient::start_profile`].
    pub fn start_profile_of<'a>(
        &self,
        streams: impl IntoIterator<Item = &'a Stream>,
    ) -> Result<ProfileToken, Error> {
        let device = self.device();
        let mut ids = Vec::new();
        for stream in streams {
            let id = stream.registered_id()?;
            if !Arc::ptr_eq(stream.device().table(), device.table()) {
                return Err(device.foreign(
                    "stream",
                    id.index().to_string(),
                    stream.device().table(),
                ));
            }
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        device.start_profile(true, Scope::Streams(ids))
    }

    /// Ends a profile of this device, as [`Stream::end_profile`]. May block while the mailbox is full.
    pub fn end_profile(&self, token: ProfileToken) -> Pending<Profile> {
        self.device().end_profile(true, token)
    }
}
