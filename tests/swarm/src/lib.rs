//! The swarm: random programs of the testkit on the simulator.
//!
//! A [`Case`] is a seed and a list of step numbers. The seed determines how the device is opened (queues, strategy,
//! limits, memory, faults, the device's own seed) and what each step does. A step depends only on the seed and its
//! number, so a failing case can be reduced by removing steps without changing the others.
//!
//! | module | contents |
//! | --- | --- |
//! | `setting` | the options of the device |
//! | `old_objects` | objects of an earlier epoch, which must return `DeviceLost` |
//! | `case` | running a case, and reducing a failing one |
//! | `fairness` | the latency of a small client beside a greedy one |
//!
//! Everything runs on the calling thread, on a driven simulator: the same case gives the same run.

mod case;
pub mod fairness;
mod old_objects;
mod setting;

pub use case::{Case, Figures, Verdict};
pub use setting::Fault;
