//! What a launch does on both devices: nothing, except count, and what a marker asks for.
//!
//! Both no-op devices call [`launched`] for each launch, so neither pays more than the other.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::instruments::callgrind;

/// What a launch means to the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// An ordinary launch.
    None,
    /// Begins collecting instructions on the device's thread, once released.
    BeginCounting,
    /// Ends collecting instructions on the device's thread.
    EndCounting,
    /// Panics, with [`PANIC_MESSAGE`].
    Panic,
}

/// What [`Mark::Panic`] panics with.
pub(crate) const PANIC_MESSAGE: &str = "this kernel panics on purpose";

static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static STAMPING: AtomicBool = AtomicBool::new(false);
static STARTED_NS: AtomicU64 = AtomicU64::new(0);
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The device's side of a launch.
#[inline]
pub(crate) fn launched(mark: Mark) {
    match mark {
        Mark::None => {}
        Mark::BeginCounting => return callgrind::begin_when_released(),
        Mark::EndCounting => return callgrind::toggle(),
        Mark::Panic => panic!("{PANIC_MESSAGE}"),
    }
    // Relaxed: only a switch, set long before the launches that it is meant for.
    if STAMPING.load(Ordering::Relaxed) {
        STARTED_NS.store(now_ns(), Ordering::Relaxed);
    }
    // A load and a store: one thread at a time launches. Release publishes the stamp.
    LAUNCHES.store(LAUNCHES.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Launches that the device has begun since the process started.
pub(crate) fn launches() -> u64 {
    // Acquire pairs with the Release in `launched`.
    LAUNCHES.load(Ordering::Acquire)
}

/// From now on each launch notes when it began.
pub(crate) fn stamp_launches() {
    LazyLock::force(&EPOCH);
    STAMPING.store(true, Ordering::Relaxed);
}

/// When the launch that [`launches`] last counted began, in [`now_ns`]'s terms.
pub(crate) fn started_ns() -> u64 {
    STARTED_NS.load(Ordering::Relaxed)
}

/// Nanoseconds since the first time that anybody asked.
pub(crate) fn now_ns() -> u64 {
    EPOCH.elapsed().as_nanos() as u64
}
