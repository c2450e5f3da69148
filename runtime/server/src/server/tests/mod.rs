//! The server, driven on one thread with a scripted backend.
//!
//! | file | what it is |
//! | --- | --- |
//! | `ledger` | what the backend was told, and the checks of it by vector clocks |
//! | `bytes` | its pages and slices, and what tasks do to them |
//! | `script` | the backend: completes only what a test says |
//! | `rig` | the device actor's loop without a thread: it sleeps whenever the actor would |
//! | `build`, `code` | tasks built by hand; user code in them |
//! | `order`, `hazards`, `memory`, `failures`, `progress`, `metrics` | facts |
//! | `program`, `steps`, `checks` | random programs, and what they must meet (`coverage`) |
//! | `oracle` | what a program must compute |

mod build;
mod bytes;
mod checks;
mod code;
mod coverage;
mod failures;
mod hazards;
mod ledger;
mod memory;
mod metrics;
mod oracle;
mod order;
mod program;
mod progress;
mod rig;
mod script;
mod steps;
mod urgency;
