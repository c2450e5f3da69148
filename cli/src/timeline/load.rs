//! Reads timelines as `millstream::timeline` writes them: what is on the lanes of queues, where every span is once.
//!
//! The file is not trusted. Events are looked at one by one, and only spans are kept; what is of others is passed over.

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

/// Spans of the longest timeline that is read: they take about a gigabyte.
const SPANS_MAX: usize = 16_000_000;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 20;

/// The spans of a file.
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

/// One event, as much of it as matters. Those that are no spans of ours lack the rest.
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
    args: Option<Place>,
}

#[derive(Default, Deserialize)]
struct Place {
    queue: Option<u32>,
    stream: Option<u64>,
    // Files of before had neither of these.
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
        file.deserialize_seq(Gather::default())
    }
}

/// Turns events into spans as they come.
#[derive(Default)]
struct Gather {
    spans: Vec<TraceSpan>,
    /// Names are few, and spans many.
    names: HashSet<Arc<str>>,
    /// The time of all spans together: what anybody sums up later is no more.
    total_ns: u64,
}

impl<'de> Visitor<'de> for Gather {
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

impl Gather {
    fn span(&mut self, event: Event) -> Result<TraceSpan, String> {
        if self.spans.len() == SPANS_MAX {
            return Err(format!("it has more than {SPANS_MAX} spans"));
        }
        let place = event.args.unwrap_or_default();
        let (Some(queue), Some(stream)) = (place.queue, place.stream) else {
            return Err("a span without its queue and stream".to_owned());
        };
        let waited_for = place.waits.iter().map(|(queue, _)| *queue);
        let queues = waited_for.chain([queue]);
        if let Some(queue) = queues.max().filter(|queue| *queue as usize >= MAX_QUEUES) {
            return Err(format!("queue {queue}: a device has at most {MAX_QUEUES}"));
        }
        let waits = place.waits.into_iter();
        let waits = waits.map(|(queue, cursor)| TraceWait { queue, cursor });
        let (start_ns, took_ns) = (nanoseconds(event.ts)?, nanoseconds(event.dur)?);
        let total = self.total_ns.checked_add(took_ns);
        self.total_ns = total.ok_or("spans of more than five hundred years")?;
        Ok(TraceSpan {
            name: self.kept(&event.name),
            client: place.client,
            client_name: self.kept(&place.client_name),
            stream,
            // What is not in the file is nobody's concern here: lanes are not drawn by streams.
            stream_ended: false,
            queue,
            cursor: place.cursor,
            start_ns,
            end_ns: start_ns + took_ns,
            waits: waits.collect(),
        })
    }
}

impl Gather {
    /// One copy of each name.
    fn kept(&mut self, name: &str) -> Arc<str> {
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
    // Half of what a u64 holds, so that a start and a length are never more than all of it.
    const MAX: f64 = (u64::MAX / 2) as f64;
    match (microseconds * 1e3).round() {
        ns if (0.0..MAX).contains(&ns) => Ok(ns as u64),
        _ => Err(format!(
            "{microseconds} microseconds are no time of a device"
        )),
    }
}
