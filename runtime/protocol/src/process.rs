//! Detects that the process was forked.
//!
//! A child has the memory of its parent, but only the thread that called `fork`: the threads of a device, and the
//! state of its driver, stay behind. So each device remembers the process that opened it, and every call compares it:
//! one load.
//! `fork` itself counts, through a handler in the child that is registered when the first device is opened.
//!
//! Only `fork` counts, in all languages. A child of `posix_spawn`, of the system call itself, or of `vfork` runs no
//! handler; such children call `exec` at once. Where there is no `fork`, nothing is compared.
//!
//! A comparison of process ids needs no handler, but `getpid` is a system call: 350 ns instead of 0.6 for each call
//! (the machine of CI).

/// The process that opened a device.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    #[cfg(all(unix, not(any(miri, loom, shuttle))))]
    forks: u32,
}

#[cfg(not(all(unix, not(any(miri, loom, shuttle)))))]
impl Process {
    /// Returns the calling process.
    pub fn current() -> Self {
        Self {}
    }

    /// Returns `true`: there is no `fork`.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        true
    }
}

#[cfg(all(unix, not(any(miri, loom, shuttle))))]
mod forks {
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Process;

    /// The forks between the first process that opened a device and this one.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    /// Runs in the child, before `fork` returns there. It may do only what a signal handler may.
    unsafe extern "C" fn in_child() {
        // Relaxed: the child has one thread.
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    impl Process {
        /// Returns the calling process.
        pub fn current() -> Self {
            static REGISTER: Once = Once::new();
            REGISTER.call_once(|| {
                // SAFETY: the handler is a function of this library, and does what a signal handler may do. If the
                // library is unloaded, the system removes it.
                let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
                if refused != 0 {
                    tracing::warn!(
                        target: "millstream::device",
                        refused,
                        "forks cannot be observed: calls of a device in a forked child would wait for ever"
                    );
                }
            });
            Self {
                // Relaxed: as in `is_current`.
                forks: FORKS.load(Ordering::Relaxed),
            }
        }

        /// Returns `true` unless the calling process is a child that was forked since. Costs one load.
        #[inline(always)]
        pub fn is_current(self) -> bool {
            // Relaxed: it changes while the process has one thread.
            self.forks == FORKS.load(Ordering::Relaxed)
        }
    }
}

#[cfg(all(test, unix, not(any(miri, loom, shuttle))))]
pub(crate) mod tests {
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
}
