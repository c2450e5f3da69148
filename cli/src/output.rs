//! Writes to standard output and standard error; no other module of the command line does.
//!
//! Errors of writing to standard error are ignored: no channel is left to report them on.

use std::error::Error;
use std::io::{ErrorKind, Write, stderr, stdout};

use serde::Serialize;

use crate::exit::CommandError;

/// Prints text on standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn text(text: &str) -> Result<(), CommandError> {
    let mut stdout = stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandError::Stdout { source: error })
        }
        _ => Ok(()),
    }
}

/// Prints one JSON object on standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    match serde_json::to_string_pretty(value) {
        Ok(json) => text(&(json + "\n")),
        Err(error) => Err(CommandError::Stdout {
            source: error.into(),
        }),
    }
}

/// Prints an error with its chain of causes and the next step, and on standard output as JSON if requested.
pub(crate) fn error(error: &CommandError, as_json: bool) {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        reason = format!("{reason}: {source}");
        cause = source.source();
    }
    if as_json {
        let _ = json(&serde_json::json!({
            "exit_code": error.exit().code(),
            "error": reason,
            "next_step": error.next_step(),
        }));
    }
    let _ = writeln!(stderr(), "error: {reason}\n next: {}", error.next_step());
}
