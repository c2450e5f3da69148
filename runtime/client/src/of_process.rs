//! Values that a forked child does not drop: a thread of the parent may have held a lock that their drop takes.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use millstream_protocol::Process;

/// A value that is dropped in the process that made it, and leaked in a child that was forked since.
pub(crate) struct OfProcess<V> {
    value: ManuallyDrop<V>,
    process: Process,
}

impl<V> OfProcess<V> {
    pub(crate) fn new(value: V) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: Process::current(),
        }
    }

    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }
}

impl<V> Deref for OfProcess<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

impl<V> DerefMut for OfProcess<V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.value
    }
}

impl<V> Drop for OfProcess<V> {
    fn drop(&mut self) {
        if !self.is_forked() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

#[cfg(all(test, unix, not(any(miri, loom, shuttle))))]
pub(crate) mod tests {
    use super::*;

    /// Forks. Returns whether `child` returned `true` in the child, within a minute.
    pub(crate) fn in_child(child: impl FnOnce() -> bool) -> bool {
        let mut status = 0;
        // SAFETY: the child takes no lock that another thread may have held, but the allocator's, which `fork` keeps usable. It
        // ends without the exit handlers, which are the parent's. If it hangs, the alarm ends it: no handler is set. The status
        // is a local.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::alarm(60);
                    libc::_exit(i32::from(!child()));
                }
                process => assert_eq!(libc::waitpid(process, &raw mut status, 0), process),
            }
        }
        status == 0
    }

    /// I5: the drop of a value, which may wait for a lock, does not run in a forked child.
    #[test]
    fn forked_child_does_not_drop_the_value_i5() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let mut value = Some(OfProcess::new(sender));
        let is_open = || receiver.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty);
        assert!(in_child(|| {
            drop(value.take());
            is_open()
        }));
        drop(value.take());
        assert!(!is_open());
    }
}
