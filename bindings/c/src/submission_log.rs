//! Submission logs: what a device has accepted, to be saved and run again on any device.

use std::ffi::c_void;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millstream::journal::RESUBMITTED_TASKS_MAX;
use millstream::journal::{LogError, LoggedReadback, ReplayError, SubmissionLog};

use crate::client::ms_client;
use crate::device::ms_device;
use crate::exclusive::unless_busy;
use crate::handles::{destroy, get, give, handles_of, objects};
use crate::kernel::ms_kernel;
use crate::pending::deliver;
use crate::sized::{User, bytes as bytes_of, give_bytes, sized, write_struct};
use crate::status::{Answer, Fault, ensure, exports, ms_status, write};

/// What a device accepted, in order: a part of its log, or several parts that were appended. Any thread may use it; a
/// call that changes it answers `MS_STATUS_BUSY` while another thread is inside, and so does any call meanwhile.
pub struct ms_submission_log(Arc<RwLock<SubmissionLog>>);

objects!(ms_submission_log: 12);

/// Properties of a submission log.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_submission_log_info {
    /// `sizeof(ms_submission_log_info)`. Set it before the call.
    pub size: u32,
    /// 1 if it has everything that the device accepted. 0 if the log was full: the last entries are missing.
    pub is_complete: u32,
    /// The number of entries.
    pub entries: u64,
    /// Their encoded size in bytes.
    pub bytes: u64,
    /// The number of its first part, from 0. Each `ms_device_take_log` is a part.
    pub first_part: u32,
    /// The number of its last part.
    pub last_part: u32,
}

sized!(ms_submission_log_info: 32);

/// Receives a readback of a log that is resubmitted: `MS_STATUS_OK` with the bytes, which are valid until it returns, or
/// why the data failed; `ms_last_error` then has the text. Readbacks arrive in the order in which they were requested,
/// on the thread that resubmits. It must not throw or unwind.
pub type ms_readback_fn = Option<
    unsafe extern "C" fn(status: ms_status, data: *const c_void, bytes: usize, user: *mut c_void),
>;

const BUSY: &str = "another call uses this submission log";

fn read(log: &RwLock<SubmissionLog>) -> Answer<RwLockReadGuard<'_, SubmissionLog>> {
    unless_busy(log.try_read(), BUSY)
}

fn change(log: &RwLock<SubmissionLog>) -> Answer<RwLockWriteGuard<'_, SubmissionLog>> {
    unless_busy(log.try_write(), BUSY)
}

fn new(log: SubmissionLog) -> ms_submission_log {
    ms_submission_log(Arc::new(RwLock::new(log)))
}

