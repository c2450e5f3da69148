//! What the examples of graphs share: their options, how they end, and paper for their pictures.

#[path = "../../cli/src/demo/glyphs.rs"]
#[allow(dead_code, reason = "the examples need less of it than the demo")]
mod lettering;
pub(crate) mod options;
#[allow(dead_code, reason = "no example needs all of it")]
pub(crate) mod paper;

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Why an example ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed is wrong: this is what to do.
    Usage(String),
    /// What was run is.
    Run(Box<dyn std::error::Error>),
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Run(Box::new(error))
    }
}

/// The exit code of an example: 0, 1 where it failed, 2 for bad usage.
pub(crate) fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
        Err(Failure::Run(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A bar on standard error, where that is a terminal and nobody asked for JSON.
pub(crate) fn bar(steps: usize, what: &'static str, is_hidden: bool) -> ProgressBar {
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
    bar.with_message(what)
}
