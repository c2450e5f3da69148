//! Reads the spans of a timeline that `millstream::timeline` wrote.
//!
//! Only the lanes of queues are read, because they have every span exactly once. The file is not trusted: events are
//! parsed one at a time, and events of other kinds are ignored.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use millstream::{MAX_QUEUES, TraceSpan, TraceWait};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use crate::exit::CommandError;

/// The most spans that are read. They take about a gigabyte.
const SPANS_MAX: usize = 16_000_000;
/// The size of the read buffer.
const BUFFER: usize = 1 << 20;

/// Reads the spans of a file.
pub(super) fn spans(path: &Path) -> Result<Vec<TraceSpan>, CommandError> {
    let unreadable = |source| CommandError::TimelineUnreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let read = serde_json::from_reader(BufReader::with_capacity(BUFFER, file));
    let Timeline { events } = read.map_err(|source| match source.is_io() {
        true => unreadable(source.into()),
        false => CommandError::NotATimeline {
            path: path.to_owned(),
            source,
        },
    })?;
    match events.0.is_empty() {
        true => Err(CommandError::EmptyTimeline {
            path: path.to_owned(),
        }),
        false => Ok(events.0),
    }
}

#[derive(Deserialize)]
struct Timeline {
    #[serde(rename = "traceEvents")]
    events: Spans,
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
    client_name: String,
    #[serde(default)]
    cursor: u64,
    #[serde(default)]
    waits: Vec<(u32, u64)>,
}

struct Spans(Vec<TraceSpan>);

impl<'de> Deserialize<'de> for Spans {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        file.deserialize_seq(SpanVisitor::default())
    }
}

/// Converts events to spans as they are parsed.
#[derive(Default)]
struct SpanVisitor {
    spans: Vec<TraceSpan>,
    /// The distinct names, so that spans share them.
    names: HashSet<Arc<str>>,
    /// The sum of the lengths of all spans, checked so that no later sum overflows.
    total_ns: u64,
}

impl<'de> Visitor<'de> for SpanVisitor {
    type Value = Spans;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut events: A) -> Result<Spans, A::Error> {
        while let Some(event) = events.next_element::<Event>()? {
            if event.ph == "X" && event.cat == "queue" {
                let span = self.span(event).map_err(Error::custom)?;
                self.spans.push(span);
            }
        }
        Ok(Spans(self.spans))
    }
}

impl SpanVisitor {
    fn span(&mut self, event: Event) -> Result<TraceSpan, String> {
        if self.spans.len() == SPANS_MAX {
            return Err(format!(
                "expected at most {SPANS_MAX} spans, got more; trace a shorter time"
            ));
        }
        let arguments = event.args.unwrap_or_default();
        let (Some(queue), Some(stream)) = (arguments.queue, arguments.stream) else {
            return Err("a span has no queue or no stream".to_owned());
        };
        let waited_for = arguments.waits.iter().map(|(queue, _)| *queue);
        let queues = waited_for.chain([queue]);
        if let Some(queue) = queues.max().filter(|queue| *queue as usize >= MAX_QUEUES) {
            return Err(format!(
                "a span is on queue {queue}, expected a queue below {MAX_QUEUES}"
            ));
        }
        let waits = arguments.waits.into_iter();
        let waits = waits.map(|(queue, cursor)| TraceWait { queue, cursor });
        let (start_ns, took_ns) = (nanoseconds(event.ts)?, nanoseconds(event.dur)?);
        let total = self.total_ns.checked_add(took_ns);
        self.total_ns = total.ok_or("the spans last longer than five hundred years")?;
        Ok(TraceSpan {
            name: self.intern(&event.name),
            client: arguments.client,
            client_name: self.intern(&arguments.client_name),
            stream,
            // The file does not have this, and neither the summary nor the picture uses it.
            stream_ended: false,
            queue,
            cursor: arguments.cursor,
            start_ns,
            end_ns: start_ns + took_ns,
            waits: waits.collect(),
        })
    }
}

impl SpanVisitor {
    /// Returns the shared copy of a name.
    fn intern(&mut self, name: &str) -> Arc<str> {
        match self.names.get(name) {
            Some(name) => name.clone(),
            None => {
                let name: Arc<str> = name.into();
                self.names.insert(name.clone());
                name
            }
        }
    }
}

fn nanoseconds(microseconds: f64) -> Result<u64, String> {
    // Half of the range of `u64`, so that a start plus a length does not overflow.
    const MAX: f64 = (u64::MAX / 2) as f64;
    match (microseconds * 1e3).round() {
        ns if (0.0..MAX).contains(&ns) => Ok(ns as u64),
        _ => Err(format!("{microseconds} microseconds is not a valid time")),
    }
}
