//! What the calling thread is to the runtime: a thread that a device needs, one that runs user code, or any other.

use millstream_sync::thread_flag;

thread_flag! {
    /// Does a device need the thread?
    Marked
}

thread_flag! {
    /// Does the thread, which is marked, run user code outside of the device?
    InUserCode
}

/// Marks the calling thread as one that a device needs to make progress: blocking calls on it answer
/// `WouldDeadlock` until the mark is dropped. For the threads of actors and backends.
pub fn mark_runtime_thread() -> RuntimeThread {
    RuntimeThread::mark(false)
}

/// As [`mark_runtime_thread`], for a thread that runs host functions and callbacks. Answers, and room that other user
/// code may have to give back, need the thread, so it must not wait for those. The mailbox does not need it: what takes
/// messages never waits for user code. So a send on the thread may wait for room in the mailbox.
pub fn mark_user_code() -> RuntimeThread {
    RuntimeThread::mark(true)
}

/// Does the calling thread run user code for a device, outside of the device: see [`mark_user_code`]?
pub fn runs_user_code() -> bool {
    InUserCode::get()
}

/// Does a device need the calling thread to make progress?
pub fn is_runtime_thread() -> bool {
    Marked::get()
}

/// The mark of [`mark_runtime_thread`] or [`mark_user_code`]. It is undone when this is dropped, on the same thread.
#[must_use = "the mark is undone when this is dropped"]
pub struct RuntimeThread {
    was_marked: bool,
    was_in_user_code: bool,
}

impl RuntimeThread {
    fn mark(user_code: bool) -> Self {
        Self {
            was_marked: Marked::replace(true),
            was_in_user_code: InUserCode::replace(user_code),
        }
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        Marked::set(self.was_marked);
        InUserCode::set(self.was_in_user_code);
    }
}
