//! Writes timelines to files: converts the spans of [`Device::trace`](crate::Device::trace) to the trace event format,
//! which [Perfetto](https://ui.perfetto.dev), `chrome://tracing` and others display, and `millstream timeline FILE`
//! summarizes.
//!
//! Each span appears twice: on the lane of its queue, which shows what the device ran, and on the lane of its stream
//! within its client, which shows for whom it ran. An arrow leads from a task to each task of another queue that waited
//! for it. Streams that have ended and do not overlap in time share a lane, so a program with a stream for each request
//! has as many lanes as concurrent requests. The file is written incrementally; only lane numbers and the end of each
//! span are kept in memory.
//!
//! ```
//! use millstream::{Cpu, Device, DeviceOptions, timeline};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open_with(Cpu::default(), DeviceOptions::default().trace(1_000_000))?;
//! let stream = device.new_client().new_stream();
//! let ones = stream.create(&[1_u32; 64])?;
//! stream.fill(&ones, 2)?;
//! device.sync().wait()?;
//!
//! let mut file = Vec::new(); // or a `std::fs::File`
//! timeline::write(&device.trace()?, &mut file)?;
//! assert!(String::from_utf8(file)?.contains(r#""name":"fill","cat":"queue","ph":"X""#));
//! # Ok(()) }
//! ```

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::io::{self, BufWriter, Write};

mod lanes;

use lanes::Lanes;

use crate::report::{TraceSpan, TraceWait};

/// The size of the write buffer in bytes: large enough that the number of writes does not matter.
const BUFFER: usize = 64 << 10;

/// The process id of the queues' lanes; those of clients follow. Viewers reserve 0.
const QUEUES: u32 = 1;

/// Writes a timeline: one JSON object in the trace event format, with times in microseconds and three decimals.
///
/// Spans on the lane of a queue have the category `queue`, those on the lane of a stream `stream`, and arrows `wait`.
/// The arguments of a span are its client, stream, queue and cursor, and what it waited for as pairs of queue and
/// cursor. Spans may be in any order, except that an arrow requires the span that is waited for before the span that
/// waits. `out` needs no buffer of its own.
///
/// # Errors
/// The errors of `out`; the file is incomplete then.
pub fn write<'a>(
    spans: impl IntoIterator<Item = &'a TraceSpan>,
    out: impl Write,
) -> io::Result<()> {
    let spans: Vec<&TraceSpan> = spans.into_iter().collect();
    let lanes = Lanes::of(&spans);
    let mut file = File {
        out: BufWriter::with_capacity(BUFFER, out),
        queues: HashMap::new(),
        clients: HashMap::new(),
        named: vec![false; lanes.len()],
        lanes,
        arrows: 0,
    };
    file.out
        .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    file.process(QUEUES, "queues: what the device ran")?;
    for span in spans {
        file.span(span)?;
    }
    file.out.write_all(b"\n]}\n")?;
    file.out.flush()
}

struct File<W: Write> {
    out: BufWriter<W>,
    queues: HashMap<u32, Queue>,
    /// The process id of each client seen so far.
    clients: HashMap<u32, u32>,
    lanes: Lanes,
    /// Whether each lane has been named.
    named: Vec<bool>,
    /// The number of arrows so far, which is their id.
    arrows: u64,
}

/// A queue seen so far.
struct Queue {
    lane: u32,
    /// The last nanosecond of each span by cursor, for spans that came in the order of their cursors, as most do.
    ends: Vec<(u64, u64)>,
    /// The same for spans that came after a greater cursor.
    out_of_order: BTreeMap<u64, u64>,
}

impl Queue {
    fn record(&mut self, cursor: u64, last_ns: u64) {
        match self.ends.last() {
            Some((greatest, _)) if *greatest >= cursor => {
                self.out_of_order.insert(cursor, last_ns);
            }
            _ => self.ends.push((cursor, last_ns)),
        }
    }

    /// Returns the last nanosecond of the span with this cursor, if it has been seen.
    fn end_of(&self, cursor: u64) -> Option<u64> {
        match self
            .ends
            .binary_search_by_key(&cursor, |(cursor, _)| *cursor)
        {
            Ok(place) => Some(self.ends[place].1),
            Err(_) => self.out_of_order.get(&cursor).copied(),
        }
    }
}

/// The position of a lane.
#[derive(Clone, Copy)]
struct Lane {
    process: u32,
    lane: u32,
}

impl Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lane { process, lane } = self;
        write!(f, r#""pid":{process},"tid":{lane}"#)
    }
}

impl<W: Write> File<W> {
    /// Writes the name and the place of a process or a lane.
    fn name(&mut self, kind: &str, at: Lane, name: &str, place: u64) -> io::Result<()> {
        let name = Escaped(name);
        write!(
            self.out,
            r#"{{"name":"{kind}_name","ph":"M","ts":0,{at},"args":{{"name":"{name}"}}}},"#
        )?;
        write!(
            self.out,
            "\n{{\"name\":\"{kind}_sort_index\",\"ph\":\"M\",\"ts\":0,{at},\"args\":{{\"sort_index\":{place}}}}}"
        )
    }

    fn process(&mut self, process: u32, name: &str) -> io::Result<()> {
        let lane = 0;
        self.name("process", Lane { process, lane }, name, process.into())
    }

    /// Writes the name of a lane, before its first span.
    fn lane(&mut self, at: Lane, name: &str, number: u64) -> io::Result<()> {
        self.out.write_all(b",\n")?;
        self.name("thread", at, name, number)
    }

