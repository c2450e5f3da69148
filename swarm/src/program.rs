//! The program of a case: clients, streams and buffers, and what a step does with them. What it computes is
//! worked out on plain arrays as its steps are made, in the one order in which they are submitted.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream::{
    CancelToken, ComputeClient, CubeCount, Device, Error, Handle, Kernel, KernelHandle, Pending,
    Priority, Reason, Recording, Stream, StreamPoint, read, update, write,
};

use crate::dice::Dice;
use crate::expect::{Element, any_failed, compare};
use crate::setting::Sureness;

/// Elements of each buffer, and buffers.
const ELEMENTS: usize = 64;
const BUFFERS: usize = 4;

/// How long an answer may take: far more than any does, so that a lost one is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a step finds wrong.
pub(crate) type Found = Result<(), String>;

/// A buffer, and what must be in it.
struct Buffer {
    handle: Handle<u32>,
    elements: Vec<Element>,
}

/// A read that was asked for, and what it must give.
struct Read {
    pending: Pending<Vec<u32>>,
    expected: Vec<Element>,
}

/// A stream, and how many ticks were submitted to it.
struct Ticking {
    stream: Stream,
    id: u32,
    ticks: u64,
}

/// Ticks that ran, by stream.
type Ran = Arc<Mutex<HashMap<u32, u64>>>;

struct Kernels {
    tick: KernelHandle,
    add: KernelHandle,
    mix: KernelHandle,
    set: KernelHandle,
    boom: KernelHandle,
}

/// The state of a program.
pub(crate) struct Program {
    clients: Vec<ComputeClient>,
    kernels: Kernels,
    streams: Vec<Ticking>,
    streams_made: u32,
    ran: Ran,
    buffers: Vec<Buffer>,
    points: Vec<StreamPoint>,
    /// Mixes the buffer of the first place into that of the second.
    recording: Option<(usize, usize, Recording)>,
    reads: Vec<Read>,
    sureness: Sureness,
    /// The device was lost: what is left is to hear all answers.
    gone: bool,
}

fn mixed(value: u32, other: u32) -> u32 {
    value.wrapping_mul(31).wrapping_add(other)
}

impl Kernels {
    fn new(client: &ComputeClient, ran: &Ran) -> Result<Self, Error> {
        let ran = ran.clone();
        let tick = Kernel::new("tick")
            .scalar::<u32>("stream")
            .native(move |_cube, args| {
                let mut ran = ran.lock().unwrap_or_else(PoisonError::into_inner);
                *ran.entry(args.scalar(0)).or_default() += 1;
            });
        let add = Kernel::new("add")
            .updates::<u32>("values")
            .scalar::<u32>("n")
            .native(|_cube, args| {
                let n: u32 = args.scalar(0);
                for value in args.chunk::<u32>(0) {
                    *value = value.wrapping_add(n);
                }
            });
        let mix = Kernel::new("mix")
            .reads::<u32>("src")
            .updates::<u32>("dst")
            .native(|_cube, args| {
                let (src, start) = (args.read::<u32>(0), args.chunk_start(1));
                for (index, value) in args.chunk::<u32>(1).iter_mut().enumerate() {
                    *value = mixed(*value, src[start + index]);
                }
            });
        let set = Kernel::new("set")
            .writes::<u32>("dst")
            .scalar::<u32>("value")
            .native(|_cube, args| args.chunk::<u32>(0).fill(args.scalar(0)));
        let boom = Kernel::new("boom")
            .updates::<u32>("values")
            .native(|_cube, _args| panic!("boom"));
        Ok(Self {
            tick: client.kernel(tick)?,
            add: client.kernel(add)?,
            mix: client.kernel(mix)?,
            set: client.kernel(set)?,
            boom: client.kernel(boom)?,
        })
    }
}

