//! Answers that arrive later.

use std::ffi::c_void;
use std::ptr::null;
use std::time::Duration;

use millstream::{Error, Pending};

use crate::exclusive::Exclusive;
use crate::handles::{destroy, get, objects};
use crate::sized::User;
use crate::status::{Answer, Fault, exports, ms_status, write};

/// An answer that arrives later. Poll it, wait for it, or give it a callback. One thread at a time may use it: a call
/// while another thread is inside answers `MS_STATUS_BUSY`.
///
/// The functions answer the status of the request: `MS_STATUS_OK`, or why it failed; and the same again in later calls.
pub struct ms_pending(Exclusive<State>);

objects!(ms_pending: 6);

/// A timeout that never elapses.
pub const MS_FOREVER: u64 = u64::MAX;

enum State {
    Bytes(Kept<Vec<u8>>),
    Unit(Kept<()>),
    /// A callback will receive it.
    Given,
}

/// Receives an answer, once: `MS_STATUS_OK` with the bytes, which are valid until it returns, or why the request failed;
/// `ms_last_error` then has the text. It must not throw or unwind.
///
/// It runs on a thread for callbacks, or on a driven device inside a call that pumps or waits. Calls that wait answer
/// `MS_STATUS_WOULD_DEADLOCK` there; calls that submit are fine.
pub type ms_ready_fn = Option<
    unsafe extern "C" fn(status: ms_status, data: *const c_void, bytes: usize, user: *mut c_void),
>;

/// Makes an answer of a request. An error of the request itself is returned at once.
pub(crate) fn bytes(pending: Pending<Vec<u8>>) -> Answer<ms_pending> {
    Ok(new(State::Bytes(Kept::Waiting(pending.submitted()?))))
}

pub(crate) fn unit(pending: Pending<()>) -> Answer<ms_pending> {
    Ok(new(State::Unit(Kept::Waiting(pending.submitted()?))))
}

fn new(state: State) -> ms_pending {
    ms_pending(Exclusive::new(
        state,
        "another call uses this pending answer",
    ))
}

impl State {
    /// Returns the bytes of the answer, if it has arrived by `take`.
    fn bytes(&mut self, take: Take) -> Answer<&[u8]> {
        match self {
            State::Bytes(kept) => Ok(kept.value(take)?),
            State::Unit(kept) => kept.value(take).map(|()| &[][..]),
            State::Given => {
                let text = "a callback receives the answer";
                Err(Fault::new(ms_status::Taken, text))
            }
        }
    }
}

/// How an answer is taken.
#[derive(Clone, Copy)]
pub(crate) enum Take {
    IfArrived,
    Within(Duration),
}

/// An answer, which is kept once it has arrived.
pub(crate) enum Kept<T> {
    Waiting(Pending<T>),
    Arrived(Answer<T>),
}

impl<T: Send + 'static> Kept<T> {
    /// Returns the answer, if it has arrived by `take`.
    pub(crate) fn value(&mut self, take: Take) -> Answer<&T> {
        if let Kept::Waiting(pending) = self {
            let arrived = match take {
                Take::IfArrived => pending.try_take(),
                Take::Within(timeout) => Some(pending.wait_timeout(timeout)),
            };
            match arrived {
                None => {}
                // The request continues.
                Some(Err(error @ (Error::TimedOut { .. } | Error::WouldDeadlock))) => {
                    return Err(error.into());
                }
                Some(answer) => *self = Kept::Arrived(answer.map_err(Fault::from)),
            }
        }
        match self {
            Kept::Waiting(_) => Err(Fault::new(ms_status::Pending, String::new())),
            Kept::Arrived(Ok(value)) => Ok(value),
            Kept::Arrived(Err(fault)) => Err(fault.clone()),
        }
    }
}

