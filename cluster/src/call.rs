//! A call of a collective: where the parts of its devices meet, or where the part of a rank meets its network.
//!
//! ```text
//!  device 0: external task ── its data is ready ──►┐
//!  device 1: external task ── its data is ready ──►├─ the last one moves the bytes ──► all tasks complete
//!  device 2: external task ── cannot begin ───────►┘  or, with one failure, all tasks fail with it
//! ```
//! Until then each device holds back the tasks that conflict with its part, and runs all others. No thread waits. Between
//! CUDA devices the last one hands the call to the thread of its group (`gpu`).
//!
//! Each device begins its part on the thread that runs the device: its own, or a caller that steps in. That thread moves the
//! bytes of a small call itself, since a wake of another thread would take longer. The caller of a larger call moves its
//! bytes, after it has left the device, if the last part arrives while it submits it; a thread for user code moves those of
//! others. The lock of a call is held for no call of a device or a network.

use std::sync::{Arc, Mutex};

use millstream::{Error, Failure, FailureRef, Reason, Stream};

use crate::ClusterError;
use crate::afterwards::{self, Work};
use crate::announcement::Announcement;
use crate::gpu::{Arrived, Gpus, Transfer};
use crate::lock;
use crate::network::{Network, NetworkPart};
use crate::part::{Buffers, Part, Rest, fail_all, memory};

/// The most bytes, of all parts, that the thread that runs a device moves itself: it takes no longer than the wake of a
/// thread for user code would.
const AT_ONCE_BYTES_MAX: u64 = 512 << 10;

/// The most bytes, of all parts, that a caller moves at the end of its own call. It steps in only if it is expected to
/// wait, and then a wake of another thread would take as long as the movement of 1 MiB. If it does not wait, the call
/// returns late by the movement: at most half a millisecond on the machine of `benches/RESULTS.md`.
const BY_CALLER_BYTES_MAX: u64 = 8 << 20;

/// A call, shared by its parts.
pub(crate) struct Call {
    pub(crate) what: Announcement,
    course: Course,
    state: Mutex<State>,
}

/// What happens to the parts once all of this process have arrived.
pub(crate) enum Course {
    /// The last thread moves their bytes, of this number in all.
    Here(u64),
    /// The bytes move between CUDA devices, which are these members of the group.
    Gpus(Arc<Gpus>, Transfer, Box<[usize]>),
    /// The network moves the bytes of the parts, which are one to it, with this ticket.
    Network(Arc<dyn Network>, u64),
}

/// The thread that goes on with a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunsOn {
    /// The thread that runs the device of the last part.
    Here,
    /// That thread once it has left the device, if it submits this call; otherwise a thread for user code.
    Caller,
    /// A thread for user code.
    UserCode,
}

/// The parts that have arrived.
struct State {
    parts: Vec<Option<Part>>,
    missing: usize,
    /// The first failure of a part.
    failure: Option<FailureRef>,
}

/// The part of one member before its data is ready.
struct Arrival {
    call: Arc<Call>,
    /// Its place among the parts.
    place: usize,
    arrived: bool,
}

impl Call {
    pub(crate) fn new(what: Announcement, course: Course, parts: usize) -> Arc<Self> {
        Arc::new(Self {
            what,
            course,
            state: Mutex::new(State {
                parts: (0..parts).map(|_| None).collect(),
                missing: parts,
                failure: None,
            }),
        })
    }

    /// Submits the part of one member. If its device refuses it, the other parts fail.
    pub(crate) fn submit(
        self: &Arc<Self>,
        place: usize,
        (member, stream): (usize, &Stream),
        buffers: &Buffers<'_>,
    ) -> Result<(), ClusterError> {
        let arrival = Arrival {
            call: self.clone(),
            place,
            arrived: false,
        };
        afterwards::submits(Arc::as_ptr(self));
        let arrive = |begun| arrival.arrive(begun);
        let submitted = Part::submit(&self.what, stream, buffers, arrive);
        // The drop of the uncalled function has failed the other parts.
        submitted.map_err(|source| ClusterError::Refused {
            call: self.what.name,
            member,
            source,
        })
    }

