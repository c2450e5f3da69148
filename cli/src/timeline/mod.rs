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

use serde_json::json;

use crate::args::TimelineArgs;
use crate::exit::{CommandError, Exit, picture as role};
use crate::output::Report;
pub(crate) use picture::{Caption, draw};
pub(crate) use summary::Summary;

/// Runs the command.
pub(crate) fn run(args: &TimelineArgs) -> Result<Report, CommandError> {
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
        role(picture).write(draw(&spans, &summary, &caption))?;
    }
    let mut json = json!(summary);
    json["file"] = json!(args.file);
    json["picture"] = json!(args.picture);
    Ok(Report {
        exit: Exit::Success,
        json,
        text: format!("{}: {summary}", args.file.display()),
    })
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