impl Program {
    pub(crate) fn new(device: &Device, seed: u64, sureness: Sureness) -> Result<Self, Error> {
        let mut dice = Dice::new(seed, u64::MAX);
        let clients: Vec<ComputeClient> = (0..1 + dice.roll(3))
            .map(|_| {
                let priorities = [Priority::Low, Priority::Normal, Priority::High];
                let builder = device.client_builder().priority(dice.one_of(&priorities));
                builder.weight(1 + dice.roll(3) as u32).build()
            })
            .collect();
        let ran = Ran::default();
        let kernels = Kernels::new(&clients[0], &ran)?;
        let mut program = Self {
            clients,
            kernels,
            streams: Vec::new(),
            streams_made: 0,
            ran,
            buffers: Vec::new(),
            points: Vec::new(),
            recording: None,
            reads: Vec::new(),
            sureness,
            gone: false,
        };
        for _ in 0..1 + dice.roll(6) {
            let stream = program.fresh_stream(&mut dice);
            program.streams.push(stream);
        }
        for _ in 0..BUFFERS {
            let buffer = program.buffer(&mut dice)?;
            program.buffers.push(buffer);
        }
        Ok(program)
    }

    /// A fresh buffer, which may have been given nothing yet.
    fn buffer(&mut self, dice: &mut Dice) -> Result<Buffer, Error> {
        let stream = self.stream(dice);
        if dice.once_in(4) {
            return Ok(Buffer {
                handle: stream.empty(ELEMENTS)?,
                elements: vec![Element::Unknown; ELEMENTS],
            });
        }
        let values: Vec<u32> = (0..ELEMENTS).map(|_| dice.roll(1000) as u32).collect();
        Ok(Buffer {
            handle: stream.create(&values)?,
            elements: values.into_iter().map(Element::Value).collect(),
        })
    }

    fn stream(&mut self, dice: &mut Dice) -> Stream {
        let nth = dice.roll(self.streams.len());
        self.streams[nth].stream.clone()
    }

    fn fresh_stream(&mut self, dice: &mut Dice) -> Ticking {
        self.streams_made += 1;
        Ticking {
            stream: self.clients[dice.roll(self.clients.len())].stream(),
            id: self.streams_made,
            ticks: 0,
        }
    }

    /// A part of a buffer: where, which elements, and as a handle.
    fn part(&self, dice: &mut Dice, len: Option<usize>) -> (usize, Range<usize>, Handle<u32>) {
        let buffer = dice.roll(self.buffers.len());
        let len = len.unwrap_or_else(|| match dice.once_in(3) {
            true => 1 + dice.roll(ELEMENTS),
            false => ELEMENTS,
        });
        let start = dice.roll(ELEMENTS - len + 1);
        let range = start..start + len;
        let handle = &self.buffers[buffer].handle;
        let view = handle
            .slice(range.clone())
            .unwrap_or_else(|_| handle.clone());
        (buffer, range, view)
    }

    /// One step.
    ///
    /// # Errors
    /// What was wrong.
    pub(crate) fn step(&mut self, dice: &mut Dice) -> Found {
        if self.gone {
            return self.settle_one();
        }
        let stream = self.stream(dice);
        let done = match dice.roll(27) {
            0..4 => self.add(&stream, dice),
            4..8 => self.mix(&stream, dice),
            8 | 9 => self.set(&stream, dice),
            10 => self.fill(&stream, dice),
            11 => self.write(&stream, dice),
            12 | 13 => self.copy(&stream, dice),
            14 | 15 => self.read(&stream, dice),
            16 | 17 => self.renew(dice),
            18 => self.edge(&stream, dice),
            19 => self.replay(&stream, dice),
            20 => stream.flush(),
            21 => {
                let nth = dice.roll(self.streams.len());
                self.streams[nth] = self.fresh_stream(dice);
                Ok(())
            }
            22 => match dice.roll(3) {
                0 => self.boom(&stream, dice),
                1 => stream.host("nothing", (), || {}),
                _ => self.cancelled(&stream, dice),
            },
            23 | 24 => self.tick(dice),
            25 => return self.sync_one(dice),
            _ => return self.settle_one(),
        };
        match done {
            Err(Error::DeviceLost { .. }) if self.sureness == Sureness::Lost => {
                self.gone = true;
                Ok(())
            }
            done => done.map_err(|error| format!("a call was refused: {error}")),
        }
    }

    fn is_sound(&self) -> bool {
        self.sureness == Sureness::Sound
    }

    fn each(&mut self, buffer: usize, range: Range<usize>, f: impl Fn(u32) -> u32) {
        let part = &mut self.buffers[buffer].elements[range];
        let failed = any_failed(part);
        for element in part {
            *element = match failed {
                true => Element::Failed,
                false => element.map(&f),
            };
        }
    }

