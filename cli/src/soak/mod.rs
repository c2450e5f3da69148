//! `millstream soak`: mixed load for a given time, every answer checked, and a verdict on what grew or was left.
//!
//! | module | what it is |
//! | --- | --- |
//! | `run` | one soak from end to end: device, threads, the end |
//! | `worker` | a thread that opens clients, makes them work, and drops them |
//! | `session` | one client's life: its streams and buffers, and what they must hold |
//! | `steps` | what a session does to them |
//! | `asks` | answers in every form they come in, each checked |
//! | `model` | what a buffer must hold, or how reading it may fail |
//! | `even` | threads of equal clients, to see that they are served alike |
//! | `tally` | the counters that all threads share |
//! | `watch` | samples memory and rate each second, and moves the bar |
//! | `verdict` | from figures to what is wrong with them; pure |
//! | `report`, `spark` | what is said at the end |
//! | `scale` | very many clients and streams, opened, used and dropped |
//! | `system` | what the system says of this process |

mod asks;
mod dice;
mod even;
mod model;
mod report;
mod run;
mod scale;
mod session;
mod spark;
mod steps;
mod system;
mod tally;
mod verdict;
mod watch;
mod worker;

pub(crate) use dice::Dice;

use crate::args::{Backend, SoakArgs};
use crate::exit::{CommandError, Exit};
use crate::output;

/// Runs the soak, or the scale test, and prints its report.
pub(crate) fn run(args: &SoakArgs) -> Result<Exit, CommandError> {
    if args.faults.is_some() && args.backend != Backend::Sim {
        return Err(CommandError::FaultsWithoutSimulator);
    }
    if args.scale {
        let report = scale::run(args)?;
        match args.json {
            true => output::json(&report)?,
            false => output::text(&scale::render(&report))?,
        }
        return Ok(report.exit());
    }
    let report = run::run(args)?;
    match args.json {
        true => output::json(&report)?,
        false => output::text(&report::render(&report))?,
    }
    Ok(report.exit())
}
