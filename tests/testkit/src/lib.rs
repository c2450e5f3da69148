//! Random programs, and the oracle that computes their expected results.
//!
//! A [`Program`] has streams and buffers. Each step submits tasks that its [`Dice`] choose, and updates the expected
//! [`Contents`] of the buffers, as if the tasks ran one after the other in the order of submission (I1, I2). The
//! program checks each answer against these contents: every element of data, and whether a failure has a reason that
//! poisoned this data (I7). A program is a function of its [`ProgramConfig`], its kernels and its seed.
//!
//! | module | contents |
//! | --- | --- |
//! | `dice` | choices from a seed |
//! | `contents` | the oracle: expected contents of buffers, and the failures that a read may return |
//! | `end` | the reasons for which a program ends before its last step |
//! | `config` | the limits of a program, and the failures that it accepts |
//! | `kernels` | the kernels of a program, as Rust |
//! | `program` | the state of a program, and its end |
//! | `recorded` | recordings that a program can replay |
//! | `steps` | the kinds of steps |
//! | `answers` | receiving answers in every form, each checked |
//! | `tally` | counters, and the violations that programs found |

mod answers;
mod config;
mod contents;
mod dice;
mod end;
mod kernels;
mod outside;
mod program;
mod recorded;
mod steps;
mod tally;

pub use answers::{Expected, answer};
pub use config::{ProgramConfig, Sizes};
pub use contents::{AllowedFailures, Contents, Known, Outcome, Pattern};
pub use dice::Dice;
pub use end::End;
pub use kernels::{BOOM, Kernels, add};
pub use program::{Program, Stepped, Submitted};
pub use tally::{Count, Tally, Token, Value, Violations};
