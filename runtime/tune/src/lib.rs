//! The fastest of several ways, measured once for a key and remembered.
//!
//! ```text
//!  execute(set, key, inputs) ── known? ──► run the winner
//!        │ not known: the first tunes, the others wait (or use the default)
//!        ▼
//!  Race: each candidate in turn, one sample at a time ──► Outcome ──► memory, and the store
//!        └── Measure: the device's clock
//! ```
//! | module | what it is |
//! | --- | --- |
//! | `set` | candidates by name, groups by priority, inputs made when they are needed |
//! | `tuner`, `choice` | what is known of each key |
//! | `execute` | choosing a candidate as a policy says, and running it |
//! | `tuning` | one tuning: nobody tunes a key twice |
//! | `threads` | who is at which key, so that nobody waits for itself |
//! | `race` | how candidates are measured, and when it is enough |
//! | `stats` | robust figures of few samples |
//! | `measure`, `stream` | whose clock; that of a stream's device |
//! | `outcome` | what came of it |
//! | `kept`, `persist`, `store` | how choices are kept: lines with checksums, in a place that is replaced at once |
//! | `check` | do all candidates do the same? |
//! | `error` | what can go wrong |

mod check;
mod choice;
mod error;
mod execute;
mod kept;
mod measure;
mod outcome;
mod persist;
mod race;
mod set;
mod stats;
mod store;
mod stream;
mod threads;
mod tuner;
mod tuning;

pub use check::{Checked, Equivalence};
pub use choice::{Choice, Chosen, Fastest, Policy};
pub use error::{Failure, StoreError, TuneError};
pub use kept::Loaded;
pub use measure::Measure;
pub use outcome::{Candidate, Outcome};
pub use persist::{Identity, Inspected, inspect};
pub use race::{Effort, SAMPLES_MAX, SAMPLES_MIN};
pub use set::{Checksum, Tunable, TunableSet, TuneGroup};
pub use stats::Summary;
pub use store::Store;
pub use stream::StreamClock;
pub use tuner::{TuneKey, Tuner};
pub use tuning::{Begun, Elsewhere, Progress, Tuning};
