//! `millstream demo`: many threads convert photographs to drawings on one device, and check every result.
//!
//! | module | contents |
//! | --- | --- |
//! | `session` | one run from end to end |
//! | `input`, `files`, `photos` | finds and reads photographs, and skips other files with a reason |
//! | `filter` | the parameters of the pencil filter |
//! | `reference` | the filter in plain code, on the host |
//! | `pipeline` | the filter as kernels, on the device |
//! | `gpu` | the CUDA C, PTX and SPIR-V of the kernels |
//! | `workers` | threads and their streams |
//! | `check` | compares results with the reference |
//! | `results` | writes the drawings, the contact sheet and the timeline |
//! | `sheet`, `glyphs` | the contact sheet |
//! | `report`, `table` | the report as data and as text |
//! | `progress` | the progress bar |
//! | `sweep` | tests: a fault at every call of the device |
//! | `fake_gpu_tests` | tests: the GPU kernels on the fake CUDA driver |

mod check;
#[cfg(test)]
mod fake_gpu_tests;
mod files;
mod filter;
mod glyphs;
mod gpu;
mod input;
mod photos;
mod pipeline;
mod progress;
mod reference;
mod report;
mod results;
mod session;
mod sheet;
#[cfg(test)]
mod sweep;
mod table;
mod workers;

use crate::args::DemoArgs;
use crate::exit::{CommandError, Exit};
use crate::output;

pub(crate) use crate::units::counted;
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
