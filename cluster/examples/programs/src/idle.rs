//! Kernels in the scheduling class `idle` of Linux: all other threads preempt them at once.
//!
//! A device's own threads need a core for microseconds when a kernel ends or halos arrive. If kernels occupy all cores, Linux
//! lets such a thread wait for the end of a time slice, some milliseconds, unless the kernels' class is lower.

use millstream::device::{ThreadBody, ThreadRole};

/// Starts a thread of a device; one that runs kernels gets the class `idle`. Elsewhere than on Linux it does not.
pub fn spawn(body: ThreadBody) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name(body.name().to_owned());
    let is_kernels = matches!(body.role(), ThreadRole::Queue | ThreadRole::Cubes);
    let run = move || {
        if is_kernels {
            enter_idle_class();
        }
        body.run();
    };
    thread.spawn(run).map(drop)
}

#[cfg(target_os = "linux")]
fn enter_idle_class() {
    // SAFETY: zeros are a valid parameter, and the call changes this thread alone. An error leaves its class.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter);
    }
}

#[cfg(not(target_os = "linux"))]
fn enter_idle_class() {}
