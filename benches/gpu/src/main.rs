//! Compares millstream on a GPU with direct ("raw") calls of the driver, in one run. `docs/hardware.md` explains the
//! results.
//!
//! The raw side and our side alternate round by round, so that drift of the machine affects both. Each group opens its
//! own device; the raw side uses the same context of the driver, with its own streams, memory and kernels. The result is
//! a record of `millstream-harness`, as in all benches.
//!
//! - [`raw`]: direct calls of CUDA's driver, and owners for its handles.
//! - [`kernels`]: the kernels that both sides launch.
//! - [`mod@measure`]: the groups of rows; [`vulkan`]: those of Vulkan, with its raw side.
//! - [`rows`]: makes rows from samples.

mod error;
mod kernels;
mod measure;
mod raw;
mod rows;
mod vulkan;

use std::error::Error as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use millstream_harness::{MEANINGLESS, Record};

use error::BenchError;
use measure::{GROUPS, Group, Rig};
use raw::Gpu;

const EXIT_CODES: &str = "\
Exit codes:
  0  all rows were measured; the table shows whether targets were reached
  1  some rows could not be measured, or results could not be written
  2  usage error
  3  there is no GPU to measure";

/// Compares millstream on a GPU with direct driver calls, in one run.
#[derive(Debug, Parser)]
#[command(name = "millstream-gpu-bench", version, after_help = EXIT_CODES)]
struct Arguments {
    /// Also writes all samples to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measures only the groups whose name contains this text.
    #[arg(long, value_name = "SUBSTRING", default_value = "")]
    only: String,

    /// Measures one round of few calls: to check that all rows work, not to quote.
    #[arg(long)]
    quick: bool,

    /// Measures the first GPU of Vulkan instead of CUDA's.
    #[arg(long)]
    vulkan: bool,

    /// The number of rounds; figures are medians over them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            message = format!("{message}: {source}");
            cause = source.source();
        }
        eprintln!("error: {message}");
        error.exit()
    })
}

/// Measures the selected groups of the driver that the arguments choose, prints the table and writes the file.
fn run(arguments: &Arguments) -> Result<ExitCode, BenchError> {
    let quick = arguments.quick;
    let rounds = arguments.rounds.unwrap_or(if quick { 1 } else { 9 }) as usize;
    let mut record = Record::of_now("millstream-gpu-bench", &["ours", "raw"], Vec::new());
    let (name, about, bytes) = if arguments.vulkan {
        let groups = selected(vulkan::GROUPS, &arguments.only)?;
        let seen = millstream::vulkan::gpus()?.swap_remove(0);
        measure(&vulkan::Rig::open(rounds)?, &groups, &mut record);
        let about = format!("Vulkan {}, {}", seen.version, seen.driver);
        (seen.name, about, seen.memory_bytes)
    } else {
        let groups = selected(GROUPS, &arguments.only)?;
        // First, so that a machine without a GPU gets the backend's error, which says what to do.
        let seen = millstream::cuda::gpus()?.swap_remove(0);
        let gpu = Gpu::open(kernels::PTX)?;
        let (major, minor) = seen.driver;
        let about = format!(
            "compute capability {}, driver for CUDA {major}.{minor}",
            gpu.capability()?
        );
        measure(&Rig { gpu, rounds, quick }, &groups, &mut record);
        (seen.name, about, seen.memory_bytes)
    };
    let gib = bytes as f64 / f64::from(1 << 30);
    record.machine = format!("{name} ({about}, {gib:.0} GiB), {}", record.machine);
    if quick {
        record.notes = "A quick run, not to be quoted.".to_owned();
    }
    if name.contains("fake") {
        MEANINGLESS.clone_into(&mut record.notes);
        println!("{MEANINGLESS}");
    }
    record
        .report(arguments.json.as_deref())
        .map_err(BenchError::Unwritable)?;
    Ok(
        match record.rows.iter().all(|row| row.failures.is_empty()) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}

/// Returns the groups whose name contains a text.
fn selected<R>(
    groups: &'static [Group<R>],
    only: &str,
) -> Result<Vec<&'static Group<R>>, BenchError> {
    let groups = groups.iter().filter(|group| group.name.contains(only));
    let groups: Vec<_> = groups.collect();
    match groups.is_empty() {
        true => Err(BenchError::NoGroup(only.to_owned())),
        false => Ok(groups),
    }
}

/// Adds the rows of the groups to the record.
fn measure<R>(rig: &R, groups: &[&Group<R>], record: &mut Record) {
    for group in groups {
        eprintln!("measuring: {}", group.name);
        match (group.measure)(rig) {
            Ok(rows) => record.rows.extend(rows),
            Err(why) => record.rows.push(rows::failed(group.name, &why)),
        }
    }
}
