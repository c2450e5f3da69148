//! The server, driven on one thread with a scripted backend.
//!
//! | file | what it is |
//! | --- | --- |
//! | `ledger` | the calls of the backend, and the checks of them by vector clocks |
//! | `bytes` | the pages and slices of the backend, and what tasks do to them |
//! | `script` | the backend: completes only the tasks that a test completes |
//! | `rig` | the loop of the device actor without a thread: it sleeps whenever the actor would |
//! | `build`, `code` | tasks built by hand; user code in them |
//! | `device` | the device alone |
//! | `order`, `hazards`, `memory`, `pressure`, `failures`, `progress`, `urgency`, `metrics` | facts |
//! | `program`, `steps`, `checks` | random programs, and what they must meet (`coverage`) |
//! | `oracle` | the results that a program must compute |

mod build;
mod bytes;
mod checks;
mod code;
mod coverage;
mod device;
mod failures;
mod hazards;
mod ledger;
mod memory;
mod metrics;
mod oracle;
mod order;
mod pressure;
mod program;
mod progress;
mod rig;
mod script;
mod steps;
mod urgency;
