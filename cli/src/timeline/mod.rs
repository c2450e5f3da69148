//! `millstream timeline`: summarizes a saved timeline. Also writes the timeline of the demo.
//!
//! | module | contents |
//! | --- | --- |
//! | [`load`] | reads the file |
//! | [`summary`] | computes how busy queues were, their longest gaps and the times of tasks |
//! | [`table`] | renders the summary as text |
//! | [`picture`] | draws the timeline as SVG |
//! | [`union`] | the union of intervals, by which "busy" is defined |
//! | [`waits`] | the waits between queues, which the picture has as arrows |

mod load;
pub(crate) mod picture;
mod summary;
mod table;
mod union;
mod waits;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use millstream::TraceSpan;
use serde::Serialize;

use crate::args::TimelineArgs;
use crate::exit::{CommandError, Exit};
use crate::output;
use picture::Caption;
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
    let report = Report {
        exit_code: Exit::Success.code(),
        file: args.file.clone(),
        summary: Summary::of(&spans),
        picture: args.picture.clone(),
    };
    if let Some(picture) = &args.picture {
        fs::write(picture, draw(&args.file, &spans, &report.summary)).map_err(|source| {
            CommandError::PictureUnwritable {
                path: picture.clone(),
                source,
            }
        })?;
    }
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&table::render(&report))?;
    }
    Ok(Exit::Success)
}

fn draw(file: &Path, spans: &[TraceSpan], summary: &Summary) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    let caption = Caption {
        title: &format!("Timeline of {}", name.to_string_lossy()),
        subtitle: &summary.sentence(),
        // Unknown: the file does not list idle queues.
        queues: 0,
        tasks: spans.len() as u64,
    };
    picture::draw(spans, &caption)
}

/// An open file for a timeline.
pub(crate) struct TimelineFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> TimelineFile<'a> {
    pub(crate) fn create(path: &'a Path) -> Result<Self, CommandError> {
        match File::create(path) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(CommandError::TimelineUnwritable {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub(crate) fn write(self, spans: &[TraceSpan]) -> Result<(), CommandError> {
        millstream::timeline::write(spans, self.file).map_err(|source| {
            CommandError::TimelineUnwritable {
                path: self.path.to_owned(),
                source,
            }
        })
    }
}

/// Returns the span of a task, for tests.
#[cfg(test)]
fn span(name: &str, stream: u64, queue: u32, start_ns: u64, end_ns: u64) -> TraceSpan {
    TraceSpan {
        name: name.into(),
        stream,
        queue,
        start_ns,
        end_ns,
        ..TraceSpan::default()
    }
}
