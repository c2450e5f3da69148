//! Profiles: the times of the tasks between two calls.

use std::ffi::{CString, c_char};
use std::time::Duration;

use millstream::report::{ClockSource, Profile, ProfileToken};
use millstream::{ComputeClient, Error, Pending};

use crate::client::ms_client;
use crate::device::ms_device;
use crate::exclusive::Exclusive;
use crate::handles::{destroy, get, give, handles_of, objects};
use crate::pending::{Kept, Take, timeout_of};
use crate::sized::{give_text, sized, write_struct};
use crate::status::{Answer, Fault, c_text, exports, ms_status};
use crate::stream::{ms_stream, stream_of};

/// Measures the tasks that are added between its start and its end, whenever they run. Profiles may overlap: a task
/// counts in each that is open when it is added. Points, syncs, allocations and callbacks do not count. One thread at a
/// time may use it: a call while another thread is inside answers `MS_STATUS_BUSY`.
///
/// While a profile is open, the device reads its clock twice for each task, and on a GPU the tasks of a recording are
/// submitted one by one.
pub struct ms_profile(Exclusive<State>);

objects!(ms_profile: 11);

/// The clock of a profile's times.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_clock {
    /// A clock of the host.
    Host = 0,
    /// A clock of the device.
    Device = 1,
    /// The virtual time of `sim`.
    Virtual = 2,
}

/// What a profile measured. Times are in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_profile_summary {
    /// `sizeof(ms_profile_summary)`. Set it before the call.
    pub size: u32,
    /// 1 if the device stopped counting because the profile was full: more tasks may have run.
    pub is_cut: u32,
    /// From the start of the first task to the end of the last.
    pub elapsed_ns: u64,
    /// In which at least one task ran.
    pub busy_ns: u64,
    /// The most by which `busy_ns` may be too small. 0 unless queues overlap in thousands of separate intervals.
    pub busy_short_ns: u64,
    /// From the call that started the profile to the one that ended it, by the clock of the host.
    pub calls_ns: u64,
    /// The number of tasks.
    pub tasks: u64,
    /// Tasks without times: they failed or were withdrawn before they ran, or the device had no room for their times.
    pub untimed: u64,
    /// Tasks that failed while they ran, if the device times such tasks.
    pub failed: u64,
    /// The number of different names of tasks: the entries that `ms_profile_get_entry` gives.
    pub entries: u64,
    /// The `ms_clock` of `elapsed_ns`, `busy_ns` and the entries.
    pub clock: u32,
    /// 0.
    pub reserved: u32,
}

/// All tasks of one name in a profile. Times are in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_profile_entry {
    /// `sizeof(ms_profile_entry)`. Set it before the call.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The name of the kernel or of the operation, such as `fill`. Valid until the profile is destroyed.
    pub name: *const c_char,
    /// The number of tasks.
    pub tasks: u64,
    /// Those that have times.
    pub timed: u64,
    /// The sum of these times.
    pub total_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

sized!(ms_profile_summary: 80, ms_profile_entry: 56);

#[allow(clippy::large_enum_variant, reason = "one for each profile")]
enum State {
    Open(Open),
    /// The names of its entries, once they were asked for.
    Ended(Kept<Profile>, Vec<CString>),
}

/// A profile that was not ended. Dropping it ends it, so that the device stops measuring.
struct Open {
    end: End,
    /// Ends it at the drop, and waits for room: the calls of a stream may not, and an error would leave it open for ever.
    client: ComputeClient,
    /// `None` once it was ended.
    token: Option<ProfileToken>,
}

/// Ends a profile by what started it, which registers nothing at the device.
type End = Box<dyn Fn(ProfileToken) -> Pending<Profile> + Send>;

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            drop(self.client.end_profile(token));
        }
    }
}

impl State {
    fn end(&mut self) -> Answer<()> {
        let taken = || Fault::new(ms_status::Taken, "the profile was ended before");
        let State::Open(open) = self else {
            return Err(taken());
        };
        let token = open.token.ok_or_else(taken)?;
        let ended = (open.end)(token).submitted();
        if let Err(error @ (Error::Busy { .. } | Error::NoRoomHere { .. })) = ended {
            // The profile stays open.
            return Err(error.into());
        }
        open.token = None;
        let (kept, answer) = match ended.map_err(Fault::from) {
            Ok(pending) => (Kept::Waiting(pending), Ok(())),
            Err(fault) => (Kept::Arrived(Err(fault.clone())), Err(fault)),
        };
        *self = State::Ended(kept, Vec::new());
        answer
    }

    /// Returns the result, if it has arrived by `take`, and the place for the names of its entries.
    fn measured(&mut self, take: Take) -> Answer<(&Profile, &mut Vec<CString>)> {
        match self {
            State::Ended(kept, names) => Ok((kept.value(take)?, names)),
            State::Open(..) => Err(Fault::argument(
                "the profile was not ended; call `ms_profile_end` first",
            )),
        }
    }
}

fn started(
    token: ProfileToken,
    client: ComputeClient,
    end: impl Fn(ProfileToken) -> Pending<Profile> + Send + 'static,
) -> ms_profile {
    let (end, token) = (Box::new(end), Some(token));
    let state = State::Open(Open { end, client, token });
    ms_profile(Exclusive::new(state, "another call uses this profile"))
}

