//! The swarm of every change, faults at every call, the fairness of turns, and a short soak.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod fairness;
mod programs;
mod soak;
mod sweep;

/// Hides the panics of kernels, which are on purpose.
fn hide_planned_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&"boom") {
            eprintln!("{panic}");
        }
    }));
}
