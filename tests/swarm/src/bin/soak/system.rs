//! The memory and threads of this process, and the signals that stop it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns the resident memory of the process, if the system reports it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns the number of threads of the process, if the system reports it.
pub(crate) fn threads() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// From now on Ctrl-C sets `stop`; a second Ctrl-C ends the process.
pub(crate) fn stop_on_interrupt(stop: &Arc<AtomicBool>) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first handler ends the process only if an earlier signal set the flag. If the system
        // refuses the handlers, Ctrl-C ends the process as by default.
        let _ = signal_hook::flag::register_conditional_default(signal, stop.clone());
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_reports_memory_and_threads() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(threads().unwrap() >= 1);
    }
}
