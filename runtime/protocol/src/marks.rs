//! The role of the calling thread: a thread that a device needs, one that runs user code for a device, or any other.

use millstream_sync::thread_flag;

thread_flag! {
    /// A device needs the thread to make progress.
    Marked
}

thread_flag! {
    /// The thread is marked, and runs user code outside of the device.
    InUserCode
}

/// Marks the calling thread as one that a device needs to make progress: blocking calls on it return `WouldDeadlock`
/// until the mark is dropped. For the threads of actors and backends.
pub fn mark_runtime_thread() -> RuntimeThread {
    RuntimeThread::mark(false)
}

/// Marks the calling thread as [`mark_runtime_thread`] does, for a thread that runs host functions and callbacks.
///
/// Such a thread must not wait for answers, nor for room that other user code gives back: both may need this thread.
/// Room in the mailbox does not, because the receiver of messages never waits for user code. So a send on this thread
/// may wait for room in the mailbox.
pub fn mark_user_code() -> RuntimeThread {
    RuntimeThread::mark(true)
}

/// Returns `true` if the calling thread runs user code for a device, outside of the device: see [`mark_user_code`].
pub fn runs_user_code() -> bool {
    InUserCode::get()
}

/// Returns `true` if a device needs the calling thread to make progress.
pub fn is_runtime_thread() -> bool {
    Marked::get()
}

/// The mark of [`mark_runtime_thread`] or [`mark_user_code`]. Dropping it, on the same thread, restores the previous
/// mark.
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
