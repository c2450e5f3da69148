//! A random program on a real device, and what it must compute, worked out on plain arrays.

use std::ops::Range;

use crate::support::*;
use millstream::{
    Arguments, ComputeClient, CubeCount, Error, Handle, Kernel, KernelHandle, Pending, Recording,
    Stream, StreamPoint, read, update,
};

/// Steps of a program.
pub const STEPS: usize = 250;
/// Elements of each buffer of a program.
pub const ELEMENTS: usize = 96;

/// xorshift64: the same seed, the same program.
pub struct Dice(u64);

impl Dice {
    /// Dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `below`.
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % below
    }
}

/// The kernels of a program.
pub struct Kernels {
    /// Adds a number to each element.
    pub add: KernelHandle,
    mix: KernelHandle,
    set: KernelHandle,
    /// None where no task is to panic.
    boom: Option<Boom>,
}

/// The arguments of `add`.
pub fn by(values: &Handle<u32>, by: u32) -> impl Arguments {
    (update(values), by, values.len() as u32)
}

/// The arguments of `mix`.
pub fn into(from: &Handle<u32>, to: &Handle<u32>) -> impl Arguments {
    (read(from), update(to), to.len() as u32)
}

impl Kernels {
    /// All of them.
    pub fn new(on: impl Into<On>, client: &ComputeClient) -> Self {
        Self {
            boom: Some(boom(on, client)),
            ..Self::that_never_fail(client)
        }
    }

    /// Those that do not panic.
    pub fn that_never_fail(client: &ComputeClient) -> Self {
        let add = Kernel::new("add")
            .updates::<u32>("values")
            .scalar::<u32>("by")
            .scalar::<u32>("n")
            .native(|_cube, args| {
                let by: u32 = args.scalar(0);
                for value in args.chunk::<u32>(0) {
                    *value = value.wrapping_add(by);
                }
            });
        let mix = Kernel::new("mix")
            .reads::<u32>("src")
            .updates::<u32>("dst")
            .scalar::<u32>("n")
            .native(|_cube, args| {
                let (src, start) = (args.read::<u32>(0), args.chunk_start(1));
                for (index, value) in args.chunk::<u32>(1).iter_mut().enumerate() {
                    *value = mixed(*value, src[start + index]);
                }
            });
        Self {
            add: prepare(client, add).unwrap(),
            mix: prepare(client, mix).unwrap(),
            set: set(client),
            boom: None,
        }
    }

    /// Each that there is.
    pub fn list(&self) -> Vec<KernelHandle> {
        let all = [Some(&self.add), Some(&self.mix), Some(&self.set)];
        let boom = self.boom.as_ref().and_then(Boom::kernel);
        let all = all.into_iter().chain([boom]);
        all.flatten().cloned().collect()
    }
}

fn mixed(value: u32, other: u32) -> u32 {
    value.wrapping_mul(31).wrapping_add(other)
}

/// A buffer, and what must be in it; none where a failure has spoiled it.
struct Buffer {
    handle: Handle<u32>,
    expected: Vec<Option<u32>>,
}

impl Buffer {
    fn new(stream: &Stream, dice: &mut Dice) -> Result<Self, Error> {
        let values: Vec<u32> = (0..ELEMENTS).map(|_| dice.roll(1000) as u32).collect();
        Ok(Self {
            handle: stream.create(&values)?,
            expected: values.into_iter().map(Some).collect(),
        })
    }
}

/// A read that was asked for, and what it must give.
type Read = (Pending<Vec<u32>>, Option<Vec<u32>>);

/// A program under way.
pub struct Program {
    /// What chooses its steps.
    pub dice: Dice,
    kernels: Kernels,
    streams: Vec<Stream>,
    buffers: Vec<Buffer>,
    points: Vec<StreamPoint>,
    /// A recording that mixes one buffer into another: their places, and the recording.
    recording: Option<(usize, usize, Recording)>,
    reads: Vec<Read>,
}

impl Program {
    /// The program of this seed.
    pub fn new(on: impl Into<On>, client: &ComputeClient, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let streams: Vec<_> = (0..1 + dice.roll(5)).map(|_| client.new_stream()).collect();
        let buffers = (0..4)
            .map(|_| Buffer::new(&streams[0], &mut dice).unwrap())
            .collect();
        Self {
            dice,
            kernels: Kernels::new(on, client),
            streams,
            buffers,
            points: Vec::new(),
            recording: None,
            reads: Vec::new(),
        }
    }

