//! A launch on the no-op devices: it counts itself, and carries out the request of a marker.
//!
//! Both no-op devices call [`launched`] for each launch, so neither pays more than the other.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::instruments::callgrind;

/// The marker of a launch, for the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// An ordinary launch.
    None,
    /// Begins collecting instructions on the device's thread, once released.
    BeginCounting,
    /// Ends collecting instructions on the device's thread.
    EndCounting,
}

static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static STAMPING: AtomicBool = AtomicBool::new(false);
static STARTED_NS: AtomicU64 = AtomicU64::new(0);
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Runs a launch on the device's side.
#[inline]
pub(crate) fn launched(mark: Mark) {
    match mark {
        Mark::None => {}
        Mark::BeginCounting => return callgrind::begin_when_released(),
        Mark::EndCounting => return callgrind::toggle(),
    }
    // Relaxed: a switch that is set long before the launches that it affects.
    if STAMPING.load(Ordering::Relaxed) {
        STARTED_NS.store(now_ns(), Ordering::Relaxed);
    }
    // A load and a store suffice, because one thread at a time launches. Release publishes the stamp.
    LAUNCHES.store(LAUNCHES.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Returns the number of launches that the device has begun since the process started.
pub(crate) fn launches() -> u64 {
    // Acquire pairs with the Release in `launched`.
    LAUNCHES.load(Ordering::Acquire)
}

/// Makes each launch from now on record when it began.
pub(crate) fn stamp_launches() {
    LazyLock::force(&EPOCH);
    STAMPING.store(true, Ordering::Relaxed);
}

/// Returns when the launch that [`launches`] counted last began, in time of [`now_ns`].
pub(crate) fn started_ns() -> u64 {
    STARTED_NS.load(Ordering::Relaxed)
}

/// Returns the nanoseconds since the first call.
pub(crate) fn now_ns() -> u64 {
    EPOCH.elapsed().as_nanos() as u64
}
