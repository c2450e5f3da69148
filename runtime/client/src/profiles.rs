//! Profiles: what tasks took, from one call to another.

use std::sync::Arc;
use std::time::Instant;

use millstream_protocol::error::Error;
use millstream_protocol::message::{Ask, Scope};
use millstream_protocol::message::{Op, Task};
use millstream_protocol::profile::{Profile, ProfileToken};
use millstream_sync::reply::reply;

use crate::{ComputeClient, DeviceShared, Home, Pending, Recording, Stream};

impl DeviceShared {
    /// Starts a profile of what `scope` is sent from here on. May wait for room in the mailbox, if `wait`.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`]; [`Error::Busy`] where it may not wait.
    pub fn start_profile(&self, wait: bool, scope: Scope) -> Result<ProfileToken, Error> {
        let number = self.tokens().next();
        let token = ProfileToken::new((self.tokens().device, self.epoch()), number, Instant::now());
        let ask = Ask::StartProfile { number, scope };
        self.send(wait, Task::new(None, Op::Ask(Box::new(ask))))?;
        Ok(token)
    }

    /// Ends a profile. May wait for room in the mailbox, if `wait`.
    pub fn end_profile(self: &Arc<Self>, wait: bool, token: ProfileToken) -> Pending<Profile> {
        let home = Home::Device(self.clone());
        if let Err(error) = token.check(self.tokens().device, self.epoch()) {
            return Pending::failed(home, error.into());
        }
        let (sender, receiver) = reply();
        let ask = Ask::EndProfile {
            number: token.number(),
            calls: token.started().elapsed(),
            reply: sender,
        };
        match self.send(wait, Task::new(None, Op::Ask(Box::new(ask)))) {
            Ok(()) => Pending::value(home, receiver),
            Err(error) => Pending::failed(home, error),
        }
    }
}

impl Stream {
    /// Starts a profile of what this stream is given from here on, by whatever thread, until the token is ended. May wait for room
    /// in the mailbox. Tokens nest and overlap as they like: a task is in each profile that is open when it is given.
    ///
    /// While a profile is open, a task costs the device's thread a note for each that it is in, and the device two looks at its
    /// clock; with none open it costs neither.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`]; [`Error::Busy`] of a stream whose calls do not wait.
    pub fn start_profile(&self) -> Result<ProfileToken, Error> {
        let scope = Scope::Streams(vec![self.known()?]);
        self.device().start_profile(self.waits(), scope)
    }

    /// Ends a profile of this device. Asking may wait for room in the mailbox. The answer comes once all its tasks are over, as that
    /// of [`Stream::sync`] does; dropping it ends the profile just as well.
    ///
    /// The answer is [`Error::Profile`] where there is no such profile: [`NotRegistered`](millstream_protocol::error::ProfileError::NotRegistered)
    /// for the token of another device, [`Unknown`](millstream_protocol::error::ProfileError::Unknown) for one that was ended before, that is of
    /// an epoch that was lost, or that gave way: a device keeps 16,384 profiles.
    pub fn end_profile(&self, token: ProfileToken) -> Pending<Profile> {
        self.device().end_profile(self.waits(), token)
    }

    /// Runs `work`, and profiles what this stream is given meanwhile. May wait for room in the mailbox. The profile ends when `work`
    /// does, also by a panic; where calls do not wait, its answer may be [`Error::Busy`].
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, values: &Handle<u32>) -> Result<(), millstream_protocol::error::Error> {
    /// let (filled, profile) = stream.profiled(|stream| stream.fill(values, 7))?;
    /// filled?;
    /// assert_eq!(profile.wait()?.kernel("fill").map(|fill| fill.tasks), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Stream::start_profile`]; then `work` has not run.
    pub fn profiled<T>(
        &self,
        work: impl FnOnce(&Stream) -> T,
    ) -> Result<(T, Pending<Profile>), Error> {
        let token = self.start_profile()?;
        let mut ends = Ends(self, Some(token));
        let made = work(self);
        ends.1 = None;
        Ok((made, self.end_profile(token)))
    }
}

impl Stream {
    /// As [`Stream::profiled`], for a closure with `?` in it, whose error type need not be named. Where the closure fails, that is the
    /// answer, and there is no profile.
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, values: &Handle<u32>) -> Result<(), millstream_protocol::error::Error> {
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
    /// As [`Stream::start_profile`]; then `work` has not run. What `work` answers.
    pub fn try_profiled<T>(
        &self,
        work: impl FnOnce(&Stream) -> Result<T, Error>,
    ) -> Result<(T, Pending<Profile>), Error> {
        let (made, profile) = self.profiled(work)?;
        Ok((made?, profile))
    }
}

/// Ends a profile whose closure panics.
struct Ends<'a>(&'a Stream, Option<ProfileToken>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.1 {
            drop(self.0.end_profile(token));
        }
    }
}

impl Recording {
    /// Runs the recording as [`Recording::replay`] does, and profiles that. May wait for room in the mailbox. Each task is told by
    /// its name. What other threads give the stream at that moment may be in it as well.
    ///
    /// On a GPU its tasks are given to the driver one by one then, since a graph of the driver has no times but its own.
    ///
    /// # Errors
    /// As [`Recording::replay`].
    pub fn replay_profiled(&self, stream: &Stream) -> Result<Pending<Profile>, Error> {
        let (replayed, profile) = stream.profiled(|stream| self.replay(stream))?;
        replayed?;
        Ok(profile)
    }
}

impl ComputeClient {
    /// Starts a profile of what all streams of this client are given from here on, also those that it makes later. May wait for
    /// room in the mailbox. Otherwise as [`Stream::start_profile`].
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::DeviceLost`].
    pub fn start_profile(&self) -> Result<ProfileToken, Error> {
        let scope = Scope::Client(self.id());
        self.device().start_profile(true, scope)
    }

    /// Starts one profile of several streams, of whatever clients of the device. Naming one twice is naming it once. May wait for
    /// room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a stream of another device; otherwise as [`ComputeClient::start_profile`].
    pub fn start_profile_of<'a>(
        &self,
        streams: impl IntoIterator<Item = &'a Stream>,
    ) -> Result<ProfileToken, Error> {
        let device = self.device();
        let mut ids = Vec::new();
        for stream in streams {
            let id = stream.known()?;
            if !Arc::ptr_eq(stream.device().table(), device.table()) {
                return Err(device.foreign("stream", stream.device().table()));
            }
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        device.start_profile(true, Scope::Streams(ids))
    }

    /// Ends a profile of this device, as [`Stream::end_profile`]. Asking may wait for room in the mailbox.
    pub fn end_profile(&self, token: ProfileToken) -> Pending<Profile> {
        self.device().end_profile(true, token)
    }
}