    /// The same program, of which no task panics.
    pub fn that_never_fails(mut self) -> Self {
        self.kernels.boom = None;
        self
    }

    /// Runs all of it.
    ///
    /// # Errors
    /// That of a device which refuses what is sound.
    pub fn run(mut self, client: &ComputeClient) -> Result<(), Error> {
        (0..STEPS).try_for_each(|_| self.step(client))?;
        self.finish()
    }

    /// One of its streams.
    pub fn stream(&mut self) -> Stream {
        let nth = self.dice.roll(self.streams.len());
        self.streams[nth].clone()
    }

    /// Some cubes.
    pub fn cubes(&mut self) -> CubeCount {
        CubeCount::Static(1 + self.dice.roll(5) as u32, 1, 1)
    }

    /// A part of a buffer: where, which elements, and as a handle.
    fn part(&mut self, elements: Option<usize>) -> (usize, Range<usize>, Handle<u32>) {
        let buffer = self.dice.roll(self.buffers.len());
        let len = elements.unwrap_or_else(|| match self.dice.roll(3) {
            0 => 1 + self.dice.roll(ELEMENTS),
            _ => ELEMENTS,
        });
        let start = self.dice.roll(ELEMENTS - len + 1);
        let range = start..start + len;
        let view = self.buffers[buffer].handle.slice(range.clone()).unwrap();
        (buffer, range, view)
    }

    /// A task or so.
    ///
    /// # Errors
    /// That of a device which refuses what is sound.
    pub fn step(&mut self, client: &ComputeClient) -> Result<(), Error> {
        let stream = self.stream();
        match self.dice.roll(20) {
            0..4 => self.add(&stream)?,
            4..8 => self.mix(&stream)?,
            8 => self.set(&stream)?,
            9 => self.fill(&stream)?,
            10..12 => self.copy(&stream)?,
            12..14 => self.read(&stream),
            14 => {
                let buffer = self.dice.roll(self.buffers.len());
                self.buffers[buffer] = Buffer::new(&stream, &mut self.dice)?;
                self.recording = None;
            }
            15 => match self.dice.roll(2) {
                0 => self.points.push(stream.point()?),
                _ => {
                    if let Some(point) = self.points.pop() {
                        stream.wait_for(&point)?;
                    }
                }
            },
            16 => self.replay(&stream)?,
            17 => stream.flush()?,
            18 => {
                let nth = self.dice.roll(self.streams.len());
                self.streams[nth] = client.new_stream();
            }
            _ => match self.dice.roll(4) {
                0 if self.kernels.boom.is_some() => self.boom(&stream)?,
                0 | 1 => stream.host("nothing", (), || {})?,
                _ => {
                    if let Some(read) = self.reads.pop() {
                        check(read)?;
                    }
                }
            },
        }
        Ok(())
    }

    fn each(&mut self, buffer: usize, range: Range<usize>, f: impl Fn(u32) -> u32) {
        // One failed element that a task reads fails all that it would have written.
        let part = &mut self.buffers[buffer].expected[range];
        let good = part.iter().all(Option::is_some);
        part.iter_mut()
            .for_each(|value| *value = value.filter(|_| good).map(&f));
    }

    fn add(&mut self, stream: &Stream) -> Result<(), Error> {
        let ((buffer, range, view), cubes) = (self.part(None), self.cubes());
        let n = self.dice.roll(100) as u32;
        stream.launch(&self.kernels.add, cubes, by(&view, n))?;
        self.each(buffer, range, |value| value.wrapping_add(n));
        Ok(())
    }

    fn mix(&mut self, stream: &Stream) -> Result<(), Error> {
        let (from, from_range, source) = self.part(None);
        let (to, to_range, target) = self.part(Some(from_range.len()));
        let cubes = self.cubes();
        let overlap =
            from == to && from_range.start < to_range.end && to_range.start < from_range.end;
        let launched = stream.launch(&self.kernels.mix, cubes, into(&source, &target));
        if refused_as(overlap, launched)? {
            return Ok(());
        }
        self.mixed(from, from_range, to, to_range);
        Ok(())
    }

