//! Measures the instructions of a launch, both sides, with callgrind.
//!
//! A sample runs the same number of batches of a short or a long length. The run subtracts the short
//! from the long sample, so the fixed cost of a batch cancels. Only the submitting loop, and the
//! device's code between two markers, are collected, so waiting is not. Batches with their markers
//! fit into the peer's buffer of 32, so submitting never waits either.

use super::{Effort, Figures};
use crate::contender::Contender;
use crate::instruments::callgrind;
use crate::noop::Mark;

/// Launches of a batch in the short sample.
const SHORT: usize = 8;
/// Launches of a batch in the long sample.
const LONG: usize = 24;

/// Batches that run before counting begins.
const WARM_UP: usize = 20;
/// Batches that are counted.
const BATCHES: usize = 50;

/// Bytes of each buffer that a launch binds.
const BUFFER_BYTES: usize = 1024;

fn length(effort: Effort) -> usize {
    if effort.long_batches { LONG } else { SHORT }
}

/// Returns by how many launches a long sample exceeds a short one.
pub(crate) fn difference() -> f64 {
    ((LONG - SHORT) * BATCHES) as f64
}

/// Runs batches of launches without arguments.
pub(crate) fn bare<C: Contender>(effort: Effort) -> Figures {
    batches(effort, |contender: &C, _| contender.launch())
}

/// Runs batches of launches over three buffers and eight words of scalars.
pub(crate) fn three_and_scalars<C: Contender>(effort: Effort) -> Figures {
    batches(effort, C::launch_three_and_scalars)
}

fn batches<C: Contender>(effort: Effort, launch: impl Fn(&C, &[C::Buffer; 3])) -> Figures {
    let contender = C::open();
    let buffers = [(); 3].map(|()| contender.empty(BUFFER_BYTES));
    let submit = || (0..length(effort)).for_each(|_| launch(&contender, &buffers));
    contender.sync();
    for _ in 0..WARM_UP {
        submit();
        contender.sync();
    }
    for _ in 0..BATCHES {
        contender.launch_mark(Mark::BeginCounting);
        callgrind::toggle();
        submit();
        callgrind::toggle();
        contender.launch_mark(Mark::EndCounting);
        callgrind::release();
        contender.sync();
    }
    Vec::new()
}
