//! `millstream soak`: runs a mixed load, checks every answer, and reports growth and leaks.
//!
//! | module | contents |
//! | --- | --- |
//! | `run` | one soak from end to end |
//! | `worker` | a thread that opens clients, runs one random program of the testkit with each, and drops them |
//! | `equal` | threads of equal clients, which measure fairness |
//! | `watch` | samples memory and rate each second, and updates the progress bar |
//! | `verdict` | a pure function from figures to violations |
//! | `report`, `sparkline` | the report as data and as text |
//! | `scale` | many clients and streams, opened, used and dropped |
//! | `system` | figures of this process from the operating system |

mod equal;
mod report;
mod run;
mod scale;
mod sparkline;
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
