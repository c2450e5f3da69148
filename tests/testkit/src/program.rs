//! The state of a program: its streams, its buffers with their expected contents, and its pending reads.

use std::ops::Range;
use std::sync::Arc;

use millstream::error::Full;
use millstream::{
    CancelToken, ComputeClient, CubeCount, Error, Handle, Pending, Stream, StreamPoint,
    error::MemoryError,
};

use crate::answers::{self, Expected};
use crate::config::{ProgramConfig, Sizes};
use crate::contents::{AllowedFailures, Contents, Pattern};
use crate::dice::Dice;
use crate::end::End;
use crate::kernels::Kernels;
use crate::outside::Outside;
use crate::recorded::Recorded;
use crate::tally::{Count, Tally};

/// The maximum number of cubes of a launch.
const CUBES_MAX: usize = 5;

/// A buffer and its expected contents.
pub(crate) struct Buffer {
    pub(crate) id: u64,
    pub(crate) handle: Handle<u32>,
    pub(crate) contents: Contents,
    /// The reasons for which its reservation may have failed.
    reservation: AllowedFailures,
}

/// A part of a buffer: the index of the buffer, the range of elements, and a view of them.
pub(crate) struct Part {
    pub(crate) at: usize,
    pub(crate) range: Range<usize>,
    pub(crate) view: Handle<u32>,
}

/// A stream, and the number of ticks that were submitted to it.
pub(crate) struct CountedStream {
    pub(crate) stream: Stream,
    pub(crate) id: u32,
    /// The index of its client.
    client: usize,
    pub(crate) ticks: u64,
}

/// A read whose answer a later step receives.
pub(crate) struct PendingRead {
    pending: Option<Pending<Vec<u32>>>,
    expected: Expected,
    tally: Arc<Tally>,
}

impl Drop for PendingRead {
    fn drop(&mut self) {
        if self.pending.is_some() {
            self.tally.increment(Count::Withdrawn);
        }
    }
}

/// A task that was submitted to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submitted {
    /// The id of the stream in its program.
    pub stream: u32,
    /// The index of the stream's client among the program's clients.
    pub client: usize,
    /// The name of the task.
    pub task: &'static str,
}

/// The result of a step.
pub type Stepped = Result<(), End>;

/// A random program. The [crate documentation](crate) describes it.
pub struct Program {
    pub(crate) config: ProgramConfig,
    pub(crate) clients: Vec<ComputeClient>,
    pub(crate) kernels: Kernels,
    pub(crate) streams: Vec<CountedStream>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) points: Vec<StreamPoint>,
    pub(crate) recorded: Vec<Recorded>,
    pub(crate) tokens: Vec<CancelToken>,
    /// The tasks that later steps end.
    pub(crate) outside: Vec<Outside>,
    pending: Vec<PendingRead>,
    submitted: Vec<Submitted>,
    streams_made: u32,
    buffers_made: u64,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").finish_non_exhaustive()
    }
}

impl Program {
    /// Creates a program with at least one client, its first streams and its first buffers.
    ///
    /// # Errors
    /// [`End`] if one of its first calls is refused.
    pub fn new(
        config: ProgramConfig,
        clients: Vec<ComputeClient>,
        kernels: Kernels,
        dice: &mut Dice,
    ) -> Result<Self, End> {
        config.tally.add(Count::Clients, clients.len() as u64);
        let mut program = Self {
            config,
            clients,
            kernels,
            streams: Vec::new(),
            buffers: Vec::new(),
            points: Vec::new(),
            recorded: Vec::new(),
            tokens: Vec::new(),
            outside: Vec::new(),
            pending: Vec::new(),
            submitted: Vec::new(),
            streams_made: 0,
            buffers_made: 0,
        };
        for _ in 0..1 + dice.below(program.config.streams_max) {
            let stream = program.new_stream(dice);
            program.streams.push(stream);
        }
        if let Sizes::All(_) = program.config.sizes {
            for _ in 0..program.config.buffers_max {
                program.create(dice)?;
            }
        }
        Ok(program)
    }

    /// Returns one of its streams.
    pub fn stream(&self, dice: &mut Dice) -> Stream {
        self.streams[dice.below(self.streams.len())].stream.clone()
    }

    /// Returns its clients.
    pub fn clients(&self) -> &[ComputeClient] {
        &self.clients
    }

    /// Returns each of its streams with its id.
    pub fn streams(&self) -> impl Iterator<Item = (u32, &Stream)> {
        self.streams.iter().map(|of| (of.id, &of.stream))
    }

    /// Returns a handle of one of its buffers, if there is one.
    pub fn any_handle(&self) -> Option<Handle<u32>> {
        self.buffers.first().map(|buffer| buffer.handle.clone())
    }

