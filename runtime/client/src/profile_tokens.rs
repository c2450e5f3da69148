//! What tells the tokens of profiles apart: of which device of the process they are, and a number in its epoch.

use std::sync::atomic::{AtomicU64, Ordering};

/// Devices of this process that were opened, for tokens to tell them apart.
static DEVICES: AtomicU64 = AtomicU64::new(0);

/// The tokens of one epoch of a device.
pub(crate) struct Tokens {
    /// Which device of this process, in all of its epochs.
    pub(crate) device: u64,
    next: AtomicU64,
}

impl Tokens {
    /// Of another epoch of the device that had these, or of one that was not there before.
    pub(crate) fn after(before: Option<&Self>) -> Self {
        // Relaxed, here and below: only that numbers differ matters.
        let device = before.map(|before| before.device);
        Self {
            device: device.unwrap_or_else(|| DEVICES.fetch_add(1, Ordering::Relaxed)),
            next: AtomicU64::new(0),
        }
    }

    /// The number of the next token.
    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}