/// Passes bytes, or why they failed, to a function of the caller.
///
/// # Safety
/// The function may be called with this `user`.
pub(crate) unsafe fn deliver(
    function: unsafe extern "C" fn(ms_status, *const c_void, usize, *mut c_void),
    user: User,
    answer: Result<Vec<u8>, Error>,
) {
    let (status, bytes) = match answer {
        Ok(bytes) => (ms_status::Ok, bytes),
        Err(error) => (Fault::from(error).keep(), Vec::new()),
    };
    let data = match status {
        ms_status::Ok => bytes.as_ptr().cast(),
        _ => null(),
    };
    // SAFETY: the caller's promise.
    unsafe { function(status, data, bytes.len(), user.0) };
}

/// Returns a timeout in nanoseconds as a duration.
pub(crate) fn timeout_of(timeout_ns: u64) -> Duration {
    match timeout_ns {
        MS_FOREVER => Duration::MAX,
        timeout => Duration::from_nanos(timeout),
    }
}

exports! {
    /// Answers `MS_STATUS_PENDING` until the answer has arrived. Never blocks, and does not pump a driven device.
    fn ms_pending_poll(pending: *const ms_pending) {
        get(pending)?.0.clone().with(|state| state.bytes(Take::IfArrived).map(drop))
    }

    /// Blocks until the answer has arrived, but not longer than `timeout_ns`, which may be `MS_FOREVER`. Pumps a driven
    /// device meanwhile.
    ///
    /// Errors: `TIMED_OUT`: the request continues, so call again. `WOULD_DEADLOCK` in a callback.
    fn ms_pending_wait(pending: *const ms_pending, timeout_ns: u64) {
        let take = Take::Within(timeout_of(timeout_ns));
        get(pending)?.0.clone().with(|state| state.bytes(take).map(drop))
    }

    /// Gives the bytes of an answer of `ms_read` that has arrived. They are valid until the handle is destroyed. The
    /// answer of a sync has 0 bytes. Never blocks.
    ///
    /// Errors: `PENDING` if the answer has not arrived; why the request failed.
    fn ms_pending_data(pending: *const ms_pending, data: *mut *const c_void, bytes: *mut usize) {
        get(pending)?.0.clone().with(|state| {
            // The heap memory of the vector stays where it is until the state is dropped.
            let found = state.bytes(Take::IfArrived)?;
            write(bytes, found.len())?;
            write(data, found.as_ptr().cast())
        })
    }

    /// Has `ready` called with the answer, once, on any thread; see `ms_ready_fn`. Never blocks. The handle must still
    /// be destroyed, which does not cancel the call; other calls with it answer `MS_STATUS_TAKEN`.
    ///
    /// Errors: `BUSY` if the client has too many callbacks in flight, `CLOSED`; then `ready` is not called, and the
    /// answer stays. `TAKEN` if the answer was taken, by a poll, a wait, or a callback.
    fn ms_pending_on_ready(pending: *const ms_pending, ready: ms_ready_fn, user: *mut c_void) {
        let ready = ready.ok_or_else(|| Fault::argument("the callback is NULL"))?;
        let user = User(user);
        // The caller's function, with the argument that it was registered for.
        let call = move |answer| deliver(ready, user, answer);
        get(pending)?.0.clone().with(|state| {
            match state {
                State::Bytes(Kept::Waiting(pending)) => {
                    pending.try_on_ready(call).map_err(|back| back.error)?;
                }
                State::Unit(Kept::Waiting(pending)) => {
                    let call = move |answer: Result<(), Error>| call(answer.map(|()| Vec::new()));
                    pending.try_on_ready(call).map_err(|back| back.error)?;
                }
                _ => return Err(Error::Taken.into()),
            }
            *state = State::Given;
            Ok(())
        })
    }

    /// Destroys the handle of a pending answer, and the bytes that it gave. The work still runs. Never blocks. NULL is
    /// fine.
    fn ms_pending_destroy(pending: *mut ms_pending) {
        destroy(pending)
    }
}