    /// Returns the tasks that were submitted since the last call: launches, fills and copies, but no reads.
    pub fn take_submitted(&mut self) -> Vec<Submitted> {
        std::mem::take(&mut self.submitted)
    }

    pub(crate) fn note_task(&mut self, stream: &Stream, task: &'static str) {
        let of = self.streams.iter().find(|of| of.stream.id() == stream.id());
        if let Some(&CountedStream { id, client, .. }) = of {
            self.submitted.push(Submitted {
                stream: id,
                client,
                task,
            });
        }
    }

    /// Returns the counters and violations.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.config.tally
    }

    pub(crate) fn refused(&self, what: &str, error: Error) -> End {
        self.config.refused(what, &error)
    }

    /// Notes a violation and returns the end of the program.
    pub(crate) fn violation(&self, message: impl Into<String>) -> End {
        self.tally().note_wrong(message);
        End::Wrong
    }

    /// Returns `true` if a call was refused because it reads bytes that it writes. Accepting such a call is a
    /// violation.
    pub(crate) fn is_refused_overlap(
        &self,
        what: &str,
        overlaps: bool,
        answer: Result<(), Error>,
    ) -> Result<bool, End> {
        match answer {
            Err(Error::Argument(_)) if overlaps => Ok(true),
            Ok(()) if overlaps => {
                Err(self.violation(format!("{what}: a call that overlaps itself was accepted")))
            }
            Ok(()) => Ok(false),
            Err(error) => Err(self.refused(what, error)),
        }
    }

    pub(crate) fn new_stream(&mut self, dice: &mut Dice) -> CountedStream {
        self.streams_made += 1;
        self.tally().increment(Count::Streams);
        let client = dice.below(self.clients.len());
        CountedStream {
            stream: self.clients[client].new_stream(),
            id: self.streams_made,
            client,
            ticks: 0,
        }
    }

    pub(crate) fn pattern(dice: &mut Dice) -> Pattern {
        Pattern {
            base: dice.number(),
            stride: dice.number(),
        }
    }

    /// Returns a random number of cubes.
    pub fn cubes(dice: &mut Dice) -> CubeCount {
        CubeCount::d1(1 + dice.below(CUBES_MAX) as u32)
    }

    /// Returns the length of a new buffer.
    pub(crate) fn size(&self, dice: &mut Dice) -> usize {
        match self.config.sizes {
            Sizes::All(elements) => elements,
            Sizes::UpTo(most) => dice.log_uniform(most),
        }
    }

    /// Returns the index of a buffer.
    pub(crate) fn any(&self, dice: &mut Dice) -> usize {
        dice.below(self.buffers.len())
    }

    /// Returns a part of a buffer, often all of it or from its start.
    pub(crate) fn part(&self, dice: &mut Dice) -> Result<Part, End> {
        let at = self.any(dice);
        let all = self.buffers[at].contents.len();
        let len = match dice.below(3) {
            0 => dice.below(all + 1),
            _ => all,
        };
        self.part_of(dice, at, len)
    }

    /// Returns a part with `len` elements of a buffer that has at least that number, if there is one.
    pub(crate) fn part_with(&self, dice: &mut Dice, len: usize) -> Result<Option<Part>, End> {
        let is_long = |at: &usize| self.buffers[*at].contents.len() >= len;
        let count = (0..self.buffers.len()).filter(is_long).count();
        let at = (0..self.buffers.len())
            .filter(is_long)
            .nth(dice.below(count));
        at.map(|at| self.part_of(dice, at, len)).transpose()
    }

    /// Returns the part that is a whole buffer.
    pub(crate) fn whole_part(&self, at: usize) -> Part {
        let buffer = &self.buffers[at];
        Part {
            at,
            range: 0..buffer.contents.len(),
            view: buffer.handle.clone(),
        }
    }

    fn part_of(&self, dice: &mut Dice, at: usize, len: usize) -> Result<Part, End> {
        let buffer = &self.buffers[at];
        let start = match dice.one_in(2) {
            true => 0,
            false => dice.below(buffer.contents.len() - len + 1),
        };
        let start = start - start % self.config.part_alignment;
        let range = start..start + len;
        let view = buffer.handle.slice(range.clone());
        let view = view.map_err(|error| self.refused("slice", error.into()))?;
        Ok(Part { at, range, view })
    }

    /// Returns the expected contents of a part.
    pub(crate) fn contents(&self, part: &Part) -> Contents {
        self.buffers[part.at].contents.cut(part.range.clone())
    }

    /// Sets the expected contents of a part.
    pub(crate) fn set_contents(&mut self, part: &Part, contents: &Contents) {
        self.buffers[part.at]
            .contents
            .paste(part.range.start, contents);
    }

    /// Sets the expected contents of a part after a task that overwrites it. The task may fail for these reasons.
    pub(crate) fn set_overwritten(
        &mut self,
        part: &Part,
        pattern: Pattern,
        allowed: AllowedFailures,
    ) {
        let buffer = &self.buffers[part.at];
        let allowed = allowed.and(self.config.allowed).and(buffer.reservation);
        let contents = Contents::defined(part.range.len(), pattern, allowed);
        self.set_contents(part, &contents);
    }

    /// Sets the expected contents of a part after a task that adds to it. The task may fail for these reasons.
    pub(crate) fn set_added(&mut self, part: &Part, by: u32, allowed: AllowedFailures) {
        let allowed = allowed.and(self.config.allowed);
        let contents = self.contents(part).added(by, allowed);
        self.set_contents(part, &contents);
    }

    /// Drops a buffer if their number is at its maximum. A new buffer may get its memory.
    pub(crate) fn make_room(&mut self, dice: &mut Dice) {
        if self.buffers.len() == self.config.buffers_max {
            let old = self.any(dice);
            self.buffers.swap_remove(old);
        }
    }

    /// Adds a new buffer. A refusal by a client's limit is no violation.
    pub(crate) fn add_buffer(
        &mut self,
        dice: &mut Dice,
        made: Result<Handle<u32>, Error>,
        contents: Contents,
        reservation: AllowedFailures,
    ) -> Stepped {
        let handle = match made {
            Ok(handle) => handle,
            Err(error) => return self.count_limit("create", error),
        };
        self.tally().increment(Count::Buffers);
        self.tally().add(Count::Bytes, handle.size());
        self.make_room(dice);
        self.buffers_made += 1;
        let reservation = reservation.and(self.config.allowed);
        self.buffers.push(Buffer {
            id: self.buffers_made,
            handle,
            contents: contents.by_one_task(reservation),
            reservation,
        });
        Ok(())
    }

    /// Counts a refusal by the client's limit. On a stream that does not wait, or not beyond a deadline, that is
    /// [`Error::Busy`]. Any other refusal ends the program.
    pub(crate) fn count_limit(&self, what: &str, error: Error) -> Stepped {
        match error {
            Error::Memory(
                MemoryError::Limit { limit, .. } | MemoryError::AboveLimit { limit, .. },
            )
            | Error::Busy {
                what: Full::Memory { limit, .. },
            } if self.config.limit_bytes == Some(limit) => {
                self.tally().increment(Count::Limits);
                Ok(())
            }
            error => Err(self.refused(what, error)),
        }
    }

    /// Returns the expected result of a read of these contents.
    pub(crate) fn expected(&self, what: &'static str, contents: Contents) -> Expected {
        Expected {
            what,
            contents,
            allowed: self.config.allowed,
        }
    }

    /// Reads a part. A later step receives the answer.
    pub(crate) fn start_read(&mut self, stream: &Stream, part: &Part) {
        self.tally().increment(Count::Requests);
        self.pending.push(PendingRead {
            pending: Some(stream.read(&part.view)),
            expected: self.expected("a read", self.contents(part)),
            tally: self.tally().clone(),
        });
    }

    /// Returns the number of pending reads.
    pub(crate) fn pending_reads(&self) -> usize {
        self.pending.len()
    }

    /// Receives the answer of the latest pending read, if there is one.
    ///
    /// # Errors
    /// [`End`] if the answer is wrong, or the device is lost.
    pub fn receive_one(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let Some(mut read) = self.pending.pop() else {
            return Ok(());
        };
        let Some(pending) = read.pending.take() else {
            return Ok(());
        };
        let answer = answers::receive(&self.config, dice, read.expected.what, pending)?;
        read.expected.check(self.tally(), &answer)
    }

    /// Reads every buffer once more, receives all pending answers, and waits for all tasks.
    ///
    /// # Errors
    /// [`End`] if an answer is wrong, or the device is lost.
    pub fn finish(mut self, dice: &mut Dice) -> Stepped {
        for at in 0..self.buffers.len() {
            let stream = self.stream(dice);
            let whole = self.whole_part(at);
            self.start_read(&stream, &whole);
        }
        self.end_outside()?;
        while !self.pending.is_empty() {
            self.receive_one(dice)?;
        }
        for client in &self.clients {
            let synced = answers::answer(&self.config, dice, "client sync", client.sync())?;
            synced.map_err(|error| self.refused("client sync", error))?;
        }
        for token in &self.tokens {
            let tally = token.tally();
            self.tally().add(Count::Cancellable, tally.accepted);
            if tally.accepted != tally.finished + tally.withdrawn {
                let message = format!("the tally of a token does not add up: {tally:?}");
                return Err(self.violation(message));
            }
        }
        Ok(())
    }
}
