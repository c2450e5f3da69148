//! Shared code of the graph examples: options, exit codes, progress bars and colours.

#[allow(dead_code, reason = "no example uses all of it")]
pub(crate) mod colours;
pub(crate) mod options;

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The error of an example.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments are invalid. The text says how to correct them.
    Usage(String),
    /// The run failed.
    Run(Box<dyn std::error::Error>),
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Run(Box::new(error))
    }
}

/// Prints an error, and returns the exit code: 0 for success, 1 for a failure, 2 for invalid arguments.
pub(crate) fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprintln!("error: {text}");
            ExitCode::from(2)
        }
        Err(Failure::Run(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a progress bar on standard error. It is hidden with `is_hidden`, or if standard error is not a terminal.
pub(crate) fn bar(steps: usize, message: &'static str, is_hidden: bool) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if is_hidden {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {wide_bar:.cyan/240} {pos}/{len} {eta:>4}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar.with_message(message)
}
