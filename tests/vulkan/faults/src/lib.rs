//! The driver's functions, intercepted: tests refuse calls, hold the progress of the device, count calls, and check that
//! each object is destroyed exactly once. Also the kernels and the program that these tests run.
//!
//! | module | contents |
//! | --- | --- |
//! | `session` | what a test does with the driver |
//! | `calls`, `state` | the intercepted functions, and what they ask and note |
//! | `kernels` | kernels in SPIR-V |
//! | `program` | a program that uses most of the backend |
//! | `checked` | options of a device whose messages of the validation layer a test collects |

mod calls;
mod checked;
pub mod kernels;
pub mod program;
mod session;
mod state;

pub use checked::{Checked, unavailable};
pub use session::Session;
pub use state::{Fault, REACHED, TIMEOUTS, WAITS};
