//! Random programs of the testkit on the adversarial device.
//!
//! A [`Case`] is a seed and the steps of the program that it stands for. The seed chooses how the device is
//! opened (queues, strategy, limits, memory, faults, the device's own seed) and what each step does; steps
//! stand by themselves, so that a failing case can lose all that do not matter and still mean the same.
//!
//! | file | what it is |
//! | --- | --- |
//! | `setting` | how the device is opened |
//! | `relic` | what is of an earlier epoch of a device |
//! | `case` | running a case, and making a failing one small |
//! | `fairness` | how long a small client waits beside a greedy one |
//!
//! Everything runs on the calling thread, on a driven simulator: the same case is the same run.

mod case;
pub mod fairness;
mod relic;
mod setting;

pub use case::{Case, Figures, Verdict};
pub use setting::Fault;
