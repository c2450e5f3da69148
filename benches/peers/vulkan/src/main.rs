//! Compares millstream on Vulkan with the same work in raw calls of the driver, and in wgpu, in one run.
//!
//! The sides alternate round by round, so that drift of the machine affects all of them. Each side has its own logical
//! device on the same GPU.
//!
//! - [`arguments`]: the command line.
//! - [`raw`]: the raw side: `ash`, written by hand.
//! - [`ours`], [`peer`]: millstream's side and wgpu's.
//! - [`measure`]: the groups of rows.
//! - [`report`]: the results of a run, as a table and as JSON.

mod arguments;
mod error;
mod measure;
mod ours;
mod peer;
mod raw;
mod report;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use error::BenchError;
use measure::{GROUPS, Rig};
use report::Report;

/// The number of 32-bit words that the kernel adds 1 to.
const WORDS: usize = 64;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let only = arguments.only.as_deref().unwrap_or_default();
    let groups: Vec<_> = GROUPS
        .iter()
        .filter(|group| group.name.contains(only))
        .collect();
    if groups.is_empty() {
        let names: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
        return Err(BenchError::NoGroup(only.to_owned(), names.join(", ")));
    }
    let rig = Rig::open(arguments)?;
    let mut report = Report::new(&rig);
    for group in groups {
        eprintln!("measuring: {}", group.name);
        report.rows.extend((group.measure)(&rig)?);
    }
    println!("{}", report.text());
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
        std::fs::write(path, json).map_err(|source| BenchError::Unwritable {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}