exports! {
    /// Takes what the device has accepted since the last call, as the next part of its log. The device was opened with
    /// `log_submissions`. Blocks for one round trip to the device.
    ///
    /// Errors: `UNSUPPORTED` if the device has no log; `LOST` if the device was lost and its log was taken after that.
    fn ms_device_take_log(device: *const ms_device, out: *mut *mut ms_submission_log) {
        give(out, || Ok(new(get(device)?.0.clone().take_log()?)))
    }

    /// Reads a log from the bytes that `ms_submission_log_encode` wrote. Never blocks.
    ///
    /// Errors: `INVALID_ARGUMENT` if the bytes are no log, or damaged; `UNSUPPORTED` if another version of the library
    /// wrote them.
    fn ms_submission_log_decode(
        data: *const c_void, bytes: usize, out: *mut *mut ms_submission_log,
    ) {
        give(out, || Ok(new(SubmissionLog::read_from(bytes_of(data, bytes)?)?)))
    }

    /// Copies a log in its file format to `buffer`. `needed`, if it is not NULL, receives the bytes that it takes.
    /// Never blocks.
    ///
    /// Errors: `TOO_SMALL`: `capacity` is less than `needed`; `buffer` may be NULL if `capacity` is 0.
    fn ms_submission_log_encode(
        log: *const ms_submission_log, buffer: *mut c_void, capacity: usize, needed: *mut usize,
    ) {
        let mut file = Vec::new();
        read(&get(log)?.0)?.write_to(&mut file)?;
        give_bytes(&file, "log", buffer, capacity, needed)
    }

    /// Reports the properties of a log. Never blocks.
    fn ms_submission_log_get_info(log: *const ms_submission_log, out: *mut ms_submission_log_info) {
        let log = read(&get(log)?.0)?;
        write_struct(out, &ms_submission_log_info {
            size: 0, is_complete: log.is_complete().into(), entries: log.len(), bytes: log.size(),
            first_part: *log.parts().start(), last_part: *log.parts().end(),
        })
    }

    /// Appends the next part of a device's log. Never blocks.
    ///
    /// Errors: `INVALID_ARGUMENT` if `next` is not the next part, or `log` is not complete.
    fn ms_submission_log_append(log: *const ms_submission_log, next: *const ms_submission_log) {
        let (log, next) = (&get(log)?.0, &get(next)?.0);
        ensure!(!Arc::ptr_eq(log, next), "a log cannot be appended to itself");
        Ok(change(log)?.append(&*read(next)?)?)
    }

    /// Marks a log whose last entries are missing as complete, so that `ms_resubmit` runs what it has. Never blocks.
    fn ms_submission_log_accept_cut(log: *const ms_submission_log) {
        change(&get(log)?.0)?.accept_cut();
        Ok(())
    }

    /// Destroys the handle of a log. Never blocks. NULL is fine.
    fn ms_submission_log_destroy(log: *mut ms_submission_log) {
        destroy(log)
    }

    /// Runs the tasks of a log again on the client's device, which may be of another kind than the one that was logged,
    /// and passes each readback to `readback`, which may be NULL. `kernels` are found by their names and signatures.
    /// Blocks until the last readback has arrived; pumps a driven device meanwhile.
    ///
    /// Nothing is submitted if the log has more than `tasks_max` tasks; 0 is the default, 2^30. A replay counts as the
    /// tasks of its recording, so that a small log may have very many: choose a lower maximum for a log that is not
    /// trusted.
    ///
    /// `digest`, if it is not NULL, receives a digest of all readbacks: two runs that read the same bytes have the same
    /// one. They do, if kernels are functions of their arguments and no task reads bytes that no task has written. A
    /// readback that fails is no error of this call.
    ///
    /// Errors: `TOO_LARGE` if the log has more tasks; `INVALID_ARGUMENT` if it is not complete, does not begin with the
    /// first part, or launches a kernel that is not among `kernels`; `UNSUPPORTED` if code that is not in the log may
    /// have written data.
    fn ms_resubmit(
        client: *const ms_client, log: *const ms_submission_log, kernels: *const *const ms_kernel,
        kernel_count: usize, tasks_max: u64, readback: ms_readback_fn, user: *mut c_void,
        digest: *mut u64,
    ) {
        // Clones, so that `readback` may destroy any handle.
        let (client, log) = (get(client)?.0.clone(), get(log)?.0.clone());
        let kernels = handles_of(kernels, kernel_count, |kernel| kernel.handle.clone())?;
        let log = read(&log)?;
        let user = User(user);
        let tasks_max = if tasks_max == 0 { RESUBMITTED_TASKS_MAX } else { tasks_max };
        let each = |read: LoggedReadback| {
            if let Some(readback) = readback {
                // The caller's function, with the argument that it was passed for.
                deliver(readback, user, read.bytes);
            }
        };
        let read = client.resubmit_at_most(tasks_max, &log, &kernels, each)?;
        match digest.is_null() {
            true => Ok(()),
            false => write(digest, read.number()),
        }
    }
}

impl From<LogError> for Fault {
    fn from(error: LogError) -> Self {
        let status = match error {
            LogError::Version { .. } => ms_status::Unsupported,
            _ => ms_status::InvalidArgument,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ReplayError> for Fault {
    fn from(error: ReplayError) -> Self {
        let text = crate::wording::text_of_replay(&error);
        let status = match error {
            ReplayError::Gap { .. } => ms_status::Unsupported,
            ReplayError::TooManyTasks { .. } => ms_status::TooLarge,
            ReplayError::Refused { error, .. } => Self::from(error).status,
            _ => ms_status::InvalidArgument,
        };
        Self::new(status, text)
    }
}