exports! {
    /// Starts a profile of all tasks that any thread adds to the stream from now on. May block while the device's
    /// mailbox is full.
    fn ms_stream_start_profile(stream: *const ms_stream, out: *mut *mut ms_profile) {
        give(out, || {
            let stream = stream_of(stream)?;
            let token = stream.start_profile()?;
            let client = stream.client().clone();
            Ok(started(token, client, move |token| stream.end_profile(token)))
        })
    }

    /// Starts a profile of all tasks that are added to the client's streams from now on. If `count` is not 0: to these
    /// streams alone, which may be of any clients of the device. May block while the device's mailbox is full.
    fn ms_client_start_profile(
        client: *const ms_client, streams: *const *const ms_stream, count: usize,
        out: *mut *mut ms_profile,
    ) {
        give(out, || {
            let client = get(client)?.0.clone();
            let streams = handles_of(streams, count, |stream| stream.stream.clone())?;
            let token = match streams.is_empty() {
                true => client.start_profile()?,
                false => client.start_profile_of(&streams)?,
            };
            Ok(started(token, client.clone(), move |token| client.end_profile(token)))
        })
    }

    /// Starts a profile of all tasks that are added to any stream of the device from now on. May block while the
    /// device's mailbox is full.
    fn ms_device_start_profile(device: *const ms_device, out: *mut *mut ms_profile) {
        give(out, || {
            let device = get(device)?.0.clone();
            let token = device.start_profile()?;
            // Not the device, whose last reference closes it.
            let client = device.new_client();
            Ok(started(token, client.clone(), move |token| client.end_profile(token)))
        })
    }

    /// Ends a profile: tasks that are added later do not count. May block while the device's mailbox is full.
    ///
    /// Errors: `TAKEN` if it was ended before; `BUSY` if its stream does not block.
    fn ms_profile_end(profile: *const ms_profile) {
        get(profile)?.0.clone().with(State::end)
    }

    /// Answers `MS_STATUS_PENDING` until the tasks of an ended profile have completed. Never blocks, and does not pump
    /// a driven device.
    fn ms_profile_poll(profile: *const ms_profile) {
        get(profile)?.0.clone().with(|state| state.measured(Take::IfArrived).map(drop))
    }

    /// Blocks until the tasks of an ended profile have completed, but not longer than `timeout_ns`, which may be
    /// `MS_FOREVER`. Pumps a driven device meanwhile.
    ///
    /// Errors: `INVALID_ARGUMENT` if the profile was not ended; `TIMED_OUT`: call again; `WOULD_DEADLOCK` in a
    /// callback.
    fn ms_profile_wait(profile: *const ms_profile, timeout_ns: u64) {
        let take = Take::Within(timeout_of(timeout_ns));
        get(profile)?.0.clone().with(|state| state.measured(take).map(drop))
    }

    /// Reports what an ended profile measured. Never blocks.
    ///
    /// Errors: `PENDING` until its tasks have completed; `INVALID_ARGUMENT` if it was not ended.
    fn ms_profile_get_summary(profile: *const ms_profile, out: *mut ms_profile_summary) {
        get(profile)?.0.clone().with(|state| {
            let (profile, _) = state.measured(Take::IfArrived)?;
            let clock = match profile.busy.clock {
                ClockSource::Device { .. } => ms_clock::Device,
                ClockSource::Virtual => ms_clock::Virtual,
                _ => ms_clock::Host,
            };
            write_struct(out, &ms_profile_summary {
                size: 0, reserved: 0, is_cut: profile.is_cut.into(), clock: clock as u32,
                elapsed_ns: nanoseconds(profile.elapsed.duration),
                busy_ns: nanoseconds(profile.busy.duration),
                busy_short_ns: nanoseconds(profile.busy_short),
                calls_ns: nanoseconds(profile.calls.duration), tasks: profile.tasks,
                untimed: profile.untimed, failed: profile.failed,
                entries: profile.kernels.len() as u64,
            })
        })
    }

    /// Reports the tasks of one name, from 0, those with the longest total first. Never blocks.
    ///
    /// Errors: as `ms_profile_get_summary`; `INVALID_ARGUMENT` if there are fewer names.
    fn ms_profile_get_entry(profile: *const ms_profile, index: usize, out: *mut ms_profile_entry) {
        get(profile)?.0.clone().with(|state| {
            let (profile, names) = state.measured(Take::IfArrived)?;
            if names.is_empty() {
                names.extend(profile.kernels.iter().map(|entry| c_text(entry.name.to_string())));
            }
            let Some((tasks, name)) = profile.kernels.get(index).zip(names.get(index)) else {
                let count = names.len();
                let text = format!("the profile has {count} entries, got index {index}");
                return Err(Fault::argument(text));
            };
            write_struct(out, &ms_profile_entry {
                size: 0, reserved: 0, name: name.as_ptr(), tasks: tasks.tasks, timed: tasks.timed,
                total_ns: nanoseconds(tasks.total), min_ns: nanoseconds(tasks.min),
                max_ns: nanoseconds(tasks.max),
            })
        })
    }

    /// Copies a table of an ended profile, in UTF-8, and a NUL to `buffer`: a summary, a line for each name, and the
    /// first failure if there is one. `needed`, if it is not NULL, receives the bytes that it takes. Never blocks.
    ///
    /// Errors: as `ms_profile_get_summary`; `TOO_SMALL`: `capacity` is less than `needed`; `buffer` may be NULL if
    /// `capacity` is 0.
    fn ms_profile_get_text(
        profile: *const ms_profile, buffer: *mut c_char, capacity: usize, needed: *mut usize,
    ) {
        get(profile)?.0.clone().with(|state| {
            let (profile, _) = state.measured(Take::IfArrived)?;
            let mut text = profile.to_string();
            if let Some(failure) = &profile.failure {
                text += &format!("{} tasks failed, the first: {failure}\n", profile.failed);
            }
            give_text(&text, buffer, capacity, needed)
        })
    }

    /// Destroys the handle of a profile, and ends the profile if it is open: then it may block while the device's
    /// mailbox is full. NULL is fine.
    fn ms_profile_destroy(profile: *mut ms_profile) {
        destroy(profile)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