    fn add(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let (cubes, n) = (cubes(dice), dice.roll(100) as u32);
        stream.launch(&self.kernels.add, cubes, (update(&view), n))?;
        self.each(buffer, range, |value| value.wrapping_add(n));
        Ok(())
    }

    fn mix(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (from, from_range, source) = self.part(dice, None);
        let (to, to_range, target) = self.part(dice, Some(from_range.len()));
        if from == to && from_range.start < to_range.end && to_range.start < from_range.end {
            return Ok(());
        }
        stream.launch(
            &self.kernels.mix,
            cubes(dice),
            (read(&source), update(&target)),
        )?;
        self.mixed(from, from_range, to, to_range);
        Ok(())
    }

    fn mixed(&mut self, from: usize, from_range: Range<usize>, to: usize, to_range: Range<usize>) {
        let source = self.buffers[from].elements[from_range].to_vec();
        let target = &mut self.buffers[to].elements[to_range];
        let failed = any_failed(&source) || any_failed(target);
        for (element, other) in target.iter_mut().zip(source) {
            *element = match (failed, *element, other) {
                (true, ..) => Element::Failed,
                (_, Element::Value(value), Element::Value(other)) => {
                    Element::Value(mixed(value, other))
                }
                _ => Element::Unknown,
            };
        }
    }

    fn set(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let (cubes, value) = (cubes(dice), dice.roll(1000) as u32);
        stream.launch(&self.kernels.set, cubes, (write(&view), value))?;
        self.buffers[buffer].elements[range].fill(Element::Value(value));
        Ok(())
    }

    fn fill(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let value = dice.roll(1000) as u32;
        stream.fill(&view, value)?;
        self.buffers[buffer].elements[range].fill(Element::Value(value));
        Ok(())
    }

    fn write(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let values: Vec<u32> = range.clone().map(|_| dice.roll(1000) as u32).collect();
        stream.write(&view, &values)?;
        let elements = self.buffers[buffer].elements[range].iter_mut();
        elements
            .zip(values)
            .for_each(|(element, value)| *element = Element::Value(value));
        Ok(())
    }

    fn copy(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (from, from_range, source) = self.part(dice, None);
        let (to, to_range, target) = self.part(dice, Some(from_range.len()));
        if from == to && from_range.start < to_range.end && to_range.start < from_range.end {
            return Ok(());
        }
        stream.copy(&source, &target)?;
        let elements = self.buffers[from].elements[from_range].to_vec();
        let failed = any_failed(&elements);
        let targets = self.buffers[to].elements[to_range].iter_mut();
        for (target, element) in targets.zip(elements) {
            *target = if failed { Element::Failed } else { element };
        }
        Ok(())
    }

    fn read(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        self.reads.push(Read {
            pending: stream.read(&view),
            expected: self.buffers[buffer].elements[range].to_vec(),
        });
        Ok(())
    }

    /// A buffer goes, with whatever is still to be done with it, and another takes its place.
    fn renew(&mut self, dice: &mut Dice) -> Result<(), Error> {
        let nth = dice.roll(self.buffers.len());
        if let Some((from, to, _)) = self.recording
            && (from == nth || to == nth)
        {
            self.recording = None;
        }
        if dice.once_in(2) {
            // The old one goes first: its memory may serve the new one.
            let nothing = self.streams[0].stream.empty(0)?;
            self.buffers[nth].handle = nothing;
        }
        self.buffers[nth] = self.buffer(dice)?;
        Ok(())
    }

    fn edge(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        match dice.once_in(2) {
            true => self.points.push(stream.point()?),
            false => {
                if let Some(point) = self.points.pop() {
                    stream.wait_for(&point)?;
                }
            }
        }
        Ok(())
    }

    fn replay(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let Some((from, to, recording)) = self.recording.take() else {
            let from = dice.roll(self.buffers.len());
            let to = (from + 1) % self.buffers.len();
            let (source, target) = (&self.buffers[from].handle, &self.buffers[to].handle);
            let (mix, add) = (&self.kernels.mix, &self.kernels.add);
            let recording = stream.record(|r| {
                r.launch(mix, CubeCount::single(), (read(source), update(target)))?;
                r.launch(add, CubeCount::single(), (update(target), 7_u32))
            })?;
            self.recording = Some((from, to, recording));
            return Ok(());
        };
        recording.replay(stream)?;
        self.mixed(from, 0..ELEMENTS, to, 0..ELEMENTS);
        self.each(to, 0..ELEMENTS, |value| value.wrapping_add(7));
        self.recording = Some((from, to, recording));
        Ok(())
    }

