//! Timelines as files: what [`Device::trace`](crate::Device::trace) tells, in the trace event format, which
//! [Perfetto](https://ui.perfetto.dev), `chrome://tracing` and others show, and `millstream timeline FILE` sums up.
//!
//! Each span is there twice: on the lane of its queue, which is what the device did, and on the lane of its stream,
//! which is whose work it was. The file is written as the spans come: nothing is gathered but the numbers of lanes.
//!
//! ```
//! use millstream::{Cpu, Device, DeviceOptions, timeline};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open_with(Cpu::default(), DeviceOptions::default().trace(1_000_000))?;
//! let stream = device.client().stream();
//! let ones = stream.create(&[1_u32; 64])?;
//! stream.fill(&ones, 2)?;
//! device.sync().wait()?;
//!
//! let mut file = Vec::new(); // or a `std::fs::File`
//! timeline::write(&device.trace()?, &mut file)?;
//! assert!(String::from_utf8(file)?.contains(r#""name":"fill","cat":"queue","ph":"X""#));
//! # Ok(()) }
//! ```

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Write};

use crate::TraceSpan;

/// Bytes that are gathered before they are written: large enough that the calls do not count.
const BUFFER: usize = 64 << 10;

/// The process that the queues' lanes belong to. Viewers keep 0 for themselves.
const QUEUES: u32 = 1;
/// The process that the streams' lanes belong to.
const STREAMS: u32 = 2;

/// Writes a timeline: one JSON object in the trace event format, with times in microseconds that keep their nanoseconds.
///
/// What is on the lane of a queue has the category `queue`, what is on that of a stream `stream`; each of both tells its
/// queue and its stream. No particular order of spans is needed. `out` needs no buffer of its own.
///
/// # Errors
/// Those of `out`: what it has been given by then is no whole file.
pub fn write<'a>(
    spans: impl IntoIterator<Item = &'a TraceSpan>,
    out: impl Write,
) -> io::Result<()> {
    let mut file = File {
        out,
        buffer: Vec::with_capacity(BUFFER + 1024),
        queues: HashMap::new(),
        streams: HashMap::new(),
    };
    file.buffer
        .extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    file.process(QUEUES, "queues: what the device ran");
    file.buffer.extend_from_slice(b",\n");
    file.process(STREAMS, "streams: whose work it was");
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
    /// The lane of each queue and stream that was met. A lane's number is not the stream's: viewers keep 32 bits of it.
    queues: HashMap<u64, u64>,
    streams: HashMap<u64, u64>,
}

impl<W> File<W> {
    fn process(&mut self, process: u32, name: &str) {
        let line = format!(
            "{{\"name\":\"process_name\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":0,\"args\":{{\"name\":\"{name}\"}}}},\n\
             {{\"name\":\"process_sort_index\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":0,\"args\":{{\"sort_index\":{process}}}}}"
        );
        self.buffer.extend_from_slice(line.as_bytes());
    }

    fn span(&mut self, span: &TraceSpan) {
        let queue = u64::from(span.queue);
        let on_queue = lane(&mut self.buffer, &mut self.queues, QUEUES, "queue", queue);
        let lanes = &mut self.streams;
        let on_stream = lane(&mut self.buffer, lanes, STREAMS, "stream", span.stream);
        self.event(span, "queue", QUEUES, on_queue);
        self.event(span, "stream", STREAMS, on_stream);
    }

    fn event(&mut self, span: &TraceSpan, category: &str, process: u32, lane: u64) {
        let out = &mut self.buffer;
        out.extend_from_slice(b",\n{\"name\":\"");
        escaped(out, &span.name);
        out.extend_from_slice(b"\",\"cat\":\"");
        out.extend_from_slice(category.as_bytes());
        out.extend_from_slice(b"\",\"ph\":\"X\",\"ts\":");
        microseconds(out, span.start_ns);
        out.extend_from_slice(b",\"dur\":");
        // A clock that went back makes an empty span, not one of centuries.
        microseconds(out, span.end_ns.saturating_sub(span.start_ns));
        out.extend_from_slice(b",\"pid\":");
        digits(out, process.into());
        out.extend_from_slice(b",\"tid\":");
        digits(out, lane);
        out.extend_from_slice(b",\"args\":{\"queue\":");
        digits(out, span.queue.into());
        out.extend_from_slice(b",\"stream\":");
        digits(out, span.stream);
        out.extend_from_slice(b"}}");
    }
}

/// The lane of a queue or stream; at the first span of it, says its name.
fn lane(
    out: &mut Vec<u8>,
    lanes: &mut HashMap<u64, u64>,
    process: u32,
    kind: &str,
    number: u64,
) -> u64 {
    let next = lanes.len() as u64 + 1;
    let place = match lanes.entry(number) {
        Entry::Occupied(known) => return *known.get(),
        Entry::Vacant(place) => place,
    };
    let line = format!(
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":{next},\"args\":{{\"name\":\"{kind} {number}\"}}}},\n\
         {{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":{next},\"args\":{{\"sort_index\":{number}}}}}"
    );
    out.extend_from_slice(line.as_bytes());
    *place.insert(next)
}

/// Nanoseconds as microseconds: `1234567` is `1234.567`, exactly.
fn microseconds(out: &mut Vec<u8>, ns: u64) {
    digits(out, ns / 1_000);
    let rest = (ns % 1_000) as u16;
    if rest != 0 {
        let digit = |of: u16| b'0' + (rest / of % 10) as u8;
        out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
    }
}

/// A whole number. `write!` takes several times as long, and these are most of a file.
fn digits(out: &mut Vec<u8>, mut number: u64) {
    let mut text = [0; 20]; // as many as the greatest has
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

/// The inside of a JSON string: any name will do, also one that has quotes, or breaks lines.
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
