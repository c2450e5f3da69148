//! Writes the figures of a run to the section "On a GPU" of `benches/RESULTS.md`, replacing the whole section.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_harness::replace_section;

use crate::arguments::Import;
use crate::error::BenchError;
use crate::report::{FORMAT, Report};
use crate::table;

/// The lines around the section.
const BEGIN: &str = "<!-- on a GPU: begin; written by `millstream-gpu-bench import` -->";
const END: &str = "<!-- on a GPU: end -->";

/// The name of the bundle's file of results.
const FILE: &str = "bench.json";

/// Reads a report and writes it to the page.
pub(crate) fn run(import: &Import) -> Result<(), BenchError> {
    let path = match import.results.is_dir() {
        true => import.results.join(FILE),
        false => import.results.clone(),
    };
    let report = read(&path)?;
    if report.fake && !import.allow_fake {
        return Err(BenchError::FakeDriver { path });
    }
    let page = text_of(&import.into)?;
    let markers = (BEGIN, END);
    let written =
        replace_section(&page, markers, &section(&report)).ok_or(BenchError::NoMarkers {
            path: import.into.clone(),
            begin: BEGIN,
            end: END,
        })?;
    fs::write(&import.into, written).map_err(|source| BenchError::Unwritable {
        path: import.into.clone(),
        source,
    })?;
    println!("{}: {}", import.into.display(), table::summary(&report));
    Ok(())
}

fn text_of(path: &Path) -> Result<String, BenchError> {
    fs::read_to_string(path).map_err(|source| BenchError::Unreadable {
        path: PathBuf::from(path),
        source,
    })
}

fn read(path: &Path) -> Result<Report, BenchError> {
    let not_results = |source| BenchError::NotResults {
        path: PathBuf::from(path),
        source,
    };
    let text = text_of(path)?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(not_results)?;
    // Checked first: the other fields may differ in another format.
    let found = value.get("format").and_then(serde_json::Value::as_u64);
    if let Some(found) = found.and_then(|found| u32::try_from(found).ok())
        && found != FORMAT
    {
        return Err(BenchError::Format {
            path: PathBuf::from(path),
            found,
            known: FORMAT,
        });
    }
    serde_json::from_value(value).map_err(not_results)
}

/// Returns the section, without its markers.
fn section(report: &Report) -> String {
    let fake = match report.fake {
        true => format!("**{}**\n\n", table::FAKE),
        false => String::new(),
    };
    let failures: String = report
        .failures()
        .map(|(group, why)| format!("- {group}: {why}.\n"))
        .collect();
    format!(
        "{fake}{}, by\n\n```text\n{}\n```\n\n{}\n{}\n{failures}",
        table::environment(report),
        report.command,
        table::markdown(report),
        table::summary(report),
    )
}
