//! What the system says of this process: its memory, its threads, and whether somebody asked it to stop.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of the process in memory, where the system says so.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Threads of the process, where the system says so.
pub(crate) fn threads() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// Ctrl-C from here on sets `stop`; a second one ends the process as ever.
pub(crate) fn stop_on_interrupt(stop: &Arc<AtomicBool>) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM] {
        // In this order: the process ends only if the flag was set by an earlier one. A system that refuses
        // leaves Ctrl-C as it was.
        let _ = signal_hook::flag::register_conditional_default(signal, stop.clone());
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_says_how_large_a_process_is() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(threads().unwrap() >= 1);
    }
}
