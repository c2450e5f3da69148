//! Measuring with the clock of a stream's device.

use std::time::Duration;

use millstream_client::handle::Handle;
use millstream_client::{Pending, Stream};
use millstream_protocol::{Error, Profile};

use crate::error::Failure;
use crate::measure::Measure;

/// Measures the work that candidates submit to a stream: the time in which the device ran it, by the device's own
/// clock if it has one ([`Stream::profiled`]).
///
/// Candidates submit their work to this stream or to clones of it; work on other streams is not measured. Work that
/// does not run, or fails while it runs, eliminates its candidate with that failure, on every backend: its time does
/// not count, it cannot win, and it is not stored. Whether the data is correct is checked by
/// [`TunableSet::settled`](crate::TunableSet::settled) and
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
    pending: Option<Pending<Profile>>,
    /// Filled between samples, to evict caches.
    eviction_buffer: Option<Handle<u8>>,
    clock: String,
}

impl StreamClock {
    /// Creates a measure with the clock of this stream's device.
    pub fn new(stream: &Stream) -> Self {
        Self {
            stream: stream.clone(),
            pending: None,
            eviction_buffer: None,
            clock: "the device's clock".to_owned(),
        }
    }

    /// Fills this many bytes of device memory before each sample. Twice the size of the device's caches evicts all
    /// data of the sample before.
    ///
    /// # Errors
    /// If the device has no memory for the buffer.
    pub fn evicting(mut self, bytes: usize) -> Result<Self, Error> {
        let room = self.stream.empty::<u8>(bytes)?;
        self.stream.fill(&room, 0_u8)?;
        self.eviction_buffer = Some(room);
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
                "{untimed} of {tasks} tasks failed on the device, or have no times"
            )));
        }
        if profile.tasks == 0 {
            return Err(Failure::new(
                "the candidate submitted no work to the measured stream",
            ));
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
        self.pending = Some(profile);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        let Some(mut profile) = self.pending.take() else {
            return Err(Failure::new("no measurement is in progress"));
        };
        match profile.try_take() {
            Some(profile) => self.time(profile).map(Some),
            None => {
                self.pending = Some(profile);
                Ok(None)
            }
        }
    }

    fn wait(&mut self) -> Result<Duration, Failure> {
        match self.pending.take() {
            Some(profile) => self.time(profile.wait()),
            None => Err(Failure::new("no measurement is in progress")),
        }
    }

    fn evict(&mut self) -> Result<(), Failure> {
        match &self.eviction_buffer {
            Some(room) => self.stream.fill(room, 1_u8).map_err(Failure::new),
            None => Ok(()),
        }
    }
}
