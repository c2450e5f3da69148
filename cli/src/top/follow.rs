//! Reads published frames, and detects a source that has ended or no longer writes.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::frame::Frame;
use super::publish::INTERVAL;
use crate::exit::CommandError;

/// A source that has not written for this number of intervals is reported.
const SILENT_MAX: u128 = 6;

/// Reads the current frame.
pub(crate) fn read(path: &Path) -> Result<Frame, CommandError> {
    let text = fs::read(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => CommandError::MetricsMissing {
            path: path.to_owned(),
        },
        _ => CommandError::MetricsUnreadable {
            path: path.to_owned(),
            source,
        },
    })?;
    serde_json::from_slice(&text).map_err(|source| CommandError::NotAMetricsFile {
        path: path.to_owned(),
        source,
    })
}

/// Returns a notice if the source of the frame has ended or no longer writes.
pub(crate) fn notice(frame: &Frame, now_ms: u64) -> Option<String> {
    let silent_ms = u128::from(now_ms.saturating_sub(frame.at_ms));
    match frame.is_last {
        true => Some("ended, this is the last frame".to_owned()),
        false if silent_ms > SILENT_MAX * INTERVAL.as_millis() => {
            let (pid, seconds) = (frame.pid, silent_ms / 1_000);
            Some(format!(
                "no frame for {seconds} s, check whether process {pid} still runs"
            ))
        }
        false => None,
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
