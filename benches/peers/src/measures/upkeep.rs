//! What the runtime's own threads cost while the device idles or has little to do.

use std::time::{Duration, Instant};

use super::{Effort, Figures};
use crate::contender::Contender;
use crate::instruments::processor;

/// How long either is watched, in full.
const WATCH_MS: usize = 3000;

/// Before an idle device is watched, it may settle for this long.
const SETTLE: Duration = Duration::from_millis(100);

/// Between two launches of a thousand a second.
const PERIOD: Duration = Duration::from_millis(1);

/// `cpu_percent` of a core and `wake_ups` a second of all threads but this one.
fn watched(work: impl FnOnce()) -> Figures {
    let time = processor::time_of_other_threads();
    let wake_ups = processor::wake_ups_of_other_threads();
    let begin = Instant::now();
    work();
    let took = begin.elapsed().as_secs_f64();
    // Two clocks, read one after the other: idle threads may come out below nothing.
    let time = processor::time_of_other_threads().saturating_sub(time);
    let time = time.as_secs_f64();
    let wake_ups = processor::wake_ups_of_other_threads() - wake_ups;
    vec![
        ("cpu_percent", time / took * 100.0),
        ("wake_ups", wake_ups as f64 / took),
    ]
}

/// A device that nobody uses.
pub(crate) fn idle<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    contender.sync();
    std::thread::sleep(SETTLE);
    watched(|| std::thread::sleep(Duration::from_millis(effort.count(WATCH_MS) as u64)))
}

/// A device that gets a launch every millisecond, flushed if it must be.
pub(crate) fn thousand_a_second<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    contender.sync();
    watched(|| {
        let begin = Instant::now();
        for tick in 1..=effort.count(WATCH_MS) as u32 {
            contender.launch();
            contender.flush();
            std::thread::sleep((PERIOD * tick).saturating_sub(begin.elapsed()));
        }
    })
}
