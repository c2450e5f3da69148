//! Measures group after group, with a progress bar on a terminal, then prints the table and writes the file.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_harness::{processor, today};

use crate::arguments::Arguments;
use crate::error::BenchError;
use crate::measure::{GROUPS, Group, Rig};
use crate::plan::Plan;
use crate::raw::{self, Gpu};
use crate::report::{FORMAT, Report, Row};
use crate::{kernels, table, vulkan};

const TEMPLATE: &str = "  {msg:<34} {bar:30.cyan/black.bright} {pos:>2}/{len}";

/// Measures the selected groups of the driver that the arguments choose.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, BenchError> {
    let mut plan = match arguments.quick {
        true => Plan::quick(),
        false => Plan::full(),
    };
    if let Some(rounds) = arguments.rounds {
        plan.rounds = rounds as usize;
    }
    let mut report = Report {
        format: FORMAT,
        fake: false,
        device: String::new(),
        capability: String::new(),
        driver: String::new(),
        memory_bytes: 0,
        processor: processor(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        date: today(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        quick: arguments.quick,
        rounds: plan.rounds,
        rows: Vec::new(),
    };
    if arguments.vulkan {
        let groups = selected(vulkan::GROUPS, arguments)?;
        let seen = millstream::vulkan::gpus()?.swap_remove(0);
        report.capability = format!("Vulkan {}", seen.version);
        (report.device, report.driver) = (seen.name, seen.driver);
        report.memory_bytes = seen.memory_bytes;
        measure(&vulkan::Rig::open(plan.rounds)?, &groups, &mut report);
    } else {
        let groups = selected(GROUPS, arguments)?;
        // First, so that a machine without a GPU gets the backend's error, which says what to do.
        let seen = millstream::cuda::gpus()?.swap_remove(0);
        let gpu = Gpu::open(kernels::PTX)?;
        report.capability = format!("compute capability {}", gpu.capability()?);
        report.driver = format!("driver for CUDA {}", raw::version_text(seen.driver));
        report.fake = seen.name.contains("fake");
        (report.device, report.memory_bytes) = (seen.name, seen.memory_bytes);
        measure(&Rig { gpu, plan }, &groups, &mut report);
    }
    println!("{}", table::text(&report));
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
        std::fs::write(path, json).map_err(|source| BenchError::Unwritable {
            path: path.clone(),
            source,
        })?;
    }
    Ok(match report.failures().count() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Returns the groups that `--only` selects.
fn selected<R>(
    groups: &'static [Group<R>],
    arguments: &Arguments,
) -> Result<Vec<&'static Group<R>>, BenchError> {
    let only = arguments.only.as_deref().unwrap_or_default();
    let groups = groups.iter().filter(|group| group.name.contains(only));
    let groups: Vec<_> = groups.collect();
    match groups.is_empty() {
        true => Err(BenchError::NoGroup(only.to_owned())),
        false => Ok(groups),
    }
}

/// Adds the rows of the groups to the report.
fn measure<R>(rig: &R, groups: &[&Group<R>], report: &mut Report) {
    let bar = progress(groups.len());
    for group in groups {
        bar.set_message(group.name);
        match (group.measure)(rig) {
            Ok(rows) => report.rows.extend(rows.into_iter().map(Row::judged)),
            Err(why) => report.rows.push(Row::failed(group.name, &why)),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
}

fn progress(groups: usize) -> ProgressBar {
    let target = match stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(groups as u64), target);
    // A test checks that the template parses; the default style is good enough otherwise.
    let style =
        ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("━━╌"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_template_parses() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
