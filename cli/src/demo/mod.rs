//! `millstream demo`: many threads develop photographs on one device, and every result is checked.
//!
//! | module | what it is |
//! | --- | --- |
//! | `session` | one run from end to end |
//! | `album`, `files`, `photos` | finds and reads photographs, or says why not |
//! | `recipe` | the numbers of the recipe |
//! | `reference` | the recipe in plain code, on the host |
//! | `pipeline` | the recipe as kernels, on the device |
//! | `gpu` | what GPUs run of them |
//! | `workers` | threads and their streams |
//! | `check` | holds results against the reference |
//! | `gallery` | writes the drawings and gathers the contact sheet |
//! | `sheet`, `lettering` | the contact sheet |
//! | `report`, `table` | what the run has to say, as data and as text |
//! | `progress` | the bar |
//! | `sweep` | tests: a fault at every call of the device |
//! | `on_fake_gpu` | tests: the kernels for GPUs, on a driver without one |

mod album;
mod check;
mod files;
mod gallery;
mod gpu;
mod lettering;
#[cfg(test)]
mod on_fake_gpu;
mod photos;
mod pipeline;
mod progress;
mod recipe;
mod reference;
mod report;
mod session;
mod sheet;
#[cfg(test)]
mod sweep;
mod table;
mod workers;

use crate::args::DemoArgs;
use crate::exit::{CommandError, Exit};
use crate::output;

pub(crate) use crate::units::{bytes, counted};
pub(crate) use progress::Progress;

/// Runs the demo and prints its report.
pub(crate) fn run(args: &DemoArgs) -> Result<Exit, CommandError> {
    let report = session::run(args)?;
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&table::render(&report))?;
    }
    Ok(report.exit())
}
