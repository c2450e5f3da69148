//! What kernels print: the lines that the launches of a device have printed.
//!
//! ```text
//! server                          queue of the CPU or the simulator            client
//! launch of a kernel that prints:
//!   expect(point, stream)
//!                                 threads say lines: Lines (of this launch)
//!                                 at its end: add(point, lines)
//!                                 publishes the cursor
//!                                                                               the stream's tasks have passed:
//!                                                                               take(stream)
//! ```
//! A launch is known by its point, so neither a task nor an entry of a queue carries anything for it. The queue adds the lines
//! before it publishes the cursor, also those of a launch that fails later. The tasks of a stream run in order, so its lines
//! are in order, too. Everything is bounded (I12): the lines of a launch, those of a device, and the launches that are
//! expected.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use millstream_ir::Program;
use millstream_ir::ssa::{Function, ThreadPosition};
use millstream_sync::facade::{Mutex, lock};

use crate::id::{Cursor, MAX_QUEUES, Point, StreamId};
use crate::kernel::{Kernel, Source};
use crate::lines::{Kept, Lines, PRINTED_LINES_MAX};

/// The most lines of all launches of a device that no `Prints::take` has returned yet.
const LINES_MAX: usize = 10 * PRINTED_LINES_MAX;

/// The most launches of a queue that are expected to print: more than a queue holds. Those that never ran stay until a later
/// one of their queue ends.
const EXPECTED_MAX: usize = 1 << 16;

/// A line that a thread has printed. Displayed as `saxpy thread 17 (src/main.rs:8): x = 3`.
///
/// If lines were not kept, a line without a thread says how many.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Printed {
    /// The kernel; empty for the number of lines that were dropped before a call of `printed` returned them.
    pub kernel: Arc<str>,
    /// The thread. `None` for the number of lines that were not kept.
    pub thread: Option<ThreadPosition>,
    /// The source file; empty if it is unknown.
    pub file: Arc<str>,
    /// The line in it, 0 if it is unknown.
    pub line: u32,
    /// The text.
    pub text: String,
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kernel)?;
        if let Some(thread) = &self.thread {
            write!(f, " {thread}")?;
        }
        match (self.line, &*self.file) {
            (0, _) => {}
            (line, "") => write!(f, " (line {line})")?,
            (line, file) => write!(f, " ({file}:{line})")?,
        }
        match &*self.kernel {
            "" => f.write_str(&self.text),
            _ => write!(f, ": {}", self.text),
        }
    }
}

/// The lines of the launches of a device.
#[derive(Debug, Default)]
pub struct Prints(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The streams of launches that print, for each queue in the order of the cursors.
    expected: [VecDeque<(Cursor, StreamId)>; MAX_QUEUES],
    /// The lines of each stream that has some, so that a stream takes its own without a look at those of others.
    streams: HashMap<StreamId, OfStream>,
    /// The streams of all batches by the numbers of these: the oldest first.
    order: BTreeMap<u64, StreamId>,
    /// The number of the next batch.
    next: u64,
    /// The lines of all batches.
    lines: usize,
}

/// The lines of one stream.
#[derive(Debug, Default)]
struct OfStream {
    /// Those of each launch, with its number; the oldest first.
    batches: VecDeque<(u64, Vec<Printed>)>,
    /// The lines before these that were dropped.
    dropped: u64,
}

impl Prints {
    /// A launch of a kernel that prints gets this point. Called in the order of the cursors of each queue.
    #[cold]
    pub fn expect(&self, point: Point, stream: StreamId) {
        let mut state = lock(&self.0);
        let expected = &mut state.expected[point.queue.index()];
        if expected.len() >= EXPECTED_MAX {
            expected.pop_front();
        }
        expected.push_back((point.cursor, stream));
    }

    /// The launch at this point has ended. Called in the order of the cursors of each queue, before the cursor is published.
    #[cold]
    pub fn add(&self, point: Point, kernel: &Kernel, lines: Lines) {
        let Kept { lines, said } = lines.kept();
        let lines = match said {
            0 => Vec::new(),
            _ => printed(kernel, lines, said),
        };
        let mut state = lock(&self.0);
        let expected = &mut state.expected[point.queue.index()];
        let stream = loop {
            match expected.front() {
                Some((cursor, stream)) if *cursor <= point.cursor => {
                    let (cursor, stream) = (*cursor, *stream);
                    expected.pop_front();
                    if cursor == point.cursor {
                        break stream;
                    }
                }
                // A launch that no stream has made, such as one of a backend's own test.
                _ => return,
            }
        };
        if !lines.is_empty() {
            state.push(stream, lines);
        }
    }

    /// Takes the lines of a stream.
    pub fn take(&self, stream: StreamId) -> Vec<Printed> {
        let mut state = lock(&self.0);
        let Some(OfStream { batches, dropped }) = state.streams.remove(&stream) else {
            return Vec::new();
        };
        for (number, lines) in &batches {
            state.order.remove(number);
            state.lines -= lines.len();
        }
        drop(state);
        let first = (dropped > 0).then(|| Printed {
            text: format!("... {dropped} older lines were dropped before a call of `printed`"),
            ..omitted("".into())
        });
        let lines = batches.into_iter().flat_map(|(_, lines)| lines);
        first.into_iter().chain(lines).collect()
    }
}

