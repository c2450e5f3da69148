//! Times by the clock of the device that a stream is of.

use std::time::Duration;

use millstream_client::handle::Handle;
use millstream_client::{Pending, Stream};
use millstream_protocol::error::Error;
use millstream_protocol::profile::Profile;

use crate::error::Failure;
use crate::measure::Measure;

/// Takes the times of what candidates give to a stream: those in which the device was at it, by its own clock where it has one
/// ([`Stream::profiled`]).
///
/// Candidates give their work to this stream, or to clones of it; what they give to others is not measured. Work that does not run, or fails
/// as it runs, drops its candidate with that failure, on every backend: its time does not count, it does not win and is not stored. Whether
/// the data is right is for [`TunableSet::settled`](crate::TunableSet::settled) and
/// [`TunableSet::autotune_checks`](crate::TunableSet::autotune_checks).
///
/// ```
/// use millstream_client::Stream;
/// use millstream_tune::{Policy, StreamClock, Tunable, TunableSet, TuneError, Tuner};
///
/// # fn f(stream: &Stream, room: millstream_client::handle::Handle<u32>) -> Result<(), Box<dyn std::error::Error>> {
/// let (whole, halves) = (stream.clone(), stream.clone());
/// let clear = TunableSet::new("clear", |_: &usize, room: &millstream_client::handle::Handle<u32>| room.clone())
///     .with(Tunable::new("at once", move |room: millstream_client::handle::Handle<u32>| whole.fill(&room, 0)))
///     .with(Tunable::new("by halves", move |room: millstream_client::handle::Handle<u32>| {
///         let (first, second) = (room.slice(..room.len() / 2)?, room.slice(room.len() / 2..)?);
///         halves.fill(&first, 0)?;
///         halves.fill(&second, 0)?;
///         Ok::<_, Box<dyn std::error::Error>>(())
///     }));
/// let tuner = Tuner::new();
/// let mut clock = StreamClock::new(stream);
/// let key = room.len();
/// tuner.execute(&clear, &key, room, &mut clock, Policy::Wait)?;
/// # Ok(())
/// # }
/// ```
pub struct StreamClock {
    stream: Stream,
    under_way: Option<Pending<Profile>>,
    /// Filled between samples.
    evicted: Option<Handle<u8>>,
    clock: String,
}

impl StreamClock {
    /// The clock of this stream's device.
    pub fn new(stream: &Stream) -> Self {
        Self {
            stream: stream.clone(),
            under_way: None,
            evicted: None,
            clock: "the device's clock".to_owned(),
        }
    }

    /// Fills so many bytes of the device's memory before each sample: twice as many as its caches have leave nothing of the last one there.
    ///
    /// # Errors
    /// The device has no memory for it.
    pub fn evicting(mut self, bytes: usize) -> Result<Self, Error> {
        let room = self.stream.empty::<u8>(bytes)?;
        self.stream.fill(&room, 0_u8)?;
        self.evicted = Some(room);
        Ok(self)
    }

    fn time(&mut self, profile: Result<Profile, Error>) -> Result<Duration, Failure> {
        let profile = profile.map_err(Failure::new)?;
        if let Some(failure) = &profile.failure {
            return Err(Failure::Failed(failure.to_string()));
        }
        if profile.untimed > 0 {
            let (untimed, tasks) = (profile.untimed, profile.tasks);
            return Err(Failure::Failed(format!(
                "{untimed} of its {tasks} tasks failed on the device, or have no times"
            )));
        }
        if profile.tasks == 0 {
            return Err(Failure::new("it gave the stream nothing to do"));
        }
        self.clock = profile.busy.clock.to_string();
        Ok(profile.busy.duration)
    }
}

impl Measure for StreamClock {
    fn clock(&self) -> &str {
        &self.clock
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        let profiled = self.stream.profiled(|_| work());
        let (done, profile) = profiled.map_err(Failure::new)?;
        done?;
        self.under_way = Some(profile);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        let Some(mut profile) = self.under_way.take() else {
            return Err(Failure::new("nothing is being measured"));
        };
        match profile.try_take() {
            Some(profile) => self.time(profile).map(Some),
            None => {
                self.under_way = Some(profile);
                Ok(None)
            }
        }
    }

    fn wait(&mut self) -> Result<Duration, Failure> {
        match self.under_way.take() {
            Some(profile) => self.time(profile.wait()),
            None => Err(Failure::new("nothing is being measured")),
        }
    }

    fn evict(&mut self) -> Result<(), Failure> {
        match &self.evicted {
            Some(room) => self.stream.fill(room, 1_u8).map_err(Failure::new),
            None => Ok(()),
        }
    }
}
