//! `millstream soak`: mixed load for a given time, every answer checked, and a verdict on what grew or was left.
//!
//! | module | what it is |
//! | --- | --- |
//! | `run` | one soak from end to end: device, threads, the end |
//! | `worker` | a thread that opens clients, each for one random program of the testkit, and drops them |
//! | `even` | threads of equal clients, to see that they are served alike |
//! | `watch` | samples memory and rate each second, and moves the bar |
//! | `verdict` | from figures to what is wrong with them; pure |
//! | `report`, `spark` | what is said at the end |
//! | `scale` | very many clients and streams, opened, used and dropped |
//! | `system` | what the system says of this process |

mod even;
mod report;
mod run;
mod scale;
mod spark;
mod system;
mod verdict;
mod watch;
mod worker;

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
