//! Random programs on the adversarial device, checked against plain arrays.
//!
//! A [`Case`] is a seed and the steps of the program that it stands for. The seed chooses how the device is
//! opened (queues, strategy, limits, memory, faults, the device's own seed) and what each step does; steps
//! stand by themselves, so that a failing case can lose all that do not matter and still mean the same.
//!
//! | file | what it is |
//! | --- | --- |
//! | `dice` | chance from a seed |
//! | `setting` | how the device is opened |
//! | `expect` | what must be in each element |
//! | `program` | clients, streams, buffers; which step is made, and what is checked |
//! | `program/steps` | what steps do with buffers |
//! | `case` | running a case, and making a failing one small |
//! | `fairness` | how long a small client waits beside a greedy one |
//!
//! Everything runs on the calling thread, on a driven simulator: the same case is the same run.

mod case;
mod dice;
mod expect;
pub mod fairness;
mod program;
mod setting;

pub use case::{Case, Fault, Figures, Verdict};
