//! The machine and the day of a run, and the commit that it measured.

use std::process::Command;

/// Describes the processor: `2 cores of an AMD EPYC 7763, load 0.52`. The load is that of the last minute.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    format!("{cores} cores of {}, load {load}", processor())
}

/// Returns the processor's name, if the system reports it.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or("a processor", |(_, name)| name.trim())
        .to_owned()
}

/// Returns the short name of the commit in the current folder, or `unknown`.
pub(crate) fn commit() -> String {
    output("git", &["rev-parse", "--short=8", "HEAD"])
}

/// Returns today's date in UTC, or `unknown`.
pub(crate) fn today() -> String {
    output("date", &["--utc", "+%F"])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    let text = text.unwrap_or_default();
    match text.trim() {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    }
}
