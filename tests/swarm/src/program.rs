//! The program of a case: clients, streams and buffers, and what a step does with them. What it computes is
//! worked out on plain arrays as its steps are made, in the one order in which they are submitted.

mod steps;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream::{
    ComputeClient, CubeCount, Device, Error, Handle, Kernel, KernelHandle, Pending, Priority,
    Reason, Recording, Stream, StreamPoint,
};

use crate::dice::Dice;
use crate::expect::{Element, any_failed, compare};
use crate::setting::Sureness;

/// Elements of each buffer, and buffers.
const ELEMENTS: usize = 64;
const BUFFERS: usize = 4;

/// The most that a client may have before others go first: some buffers.
const SOFT_LIMIT_MAX: usize = 8 << 10;

/// How long an answer may take: far more than any does, so that a lost one is told.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// A stream and a handle of an epoch.
pub(crate) struct Relic {
    stream: Stream,
    handle: Handle<u32>,
}

impl Relic {
    /// They are of the lost epoch, and say so.
    pub(crate) fn is_old(&self, device: &Device) -> Found {
        let fresh = device.new_client().new_stream();
        let told = [
            self.stream.fill(&self.handle, 1),
            fresh.fill(&self.handle, 1),
            fresh.read(&self.handle).wait().map(drop),
        ];
        let lost =
            |told: &Result<(), Error>| matches!(told, Err(Error::DeviceLost { epoch: 0, .. }));
        match told.iter().all(lost) {
            true => Ok(()),
            false => Err(format!("what is old does not say so (I5): {told:?}")),
        }
    }
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
        let mut limits = Dice::new(seed, u64::MAX - 1);
        let clients: Vec<ComputeClient> = (0..1 + dice.roll(3))
            .map(|_| {
                let priorities = [Priority::Low, Priority::Normal, Priority::High];
                let mut builder = device.client_builder().priority(dice.one_of(&priorities));
                if limits.once_in(2) {
                    builder = builder.soft_limit(limits.roll(SOFT_LIMIT_MAX) as u64);
                }
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
            stream: self.clients[dice.roll(self.clients.len())].new_stream(),
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

    /// What it leaves to be looked at when the device is another.
    pub(crate) fn relic(&self) -> Relic {
        Relic {
            stream: self.streams[0].stream.clone(),
            handle: self.buffers[0].handle.clone(),
        }
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
                1 => stream.host("nothing", (), || {}).map_err(Into::into),
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
