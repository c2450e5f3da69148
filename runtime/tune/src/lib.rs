//! Chooses the fastest of several candidates: measures them once per key, and remembers the winner.
//!
//! ```text
//!  execute(set, key, inputs) ── known? ──► run the winner
//!        │ not known: one thread tunes, the others wait (or use the default)
//!        ▼
//!  Race: each candidate in turn, one sample at a time ──► Outcome ──► memory, and the store
//!        └── Measure: the device's clock
//! ```
//! | module | contents |
//! | --- | --- |
//! | `set` | candidates by name, inputs for measuring |
//! | `tuner`, `choice` | what is known of each key; the result of a tuning |
//! | `execute` | choosing a candidate under a policy, and running it |
//! | `tuning` | a single tuning: each key is tuned by one thread at a time |
//! | `flights` | the keys that are being tuned, and the threads that tune and wait |
//! | `race` | how candidates are measured, and when a race ends |
//! | `stats` | robust statistics of few samples |
//! | `measure`, `stream` | the clock; the clock of a stream's device |
//! | `save`, `encoding`, `store` | saved choices: lines with checksums, in a store that is replaced atomically |
//! | `check` | whether all candidates compute the same |
//! | `error` | errors |

mod check;
mod choice;
mod encoding;
mod error;
mod execute;
mod flights;
mod measure;
mod race;
mod save;
mod set;
mod stats;
mod store;
mod stream;
mod tuner;
mod tuning;

pub use crate::choice::{Candidate, Outcome};
pub use check::{Checked, Equivalence};
pub use choice::{Choice, Chosen, Fastest, Policy};
pub use encoding::{Identity, Inspected, inspect};
pub use error::{Failure, StoreError, TuneError};
pub use measure::Measure;
pub use race::{Effort, SAMPLES_MAX, SAMPLES_MIN};
pub use save::Loaded;
pub use set::{Checksum, Tunable, TunableSet};
pub use stats::Summary;
pub use store::Store;
pub use stream::StreamClock;
pub use tuner::{TuneKey, Tuner};
pub use tuning::{Begun, Elsewhere, Progress, Tuning};
