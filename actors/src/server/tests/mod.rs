//! The server, driven on one thread with a scripted backend.
//!
//! | file | what it is |
//! | --- | --- |
//! | `script` | the backend: the simulator, which completes only the tasks that a test completes; the calls so far |
//! | `rig` | the loop of the device actor without a thread: it sleeps whenever the actor would |
//! | `build`, `code` | tasks built by hand; user code in them |
//! | `device` | the device alone |
//! | `order`, `hazards`, `memory`, `pressure`, `failures`, `progress`, `urgency`, `metrics` | facts |
//!
//! Random programs, with the results that they must compute, run on whole devices: `tests/swarm`.

mod build;
mod code;
mod device;
mod failures;
mod hazards;
mod memory;
mod metrics;
mod order;
mod pressure;
mod progress;
mod rig;
mod script;
mod urgency;
