//! Standard output and standard error. A reader that went away (`| head`) is no error, so the
//! results of writing are let go here, and nowhere else.

use std::error::Error;
use std::io::{Write, stderr, stdout};

use serde::Serialize;

use crate::exit::CommandError;

/// Prints text on standard output.
pub(crate) fn text(text: &str) {
    let _ = stdout().write_all(text.as_bytes());
    let _ = stdout().flush();
}

/// Prints one JSON object on standard output.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(json) => text(&(json + "\n")),
        Err(error) => {
            let _ = writeln!(
                stderr(),
                "error: the report could not be written as JSON: {error}"
            );
        }
    }
}

/// Says what went wrong, why, and what to do next.
pub(crate) fn error(error: &CommandError, as_json: bool) {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        reason = format!("{reason}: {source}");
        cause = source.source();
    }
    if as_json {
        json(&serde_json::json!({
            "exit_code": error.exit().code(),
            "error": reason,
            "next_step": error.next_step(),
        }));
    }
    let _ = writeln!(stderr(), "error: {reason}\n next: {}", error.next_step());
}
