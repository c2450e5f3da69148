//! The machine and the day of a run, and the commit that it measured.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Describes the processor: `2 cores of an AMD EPYC 7763, load 0.52`. The load is that of the last minute.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    format!("{cores} cores of {}, load {load}", processor())
}

/// Returns the processor's name, if the system reports it.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or("a processor", |(_, name)| name.trim())
        .to_owned()
}

/// Returns the short name of the commit in the current folder, or `unknown`.
pub fn commit() -> String {
    let arguments = ["rev-parse", "--short=8", "HEAD"];
    let output = Command::new("git").args(arguments).output().ok();
    let commit = output.and_then(|output| String::from_utf8(output.stdout).ok());
    let commit = commit.filter(|commit| !commit.is_empty());
    commit.map_or("unknown".to_owned(), |commit| commit.trim().to_owned())
}

/// Returns today's date in UTC.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let (year, month, day) = civil(since.map_or(0, |since| since.as_secs() / 86_400));
    format!("{year}-{month:02}-{day:02}")
}

/// Converts days since 1970-01-01 to year, month and day. The calculation uses years that begin in March, so that the
/// leap day is their last day; 400 years have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, after) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + after, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_converted_to_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_779), (2026, 11, 22));
    }
}
