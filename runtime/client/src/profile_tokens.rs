//! The identity of profile tokens: the device of the process that made them, and a number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of devices opened in this process, which identifies them in tokens.
static DEVICES: AtomicU64 = AtomicU64::new(0);

/// The token source of a device, in all its epochs.
pub(crate) struct Tokens {
    /// The number of the device in this process.
    pub(crate) device: u64,
    next: AtomicU64,
}

impl Tokens {
    /// Creates the source of a new device.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            // Relaxed, here and below: the numbers must only be distinct.
            device: DEVICES.fetch_add(1, Ordering::Relaxed),
            next: AtomicU64::new(0),
        })
    }

    /// Returns the number of the next token.
    pub(crate) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}