    fn span(&mut self, span: &TraceSpan) -> io::Result<()> {
        let (on_queue, on_stream) = (self.lane_of_queue(span)?, self.lane_of_stream(span)?);
        self.event(span, "queue", on_queue)?;
        self.event(span, "stream", on_stream)?;
        for wait in &span.waits {
            self.arrow(span, *wait, on_queue)?;
        }
        // If the clock went back, write an empty span and not one of centuries.
        let end = span.end_ns.max(span.start_ns);
        let last = (end.saturating_sub(1)).max(span.start_ns);
        if let Some(queue) = self.queues.get_mut(&span.queue) {
            queue.record(span.cursor, last);
        }
        Ok(())
    }

    fn lane_of_queue(&mut self, span: &TraceSpan) -> io::Result<Lane> {
        let process = QUEUES;
        if let Some(Queue { lane, .. }) = self.queues.get(&span.queue) {
            let lane = *lane;
            return Ok(Lane { process, lane });
        }
        let lane = self.queues.len() as u32 + 1;
        let (ends, out_of_order) = (Vec::new(), BTreeMap::new());
        self.queues.insert(
            span.queue,
            Queue {
                lane,
                ends,
                out_of_order,
            },
        );
        let at = Lane { process, lane };
        self.lane(at, &format!("queue {}", span.queue), span.queue.into())?;
        Ok(at)
    }

    fn lane_of_stream(&mut self, span: &TraceSpan) -> io::Result<Lane> {
        let met = self.clients.len() as u32;
        let process = match self.clients.entry(span.client) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let process = *place.insert(QUEUES + 1 + met);
                self.out.write_all(b",\n")?;
                self.process(process, &client_of(span))?;
                process
            }
        };
        let lane = self.lanes.number(span);
        let at = Lane { process, lane };
        if !std::mem::replace(&mut self.named[lane as usize - 1], true) {
            let (client, on_it) = (client_of(span), self.lanes.lane(lane));
            let (name, first) = match on_it.streams {
                1 => (format!("{client}: stream {}", on_it.first), on_it.first),
                many => (format!("{client}: {many} streams in turn"), on_it.first),
            };
            self.lane(at, &name, first)?;
        }
        Ok(at)
    }

    fn event(&mut self, span: &TraceSpan, category: &str, at: Lane) -> io::Result<()> {
        let out = &mut self.out;
        let (name, start) = (Escaped(&span.name), Micros(span.start_ns));
        let took = Micros(span.end_ns.saturating_sub(span.start_ns));
        write!(
            out,
            ",\n{{\"name\":\"{name}\",\"cat\":\"{category}\",\"ph\":\"X\",\"ts\":{start},\"dur\":{took},{at},\"args\":{{\"client\":{}",
            span.client
        )?;
        if !span.client_name.is_empty() {
            write!(out, r#","client_name":"{}""#, Escaped(&span.client_name))?;
        }
        write!(
            out,
            r#","stream":{},"queue":{},"cursor":{}"#,
            span.stream, span.queue, span.cursor
        )?;
        for (index, wait) in span.waits.iter().enumerate() {
            let before = if index == 0 { ",\"waits\":[" } else { "," };
            write!(out, "{before}[{},{}]", wait.queue, wait.cursor)?;
        }
        let end = if span.waits.is_empty() { "}}" } else { "]}}" };
        out.write_all(end.as_bytes())
    }

    /// Writes an arrow from the end of the span that was waited for to the start of this one. None if that span is not
    /// in this file.
    fn arrow(&mut self, span: &TraceSpan, wait: TraceWait, to: Lane) -> io::Result<()> {
        let Some(queue) = self.queues.get(&wait.queue) else {
            return Ok(());
        };
        let Some(last_ns) = queue.end_of(wait.cursor) else {
            return Ok(());
        };
        let (process, lane) = (QUEUES, queue.lane);
        let from = Lane { process, lane };
        self.arrows += 1;
        for (phase, ns, at) in [
            ("\"s\"", last_ns, from),
            ("\"f\",\"bp\":\"e\"", span.start_ns, to),
        ] {
            let (id, ns) = (self.arrows, Micros(ns));
            write!(
                self.out,
                ",\n{{\"name\":\"wait\",\"cat\":\"wait\",\"ph\":{phase},\"id\":{id},\"ts\":{ns},{at}}}"
            )?;
        }
        Ok(())
    }
}

/// Returns the name of a span's client. Spans of older files have a number only.
fn client_of(span: &TraceSpan) -> Cow<'_, str> {
    match &*span.client_name {
        "" => format!("client {}", span.client).into(),
        name => name.into(),
    }
}

/// Nanoseconds, displayed as microseconds: `1234567` as `1234.567`, exactly.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 1_000 {
            0 => write!(f, "{}", self.0 / 1_000),
            rest => write!(f, "{}.{rest:03}", self.0 / 1_000),
        }
    }
}

/// The contents of a JSON string, with quotes and control characters escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self
            .0
            .split_inclusive(|it: char| it < ' ' || it == '"' || it == '\\')
        {
            let mut rest = part.chars();
            match rest.next_back() {
                Some(it @ ('"' | '\\')) => write!(f, "{}\\{it}", rest.as_str())?,
                Some(it) if it < ' ' => write!(f, "{}\\u{:04x}", rest.as_str(), it as u32)?,
                _ => f.write_str(part)?,
            }
        }
        Ok(())
    }
}
