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
use std::io::{self, Write};

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
        out,
        buffer: Vec::with_capacity(BUFFER + 1024),
        queues: HashMap::new(),
        clients: HashMap::new(),
        named: vec![false; lanes.len()],
        lanes,
        arrows: 0,
    };
    file.buffer
        .extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    file.process(QUEUES, "queues: what the device ran");
    for span in spans {
        file.span(span);
        if file.buffer.len() >= BUFFER {
            file.out.write_all(&file.buffer)?;
            file.buffer.clear();
        }
    }
    file.buffer.extend_from_slice(b"\n]}\n");
    file.out.write_all(&file.buffer)?;
    file.out.flush()
}

struct File<W> {
    out: W,
    buffer: Vec<u8>,
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

impl<W> File<W> {
    fn process(&mut self, process: u32, name: &str) {
        let head = format!(
            "{{\"name\":\"process_name\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":0,\"args\":{{\"name\":\""
        );
        self.buffer.extend_from_slice(head.as_bytes());
        escaped(&mut self.buffer, name);
        let line = format!(
            "\"}}}},\n\
             {{\"name\":\"process_sort_index\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":0,\"args\":{{\"sort_index\":{process}}}}}"
        );
        self.buffer.extend_from_slice(line.as_bytes());
    }

    /// Writes the name of a lane, before its first span.
    fn lane(&mut self, at: Lane, name: &str, number: u64) {
        let Lane { process, lane } = at;
        let head = format!(
            ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":{lane},\"args\":{{\"name\":\""
        );
        self.buffer.extend_from_slice(head.as_bytes());
        escaped(&mut self.buffer, name);
        let line = format!(
            "\"}}}},\n\
             {{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":{lane},\"args\":{{\"sort_index\":{number}}}}}"
        );
        self.buffer.extend_from_slice(line.as_bytes());
    }

    fn span(&mut self, span: &TraceSpan) {
        let (on_queue, on_stream) = (self.lane_of_queue(span), self.lane_of_stream(span));
        self.event(span, "queue", on_queue);
        self.event(span, "stream", on_stream);
        for wait in &span.waits {
            self.arrow(span, *wait, on_queue);
        }
        // If the clock went back, write an empty span and not one of centuries.
        let end = span.end_ns.max(span.start_ns);
        let last = (end.saturating_sub(1)).max(span.start_ns);
        if let Some(queue) = self.queues.get_mut(&span.queue) {
            queue.record(span.cursor, last);
        }
    }

    fn lane_of_queue(&mut self, span: &TraceSpan) -> Lane {
        let process = QUEUES;
        if let Some(Queue { lane, .. }) = self.queues.get(&span.queue) {
            let lane = *lane;
            return Lane { process, lane };
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
        self.lane(at, &format!("queue {}", span.queue), span.queue.into());
        at
    }

    fn lane_of_stream(&mut self, span: &TraceSpan) -> Lane {
        let met = self.clients.len() as u32;
        let process = match self.clients.entry(span.client) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let process = *place.insert(QUEUES + 1 + met);
                self.buffer.extend_from_slice(b",\n");
                self.process(process, &client_of(span));
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
            self.lane(at, &name, first);
        }
        at
    }

    fn event(&mut self, span: &TraceSpan, category: &str, at: Lane) {
        let out = &mut self.buffer;
        out.extend_from_slice(b",\n{\"name\":\"");
        escaped(out, &span.name);
        out.extend_from_slice(b"\",\"cat\":\"");
        out.extend_from_slice(category.as_bytes());
        out.extend_from_slice(b"\",\"ph\":\"X\",\"ts\":");
        microseconds(out, span.start_ns);
        out.extend_from_slice(b",\"dur\":");
        microseconds(out, span.end_ns.saturating_sub(span.start_ns));
        place(out, at);
        out.extend_from_slice(b",\"args\":{\"client\":");
        digits(out, span.client.into());
        if !span.client_name.is_empty() {
            out.extend_from_slice(b",\"client_name\":\"");
            escaped(out, &span.client_name);
            out.push(b'"');
        }
        out.extend_from_slice(b",\"stream\":");
        digits(out, span.stream);
        out.extend_from_slice(b",\"queue\":");
        digits(out, span.queue.into());
        out.extend_from_slice(b",\"cursor\":");
        digits(out, span.cursor);
        if !span.waits.is_empty() {
            out.extend_from_slice(b",\"waits\":[");
            for (index, wait) in span.waits.iter().enumerate() {
                out.extend_from_slice(if index == 0 { b"[" } else { b",[" });
                digits(out, wait.queue.into());
                out.push(b',');
                digits(out, wait.cursor);
                out.push(b']');
            }
            out.push(b']');
        }
        out.extend_from_slice(b"}}");
    }

    /// Writes an arrow from the end of the span that was waited for to the start of this one. None if that span is not
    /// in this file.
    fn arrow(&mut self, span: &TraceSpan, wait: TraceWait, to: Lane) {
        let Some(queue) = self.queues.get(&wait.queue) else {
            return;
        };
        let Some(last_ns) = queue.end_of(wait.cursor) else {
            return;
        };
        let (process, lane) = (QUEUES, queue.lane);
        let from = Lane { process, lane };
        self.arrows += 1;
        for (phase, ns, at) in [
            (&b"s\""[..], last_ns, from),
            (b"f\",\"bp\":\"e\"", span.start_ns, to),
        ] {
            let out = &mut self.buffer;
            out.extend_from_slice(b",\n{\"name\":\"wait\",\"cat\":\"wait\",\"ph\":\"");
            out.extend_from_slice(phase);
            out.extend_from_slice(b",\"id\":");
            digits(out, self.arrows);
            out.extend_from_slice(b",\"ts\":");
            microseconds(out, ns);
            place(out, at);
            out.push(b'}');
        }
    }
}

/// Returns the name of a span's client. Spans of older files have a number only.
fn client_of(span: &TraceSpan) -> Cow<'_, str> {
    match &*span.client_name {
        "" => format!("client {}", span.client).into(),
        name => name.into(),
    }
}

fn place(out: &mut Vec<u8>, at: Lane) {
    out.extend_from_slice(b",\"pid\":");
    digits(out, at.process.into());
    out.extend_from_slice(b",\"tid\":");
    digits(out, at.lane.into());
}

/// Writes nanoseconds as microseconds: `1234567` becomes `1234.567`, exactly.
fn microseconds(out: &mut Vec<u8>, ns: u64) {
    digits(out, ns / 1_000);
    let rest = (ns % 1_000) as u16;
    if rest != 0 {
        let digit = |of: u16| b'0' + (rest / of % 10) as u8;
        out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    }
}

/// Writes a whole number. `write!` takes several times as long, and numbers make up most of a file.
fn digits(out: &mut Vec<u8>, mut number: u64) {
    let mut text = [0; 20]; // the digits of `u64::MAX`
    let mut first = text.len();
    loop {
        first -= 1;
        text[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[first..]);
}

/// Writes the contents of a JSON string, with quotes and control characters escaped.
fn escaped(out: &mut Vec<u8>, name: &str) {
    for &byte in name.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit)];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}
