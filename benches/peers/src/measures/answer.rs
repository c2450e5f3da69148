//! Measures waiting for the device: sync, read, and the time from a submission to its start.

use std::time::Duration;

use super::{Effort, Figures, took};
use crate::contender::Contender;
use crate::noop;
use millstream_harness::quantile;

/// An idle time after which every device thread sleeps.
pub(crate) const IDLE: Duration = Duration::from_millis(5);

/// The number of requests to a busy device.
const BUSY_ASKS: usize = 5000;
/// The number of requests to a device that idles before each of them.
pub(crate) const IDLE_ASKS: usize = 200;

/// Calls `ask`, which returns microseconds, `count` times. Returns `p50_us` and `p99_us`.
pub(crate) fn distribution(count: usize, mut ask: impl FnMut() -> f64) -> Figures {
    let times: Vec<f64> = (0..count).map(|_| ask()).collect();
    vec![
        ("p50_us", quantile(&times, 0.5)),
        ("p99_us", quantile(&times, 0.99)),
    ]
}

/// Returns how long `work` takes, in microseconds.
pub(crate) fn microseconds(work: impl FnOnce()) -> f64 {
    took(work).as_nanos() as f64 / 1e3
}

/// Measures syncs, one after the other.
pub(crate) fn sync_busy<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    contender.sync();
    distribution(effort.count(BUSY_ASKS), || {
        microseconds(|| contender.sync())
    })
}

/// Measures reads of four bytes, one after the other.
pub(crate) fn read_busy<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    let buffer = contender.create(&[1, 2, 3, 4]);
    contender.sync();
    distribution(effort.count(BUSY_ASKS), || {
        microseconds(|| drop(contender.read(&buffer)))
    })
}

/// Measures a sync after the device has idled.
pub(crate) fn sync_idle<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    contender.sync();
    distribution(effort.count(IDLE_ASKS), || {
        std::thread::sleep(IDLE);
        microseconds(|| contender.sync())
    })
}

/// Measures the time from before a launch to its start on a device that has just answered a sync.
pub(crate) fn start_awake<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    noop::stamp_launches();
    distribution(effort.count(BUSY_ASKS), || until_started(&contender))
}

/// Measures the time from before a launch to its start on a device that has idled.
pub(crate) fn start_parked<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    noop::stamp_launches();
    distribution(effort.count(IDLE_ASKS), || {
        std::thread::sleep(IDLE);
        until_started(&contender)
    })
}

/// Returns the microseconds from before a launch to its start, including the flush that it may need.
fn until_started<C: Contender>(contender: &C) -> f64 {
    let before = noop::launches();
    let begin = noop::now_ns();
    contender.launch();
    contender.flush();
    while noop::launches() == before {
        std::thread::yield_now();
    }
    let took = noop::started_ns().saturating_sub(begin) as f64 / 1e3;
    contender.sync();
    took
}
