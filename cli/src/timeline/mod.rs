//! `millstream timeline`: summarizes a saved timeline.
//!
//! | module | contents |
//! | --- | --- |
//! | [`summary`] | computes how busy queues were, their longest gaps and the times of tasks |
//! | [`picture`] | draws the timeline as SVG |

mod picture;
mod summary;

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use millstream::device::MAX_QUEUES;
use millstream::report::{TraceSpan, TraceWait};
use serde::Deserialize;
use serde_json::json;

use crate::args::TimelineArgs;
use crate::exit::{CommandError, Exit, FileRole, picture as role};
use crate::output::Report;

pub(crate) use picture::{Caption, draw};
pub(crate) use summary::Summary;

/// Runs the command.
pub(crate) fn run(args: &TimelineArgs) -> Result<Report, CommandError> {
    let spans = spans(&args.file)?;
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

// Reads the spans of a timeline that `millstream::timeline` wrote.
//
// Only the lanes of queues are read, because they have every span exactly once. The file is not trusted, and events of
// other kinds are ignored.

/// The largest file that is read: some four million spans, which take three times as much memory.
const BYTES_MAX: u64 = 2 << 30;

/// Reads the spans of a file.
fn spans(path: &Path) -> Result<Vec<TraceSpan>, CommandError> {
    let role = FileRole::new(
        "timeline",
        path,
        "name a file that `millstream demo --timeline FILE` or `millstream::timeline::write` wrote completely, for a device with `DeviceOptions::trace`",
    );
    let unreadable = |source| role.cannot_be("read", source);
    if fs::metadata(path).map_err(unreadable)?.len() > BYTES_MAX {
        return Err(role.wrong("the file has more than 2 GiB; trace a shorter time"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let timeline: Timeline = match serde_json::from_reader(BufReader::new(file)) {
        Err(source) if source.is_io() => Err(role.cannot_be("read", source.into())),
        read => read.map_err(|source| role.wrong(source)),
    }?;
    let spans = spans_of(timeline.events).map_err(|error| role.wrong(error))?;
    match spans.is_empty() {
        true => Err(role.error(format!("timeline `{}` has no tasks", path.display()), None)),
        false => Ok(spans),
    }
}

#[derive(Deserialize)]
struct Timeline {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

/// The fields of an event that are read. Events that are not spans of millstream may lack them.
#[derive(Deserialize)]
struct Event {
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    /// In microseconds. An f64 keeps the nanoseconds of the first hundred days.
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    args: Option<Arguments>,
}

#[derive(Default, Deserialize)]
struct Arguments {
    queue: Option<u32>,
    stream: Option<u64>,
    // Older files lack the fields below.
    #[serde(default)]
    client: u32,
    #[serde(default)]
    cursor: u64,
    #[serde(default)]
    waits: Vec<(u32, u64)>,
}

fn spans_of(events: Vec<Event>) -> Result<Vec<TraceSpan>, String> {
    // The sum of the lengths of all spans, checked so that no later sum overflows.
    let mut total_ns = 0_u64;
    let is_span = |event: &Event| event.ph == "X" && event.cat == "queue";
    let span = |event: Event| {
        let arguments = event.args.unwrap_or_default();
        let (Some(queue), Some(stream)) = (arguments.queue, arguments.stream) else {
            return Err("a span has no queue or no stream".to_owned());
        };
        let queues = arguments.waits.iter().map(|(queue, _)| *queue);
        if let Some(queue) = queues
            .chain([queue])
            .find(|queue| *queue as usize >= MAX_QUEUES)
        {
            return Err(format!(
                "a span is on queue {queue}, expected a queue below {MAX_QUEUES}"
            ));
        }
        let (start_ns, took_ns) = (nanoseconds(event.ts)?, nanoseconds(event.dur)?);
        let total = total_ns.checked_add(took_ns);
        total_ns = total.ok_or("the spans last longer than five hundred years")?;
        let waits = arguments.waits.into_iter();
        Ok(TraceSpan {
            name: event.name.into(),
            client: arguments.client,
            stream,
            queue,
            cursor: arguments.cursor,
            start_ns,
            end_ns: start_ns + took_ns,
            waits: waits
                .map(|(queue, cursor)| TraceWait { queue, cursor })
                .collect(),
            // Neither the summary nor the picture uses the rest.
            ..TraceSpan::default()
        })
    };
    events.into_iter().filter(is_span).map(span).collect()
}

fn nanoseconds(microseconds: f64) -> Result<u64, String> {
    // Half of the range of `u64`, so that a start plus a length does not overflow.
    const MAX: f64 = (u64::MAX / 2) as f64;
    match (microseconds * 1e3).round() {
        ns if (0.0..MAX).contains(&ns) => Ok(ns as u64),
        _ => Err(format!("{microseconds} microseconds is not a valid time")),
    }
}