impl State {
    /// Adds the lines of a launch, and drops the oldest lines if there are too many.
    fn push(&mut self, stream: StreamId, lines: Vec<Printed>) {
        let number = self.next;
        self.next += 1;
        self.lines += lines.len();
        self.order.insert(number, stream);
        let own = self.streams.entry(stream).or_default();
        own.batches.push_back((number, lines));
        while self.lines > LINES_MAX
            && let Some((_, stream)) = self.order.pop_first()
            && let Entry::Occupied(mut own) = self.streams.entry(stream)
            && let Some((_, oldest)) = own.get_mut().batches.pop_front()
        {
            self.lines -= oldest.len();
            own.get_mut().dropped += oldest.len() as u64;
            if own.get().batches.is_empty() {
                // Nothing is kept of a stream that may never ask.
                own.remove();
            }
        }
    }
}

/// Returns the lines of a launch, and one that says how many more there were.
fn printed(
    kernel: &Kernel,
    lines: BTreeMap<(ThreadPosition, u64), (u32, String)>,
    said: u64,
) -> Vec<Printed> {
    let file = function_of(kernel).map_or("", |function| &function.file);
    let file: Arc<str> = file.into();
    let more = said - lines.len() as u64;
    let printed = |((thread, _), (line, text))| Printed {
        kernel: kernel.name().clone(),
        thread: Some(thread),
        file: file.clone(),
        line,
        text,
    };
    let more = (more > 0).then(|| Printed {
        text: format!("... and {more} more lines"),
        ..omitted(kernel.name().clone())
    });
    lines.into_iter().map(printed).chain(more).collect()
}

/// Returns a line that stands for others.
fn omitted(kernel: Arc<str>) -> Printed {
    Printed {
        kernel,
        thread: None,
        file: "".into(),
        line: 0,
        text: String::new(),
    }
}

/// Returns the function of a kernel, if its program is one.
fn function_of(kernel: &Kernel) -> Option<&Function> {
    kernel.sources().iter().find_map(|source| match source {
        Source::Ir(program) => match &**program {
            Program::Ssa(function) => Some(function),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use millstream_sync::slots::SlotId;

    use crate::id::QueueId;

    use super::*;

    fn stream(index: u32) -> StreamId {
        StreamId(SlotId {
            index,
            generation: 1,
        })
    }

    fn thread(number: u64) -> ThreadPosition {
        ThreadPosition(vec![number])
    }

    /// Ends a launch of a stream that prints one line for each of these threads.
    fn launch(prints: &Prints, cursor: Cursor, of: StreamId, threads: std::ops::Range<u64>) {
        let point = Point::new(QueueId(0), cursor);
        prints.expect(point, of);
        let lines = Lines::default();
        for number in threads.rev() {
            lines.say(thread(number), 8, || format!("{number}"));
        }
        prints.add(point, &Kernel::new("k"), lines);
    }

    #[test]
    fn lines_of_a_launch_are_in_the_order_of_threads_and_bounded() {
        let prints = Prints::default();
        launch(&prints, 1, stream(0), 0..PRINTED_LINES_MAX as u64 + 3);
        let printed = prints.take(stream(0));
        assert_eq!(printed.len(), PRINTED_LINES_MAX + 1);
        assert_eq!(printed[0].to_string(), "k thread 0 (line 8): 0");
        assert_eq!(printed[PRINTED_LINES_MAX - 1].text, "999");
        assert_eq!(
            printed[PRINTED_LINES_MAX].to_string(),
            "k: ... and 3 more lines"
        );
        assert!(prints.take(stream(0)).is_empty());
    }

    #[test]
    fn streams_have_their_own_lines() {
        let prints = Prints::default();
        launch(&prints, 1, stream(0), 0..1);
        launch(&prints, 2, stream(1), 1..2);
        launch(&prints, 3, stream(0), 2..3);
        // Never runs, and the next one of its queue goes on.
        prints.expect(Point::new(QueueId(0), 4), stream(1));
        launch(&prints, 5, stream(1), 3..4);
        let texts = |of| prints.take(of).into_iter().map(|line| line.text);
        assert!(texts(stream(0)).eq(["0", "2"]));
        assert!(texts(stream(1)).eq(["1", "3"]));
    }

    /// Streams that take nothing cost neither the launches of others nor what these take.
    #[test]
    fn lines_of_many_streams_are_bounded_and_found_i12() {
        let prints = Prints::default();
        let streams = 3 * LINES_MAX as u32;
        for index in 0..streams {
            launch(&prints, u64::from(index) + 1, stream(index), 0..1);
        }
        {
            let state = lock(&prints.0);
            assert_eq!((state.lines, state.order.len()), (LINES_MAX, LINES_MAX));
            assert_eq!(state.streams.len(), LINES_MAX);
        }
        let taken = |index| prints.take(stream(index)).len();
        let first = streams - LINES_MAX as u32;
        assert!((0..streams).all(|index| taken(index) == usize::from(index >= first)));
        let state = lock(&prints.0);
        assert!(state.lines == 0 && state.order.is_empty() && state.streams.is_empty());
    }

    #[test]
    fn oldest_lines_are_dropped_with_their_number_i12() {
        let prints = Prints::default();
        for cursor in 1..=12 {
            launch(&prints, cursor, stream(0), 0..1000);
        }
        let printed = prints.take(stream(0));
        assert_eq!(printed.len(), LINES_MAX + 1);
        assert_eq!(
            printed[0].to_string(),
            "... 2000 older lines were dropped before a call of `printed`"
        );
    }
}
