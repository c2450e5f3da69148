//! Measures the processor time of the runtime's threads while the device idles or has little work.

use std::time::{Duration, Instant};

use super::{Effort, Figures};
use crate::contender::Contender;
use crate::instruments::processor;

/// The time of a measurement, if not quick.
const WATCH_MS: usize = 3000;

/// The time in which an idle device may settle before it is measured.
const SETTLE: Duration = Duration::from_millis(100);

/// The time between two launches, at a thousand a second.
const PERIOD: Duration = Duration::from_millis(1);

/// Returns `cpu_percent` of a core and `wake_ups` a second of all threads except this one, during `work`.
fn watched(work: impl FnOnce()) -> Figures {
    let time = processor::time_of_other_threads();
    let wake_ups = processor::wake_ups_of_other_threads();
    let begin = Instant::now();
    work();
    let took = begin.elapsed().as_secs_f64();
    // The clocks of process and thread are read one after the other, so the difference of idle threads may be negative.
    let time = processor::time_of_other_threads().saturating_sub(time);
    let time = time.as_secs_f64();
    let wake_ups = processor::wake_ups_of_other_threads() - wake_ups;
    vec![
        ("cpu_percent", time / took * 100.0),
        ("wake_ups", wake_ups as f64 / took),
    ]
}

/// Measures a device without work.
pub(crate) fn idle<C: Contender>(effort: Effort) -> Figures {
    let contender = C::open();
    contender.sync();
    std::thread::sleep(SETTLE);
    watched(|| std::thread::sleep(Duration::from_millis(effort.count(WATCH_MS) as u64)))
}

/// Measures a device that receives a launch every millisecond, with a flush if it needs one.
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