    /// A kernel that panics.
    fn boom(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        stream.launch(&self.kernels.boom, CubeCount::single(), (update(&view),))?;
        self.buffers[buffer].elements[range].fill(Element::Failed);
        Ok(())
    }

    /// A task of a token that is cancelled already: it never runs.
    fn cancelled(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let token = CancelToken::new();
        token.cancel();
        let request = stream.with_cancel(&token);
        request.launch(&self.kernels.set, cubes(dice), (write(&view), 1_u32))?;
        self.buffers[buffer].elements[range].fill(Element::Failed);
        Ok(())
    }

    /// A task that touches nothing: only its stream's order tells when it has run.
    fn tick(&mut self, dice: &mut Dice) -> Result<(), Error> {
        let nth = dice.roll(self.streams.len());
        let ticking = &mut self.streams[nth];
        let ticks = 1 + dice.roll(3) as u64;
        for _ in 0..ticks {
            let arguments = (ticking.id,);
            let stream = &ticking.stream;
            stream.launch(&self.kernels.tick, CubeCount::single(), arguments)?;
        }
        ticking.ticks += ticks;
        Ok(())
    }

    /// After a sync everything that was submitted to the stream has run.
    fn sync_one(&mut self, dice: &mut Dice) -> Found {
        let nth = dice.roll(self.streams.len());
        let ticking = &self.streams[nth];
        match ticking.stream.sync().wait_timeout(PATIENCE) {
            Ok(()) => {}
            Err(Error::DeviceLost { .. }) if self.sureness == Sureness::Lost => return Ok(()),
            Err(error) => return Err(format!("a sync was answered with: {error} (I5)")),
        }
        let ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        let ran = ran.get(&ticking.id).copied().unwrap_or_default();
        match self.is_sound() && ran != ticking.ticks {
            true => Err(format!(
                "a sync came after {ran} of {} tasks (I1, I6)",
                ticking.ticks
            )),
            false => Ok(()),
        }
    }

    fn settle_one(&mut self) -> Found {
        match self.reads.pop() {
            Some(read) => self.check(read),
            None => Ok(()),
        }
    }

    fn check(&self, mut read: Read) -> Found {
        match read.pending.wait_timeout(PATIENCE) {
            Ok(_) if any_failed(&read.expected) => Err(
                "what a failed task would have written was read as if it were data (I7)".to_owned(),
            ),
            Ok(values) => compare(&read.expected, &values),
            Err(Error::TimedOut { .. }) => Err("an answer never came (I5)".to_owned()),
            Err(Error::Failed(failure)) => {
                let own = matches!(
                    failure.root().reason,
                    Reason::Panicked(_) | Reason::Cancelled
                );
                match self.is_sound() && !(own && any_failed(&read.expected)) {
                    true => Err(format!(
                        "data failed that nothing has spoiled (I7): {failure}"
                    )),
                    false => Ok(()),
                }
            }
            Err(Error::DeviceLost { .. }) if self.sureness == Sureness::Lost => Ok(()),
            Err(error) => Err(format!("a read was answered with: {error}")),
        }
    }

    /// Reads everything once more, checks all answers and lets go of all there is.
    ///
    /// # Errors
    /// What was wrong.
    pub(crate) fn finish(mut self, device: &Device, dice: &mut Dice) -> Found {
        for buffer in 0..self.buffers.len() {
            let stream = self.stream(dice);
            self.reads.push(Read {
                pending: stream.read(&self.buffers[buffer].handle),
                expected: self.buffers[buffer].elements.clone(),
            });
        }
        for read in std::mem::take(&mut self.reads) {
            self.check(read)?;
        }
        let mut synced = device.sync();
        match synced.wait_timeout(PATIENCE) {
            Ok(()) => Ok(()),
            Err(Error::DeviceLost { .. }) if self.sureness == Sureness::Lost => Ok(()),
            Err(error) => Err(format!("the last sync was answered with: {error} (I5)")),
        }
    }
}

fn cubes(dice: &mut Dice) -> CubeCount {
    CubeCount::Static(1 + dice.roll(5) as u32, 1, 1)
}