    fn mixed(&mut self, from: usize, from_range: Range<usize>, to: usize, to_range: Range<usize>) {
        let source = self.buffers[from].expected[from_range].to_vec();
        let target = &mut self.buffers[to].expected[to_range];
        let good = source.iter().chain(target.iter()).all(Option::is_some);
        for (value, other) in target.iter_mut().zip(source) {
            *value = match (*value, other) {
                (Some(value), Some(other)) if good => Some(mixed(value, other)),
                _ => None,
            };
        }
    }

    fn set(&mut self, stream: &Stream) -> Result<(), Error> {
        let ((buffer, range, view), cubes) = (self.part(None), self.cubes());
        let value = self.dice.roll(1000) as u32;
        stream.launch(&self.kernels.set, cubes, to(&view, value))?;
        self.buffers[buffer].expected[range].fill(Some(value));
        Ok(())
    }

    fn fill(&mut self, stream: &Stream) -> Result<(), Error> {
        let (buffer, range, view) = self.part(None);
        let value = self.dice.roll(1000) as u32;
        stream.fill(&view, value)?;
        self.buffers[buffer].expected[range].fill(Some(value));
        Ok(())
    }

    fn copy(&mut self, stream: &Stream) -> Result<(), Error> {
        let (from, from_range, source) = self.part(None);
        let (to, to_range, target) = self.part(Some(from_range.len()));
        let overlap =
            from == to && from_range.start < to_range.end && to_range.start < from_range.end;
        if refused_as(overlap, stream.copy(&source, &target))? {
            return Ok(());
        }
        let values = self.buffers[from].expected[from_range].to_vec();
        let good = values.iter().all(Option::is_some);
        for (value, new) in self.buffers[to].expected[to_range].iter_mut().zip(values) {
            *value = new.filter(|_| good);
        }
        Ok(())
    }

    fn read(&mut self, stream: &Stream) {
        let (buffer, range, view) = self.part(None);
        let expected = self.buffers[buffer].expected[range]
            .iter()
            .copied()
            .collect();
        self.reads.push((stream.read(&view), expected));
    }

    fn boom(&mut self, stream: &Stream) -> Result<(), Error> {
        let (buffer, range, view) = self.part(None);
        if let Some(boom) = &self.kernels.boom {
            boom.launch(stream, &view)?;
        }
        self.buffers[buffer].expected[range].fill(None);
        Ok(())
    }

    fn replay(&mut self, stream: &Stream) -> Result<(), Error> {
        let Some((from, to, recording)) = self.recording.take() else {
            let from = self.dice.roll(self.buffers.len());
            let to = (from + 1) % self.buffers.len();
            let (source, target) = (&self.buffers[from].handle, &self.buffers[to].handle);
            let (mix, add) = (&self.kernels.mix, &self.kernels.add);
            let recording = stream.record(|r| {
                r.launch(mix, CubeCount::single(), into(source, target))?;
                r.launch(add, CubeCount::single(), by(target, 7))
            });
            self.recording = Some((from, to, recording?));
            return Ok(());
        };
        recording.replay(stream)?;
        self.mixed(from, 0..ELEMENTS, to, 0..ELEMENTS);
        self.each(to, 0..ELEMENTS, |value| value.wrapping_add(7));
        self.recording = Some((from, to, recording));
        Ok(())
    }

    /// Checks what is left to be read.
    ///
    /// # Errors
    /// That of a device which refuses what is sound.
    pub fn finish(mut self) -> Result<(), Error> {
        for buffer in 0..self.buffers.len() {
            let stream = self.stream();
            let expected = self.buffers[buffer].expected.iter().copied().collect();
            let read = stream.read(&self.buffers[buffer].handle);
            self.reads.push((read, expected));
        }
        self.reads.into_iter().try_for_each(check)
    }
}

/// Was it refused because it overlaps itself, as it must be? Any other error is told.
fn refused_as(overlap: bool, answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Err(Error::Launch { .. }) if overlap => Ok(true),
        Ok(()) => {
            assert!(!overlap, "it overlaps itself and was accepted");
            Ok(false)
        }
        Err(other) => Err(other),
    }
}

/// What is answered is right. What fails though nothing it read had failed is told.
fn check((pending, expected): Read) -> Result<(), Error> {
    let got = pending.wait();
    match expected {
        Some(expected) => assert_eq!(got?, expected),
        None => assert!(sentence(got).contains("`boom` failed")),
    }
    Ok(())
}
