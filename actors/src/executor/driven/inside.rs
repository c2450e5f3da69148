//! The mark of the thread that is inside a driven device.

use millstream_sync::thread_flag;

thread_flag! {
    /// Whether the thread is inside a driven device, under its lock.
    Inside
}

/// Returns `true` if the calling thread is inside a driven device.
pub(crate) fn is_inside() -> bool {
    Inside::get()
}

/// Marks the thread as inside the device until dropped.
pub(super) struct InsideMark;

impl InsideMark {
    pub(super) fn enter() -> Self {
        Inside::set(true);
        Self
    }
}

impl Drop for InsideMark {
    fn drop(&mut self) {
        Inside::set(false);
    }
}