    /// The data of a member is ready. The last one moves the bytes, here or in the rest that is returned.
    fn arrive(self: &Arc<Self>, place: usize, part: Part) -> Rest {
        let mut state = lock(&self.state);
        if let Some(cause) = state.failure.clone() {
            drop(state);
            part.fail_by(cause);
            return None;
        }
        state.parts[place] = Some(part);
        state.missing -= 1;
        if state.missing > 0 {
            return None;
        }
        let parts = std::mem::take(&mut state.parts);
        drop(state);
        let parts: Vec<Part> = parts.into_iter().flatten().collect();
        let runs_on = self.thread_for(&parts);
        if runs_on == RunsOn::Here {
            self.go_on(parts);
            return None;
        }
        let call = self.clone();
        let rest: Work = Box::new(move || call.go_on(parts));
        match runs_on {
            RunsOn::Caller => afterwards::keep(Arc::as_ptr(self), rest),
            _ => Some(rest),
        }
    }

    /// Returns the thread that goes on with the call, whose parts have arrived.
    fn thread_for(&self, parts: &[Part]) -> RunsOn {
        match &self.course {
            Course::Here(bytes) if parts.iter().all(Part::ends_at_once) => {
                if *bytes <= AT_ONCE_BYTES_MAX {
                    RunsOn::Here
                } else if *bytes <= BY_CALLER_BYTES_MAX {
                    RunsOn::Caller
                } else {
                    RunsOn::UserCode
                }
            }
            Course::Gpus(..) => RunsOn::Here,
            Course::Network(network, ..) if network.begins_at_once() && parts.len() == 1 => {
                RunsOn::Here
            }
            Course::Here(..) | Course::Network(..) => RunsOn::UserCode,
        }
    }

    /// Goes on once all parts have arrived.
    fn go_on(&self, mut parts: Vec<Part>) {
        match &self.course {
            Course::Here(_) => {
                let memory = memory(&mut parts);
                match memory.and_then(|mut memory| self.what.move_bytes(&mut memory)) {
                    Ok(()) => parts.into_iter().for_each(Part::complete),
                    Err(why) => fail_all(parts, &self.failure(Reason::Refused(why))),
                }
            }
            Course::Gpus(gpus, transfer, members) => gpus.begin(Arrived {
                name: self.what.name,
                transfer: *transfer,
                members: members.clone(),
                parts,
            }),
            Course::Network(network, ticket) => {
                network.begin(*ticket, NetworkPart::new(self.what, parts));
            }
        }
    }

    pub(crate) fn failure(&self, reason: Reason) -> FailureRef {
        Failure::not_run(&self.what.name.into(), reason)
    }

    /// Returns the failure that the other parts receive.
    fn failure_of(&self, error: Error) -> FailureRef {
        self.failure(match error {
            Error::Failed(failure) => return failure,
            Error::DeviceLost { .. } => Reason::Lost,
            Error::Closed => Reason::Closed,
            other => Reason::Refused(other.to_string()),
        })
    }

    /// Fails the call because its fleet is dropped, unless all parts have arrived.
    pub(crate) fn close(&self) {
        self.fail(self.failure(Reason::Closed));
    }

    /// A part cannot begin: all others fail with the same cause. Does nothing once all parts have arrived.
    pub(crate) fn fail(&self, cause: FailureRef) {
        let mut state = lock(&self.state);
        if state.failure.is_some() || state.missing == 0 {
            return;
        }
        state.failure = Some(cause.clone());
        let parts = std::mem::take(&mut state.parts);
        drop(state);
        if let Course::Network(network, ticket) = &self.course {
            network.begin(*ticket, Err(cause.clone()));
        }
        for part in parts.into_iter().flatten() {
            part.fail_by(cause.clone());
        }
    }
}

impl Arrival {
    /// The part can begin, or cannot. Returns what is left to do; nothing for a part that cannot begin.
    fn arrive(mut self, begun: Result<Part, Error>) -> Rest {
        self.arrived = true;
        match begun {
            Ok(part) => self.call.arrive(self.place, part),
            Err(error) => {
                self.call.fail(self.call.failure_of(error));
                None
            }
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if !self.arrived {
            self.call.close();
        }
    }
}
