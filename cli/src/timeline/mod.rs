//! `millstream timeline`: summarizes a saved timeline.
//!
//! | module | contents |
//! | --- | --- |
//! | [`load`] | reads the file |
//! | [`summary`] | computes how busy queues were, their longest gaps and the times of tasks |
//! | [`picture`] | draws the timeline as SVG |

mod load;
mod picture;
mod summary;

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::args::TimelineArgs;
use crate::exit::{CommandError, Exit, picture as role};
use crate::output;
pub(crate) use picture::{Caption, draw};
pub(crate) use summary::Summary;

/// The result of one run.
#[derive(Serialize)]
struct Report {
    exit_code: u8,
    file: PathBuf,
    #[serde(flatten)]
    summary: Summary,
    picture: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &TimelineArgs) -> Result<Exit, CommandError> {
    let spans = load::spans(&args.file)?;
    let summary = Summary::of(&spans);
    if let Some(picture) = &args.picture {
        let name = args.file.file_name().unwrap_or(args.file.as_os_str());
        let caption = Caption {
            title: &format!("Timeline of {}", name.to_string_lossy()),
            subtitle: &summary.sentence(),
            // Unknown: the file does not list idle queues.
            queues: 0,
            tasks: spans.len() as u64,
        };
        fs::write(picture, draw(&spans, &caption))
            .map_err(|error| role(picture).unwritable(error))?;
    }
    match args.json {
        true => output::json(&Report {
            exit_code: Exit::Success.code(),
            file: args.file.clone(),
            summary,
            picture: args.picture.clone(),
        })?,
        false => output::text(&format!("{}: {summary}", args.file.display()))?,
    }
    Ok(Exit::Success)
}

/// Returns the span of a task, for tests.
#[cfg(test)]
fn span(
    name: &str,
    stream: u64,
    queue: u32,
    start_ns: u64,
    end_ns: u64,
) -> millstream::report::TraceSpan {
    millstream::report::TraceSpan {
        name: name.into(),
        stream,
        queue,
        start_ns,
        end_ns,
        ..millstream::report::TraceSpan::default()
    }
}
