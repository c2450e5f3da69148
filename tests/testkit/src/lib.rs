//! Random programs, and the oracle that says what they must compute.
//!
//! A [`Program`] has streams and buffers. Each of its steps does to them what its [`Dice`] choose, and notes what must be in each
//! buffer then, in the one order in which the tasks were submitted. Answers are checked against that: every element of data, and
//! whether a failure has a reason. The same seed makes the same program.
//!
//! | module | what it is |
//! | --- | --- |
//! | `dice` | choices from a seed |
//! | `contents` | what a buffer must hold, and how reading it may fail instead |
//! | `end` | how a program ends before its last step |
//! | `ground` | what a program may do, and what may go wrong with it |
//! | `kernels` | the kernels of a program, as Rust |
//! | `program` | the streams and buffers of a program, and its end |
//! | `recorded` | what a program keeps of a recording |
//! | `steps` | what a step does: to buffers, to the order of streams, under terms, with answers |
//! | `asks` | answers in every form they come in, each checked |
//! | `tally` | what was done, and what was wrong |

mod asks;
mod contents;
mod dice;
mod end;
mod ground;
mod kernels;
mod program;
mod recorded;
mod steps;
mod tally;

pub use asks::{Wanted, answer};
pub use contents::{Contents, Excuses, Known, Outcome, Pattern};
pub use dice::Dice;
pub use end::End;
pub use ground::{Ground, Sizes};
pub use kernels::{BOOM, Kernels, add};
pub use program::{Given, Program, Stepped};
pub use tally::{COUNTS, Count, Tally, Token, Value, Wrongs};
