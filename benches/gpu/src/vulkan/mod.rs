//! millstream on the first Vulkan GPU, compared with direct calls of the driver ([`raw`]). Each side has its own logical
//! device. Launches add one to each word of a buffer; dependent ones have the same buffer.

mod raw;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use millstream::vulkan::{Vulkan, VulkanLaunch};
use millstream::{CubeCount, Device, Handle, Kernel, KernelHandle, Stream, update};
use millstream_harness::{RecordRow, Sampler, alternate, time_each};

use crate::error::BenchError;
use crate::measure::{Group, PATIENCE, groups, on_threads};
use crate::rows::{Samples, in_us, rates, times};
use raw::{Gpu, Memory, Place, Recorder};

/// The number of words that the kernel adds 1 to.
const WORDS: usize = 64;
/// The launches of a sample, in batches.
const LAUNCHES: usize = 2000;
/// The most batches of a sample.
const BATCHES_MAX: usize = 200;
/// The number of buffers of independent launches; all sides need a barrier when a buffer comes again.
const BUFFERS: usize = 64;
const THREADS: usize = 4;
/// The time without work before a wait, so that every thread that takes part has gone to sleep.
const IDLE: Duration = Duration::from_millis(2);
/// At most 1.15 times the cost of the raw side.
const SHARE: f64 = 0.87;

/// Both sides, and the number of rounds.
pub(crate) struct Rig {
    rounds: usize,
    device: Device,
    kernel: KernelHandle,
    gpu: Gpu,
}

/// All groups, in the order of the table.
pub(crate) const GROUPS: &[Group<Rig>] = groups! {
    "launches": launches;
    "client threads": threads;
    "copies": copies;
    "hand-over": hand_over;
    "idle": after_idle;
};

impl Rig {
    pub(crate) fn open(rounds: usize) -> Result<Self, BenchError> {
        let device = Device::open(Vulkan::ordinal(0))?;
        let kernel = Kernel::new("add_one")
            .updates::<u32>("values")
            .scalar::<u32>("n")
            .spirv(raw::spirv())
            .with(VulkanLaunch::default());
        let kernel = device.new_client().kernel(kernel)?;
        let rig = Self {
            rounds,
            device,
            kernel,
            gpu: Gpu::open()?,
        };
        rig.check()?;
        Ok(rig)
    }

    /// Checks that both sides do the work.
    fn check(&self) -> Result<(), BenchError> {
        let stream = self.stream();
        let values = stream.create(&[0_u32; WORDS])?;
        let mut memory = Memory::new(&self.gpu, 4 * WORDS, Place::Host)?;
        memory.bytes().fill(0);
        let mut recorder = Recorder::new(&self.gpu, 0)?;
        for _ in 0..3 {
            self.launch(&stream, &values)?;
            recorder.launch(memory.address)?;
            recorder.barrier()?;
        }
        recorder.submit()?;
        recorder.finish()?;
        let ours = stream.read(&values).wait()?;
        let raw = memory.bytes().as_chunks().0.iter();
        let raw: Vec<u32> = raw.map(|bytes| u32::from_ne_bytes(*bytes)).collect();
        match ours == [3; WORDS] && raw == ours {
            true => Ok(()),
            false => Err(BenchError::Wrong),
        }
    }

    fn stream(&self) -> Stream {
        self.device.new_client().new_stream()
    }

    #[inline]
    fn launch(&self, stream: &Stream, values: &Handle<u32>) -> Result<(), BenchError> {
        let arguments = (update(values), WORDS as u32);
        Ok(stream.launch(&self.kernel, CubeCount::single(), arguments)?)
    }

    /// Samples both sides in turn: raw, then ours.
    fn alternate(
        &self,
        raw: Sampler<'_, BenchError>,
        ours: Sampler<'_, BenchError>,
    ) -> Result<[Samples; 2], BenchError> {
        alternate(self.rounds, [raw, ours])
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.device.close(PATIENCE);
    }
}

/// The part of a batch that is timed.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Submit,
    WithWait,
}

/// Returns the nanoseconds per launch of batches of `count` launches.
fn batches(
    count: usize,
    part: Part,
    mut step: impl FnMut(Part) -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let batches = (LAUNCHES / count).clamp(1, BATCHES_MAX);
    let mut spent = Duration::ZERO;
    for _ in 0..batches {
        let start = Instant::now();
        step(Part::Submit)?;
        let submitting = start.elapsed();
        step(Part::WithWait)?;
        spent += match part {
            Part::Submit => submitting,
            Part::WithWait => start.elapsed(),
        };
    }
    Ok(spent.as_nanos() as f64 / (batches * count) as f64)
}

/// The time per launch of batches from one thread: until the calls have returned, and until the wait has.
fn launches(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let (stream, mut recorder) = (rig.stream(), Recorder::new(&rig.gpu, 0)?);
    let mut rows = Vec::new();
    for (count, buffers) in [1, 10, 100, 1000]
        .map(|count| (count, 1))
        .into_iter()
        .chain([10, 100, 1000].map(|count| (count, BUFFERS)))
    {
        let handles = (0..buffers).map(|_| stream.create(&[0_u32; WORDS]));
        let handles = handles.collect::<Result<Vec<_>, _>>()?;
        let memory = (0..buffers).map(|_| Memory::new(&rig.gpu, 4 * WORDS, Place::Gpu));
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let kind = match (count, buffers) {
            (1, _) => "launch",
            (_, 1) => "dependent launches",
            _ => "independent launches",
        };
        for (part, name) in [(Part::Submit, "submit"), (Part::WithWait, "with wait")] {
            let figures = rig.alternate(
                &mut || {
                    batches(count, part, |step| {
                        if step == Part::WithWait {
                            return recorder.finish();
                        }
                        for nth in 0..count {
                            // Also before the first: submissions do not order memory accesses.
                            if nth % buffers == 0 {
                                recorder.barrier()?;
                            }
                            recorder.launch(memory[nth % buffers].address)?;
                        }
                        recorder.submit()
                    })
                },
                &mut || {
                    batches(count, part, |step| match step {
                        Part::Submit => {
                            let mut turns = handles.iter().cycle().take(count);
                            turns.try_for_each(|values| rig.launch(&stream, values))
                        }
                        Part::WithWait => Ok(stream.sync().wait()?),
                    })
                },
            )?;
            let name = format!("{count} {kind}, {name}");
            rows.push(times(name, "ns each", figures, SHARE));
        }
    }
    Ok(rows)
}

/// Runs `body` on each thread with its element. Returns thousands of launches per second.
fn rate<T: Send>(
    each: &mut [T],
    body: impl Fn(&mut T) -> Result<(), BenchError> + Sync,
) -> Result<f64, BenchError> {
    let count = each.len() * LAUNCHES;
    let seconds = on_threads(each.iter_mut(), || Ok(()), body)?;
    Ok(count as f64 / seconds / 1e3)
}

/// Launches from several threads: millstream with a stream each, the raw side with a recorder each and a lock around one
/// queue, which a thread takes for each batch.
fn threads(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let ours = (0..THREADS).map(|_| {
        let stream = rig.stream();
        let values = stream.create(&[0_u32; WORDS])?;
        Ok::<_, BenchError>((stream, values))
    });
    let mut ours = ours.collect::<Result<Vec<_>, _>>()?;
    let raw = (0..THREADS).map(|_| {
        let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Gpu)?;
        Ok::<_, BenchError>((Recorder::new(&rig.gpu, 0)?, memory))
    });
    let mut raw = raw.collect::<Result<Vec<_>, _>>()?;
    let queue = Mutex::new(());
    let mut rows = Vec::new();
    for batch in [1, 10, 100] {
        let figures = rig.alternate(
            &mut || {
                rate(&mut raw, |(recorder, memory)| {
                    for _ in 0..LAUNCHES / batch {
                        for _ in 0..batch {
                            recorder.barrier()?;
                            recorder.launch(memory.address)?;
                        }
                        recorder.submit_after(None, Some(&queue))?;
                    }
                    recorder.finish()
                })
            },
            &mut || {
                rate(&mut ours, |(stream, values)| {
                    (0..LAUNCHES).try_for_each(|_| rig.launch(stream, values))?;
                    Ok(stream.sync().wait()?)
                })
            },
        )?;
        let name = format!("{THREADS} client threads, raw in batches of {batch}");
        rows.push(rates(name, "thousand/s", figures, 1.0));
    }
    Ok(rows)
}

/// Copies between the host and the GPU, each with its wait. The host's bytes are a slice, and a new vector. The raw side
/// has a staging buffer.
fn copies(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let stream = rig.stream();
    let mut recorder = Recorder::new(&rig.gpu, 0)?;
    let mut rows = Vec::new();
    for (size, bytes, count) in [("4 KiB", 4 << 10, 100), ("64 MiB", 64 << 20, 1)] {
        let data = vec![7_u8; bytes];
        let handle = stream.create(&data)?;
        let memory = Memory::new(&rig.gpu, bytes, Place::Gpu)?;
        let mut staging = Memory::new(&rig.gpu, bytes, Place::Host)?;
        let up = rig.alternate(
            &mut || {
                let copy = |_| {
                    staging.bytes().copy_from_slice(&data);
                    recorder.barrier()?;
                    recorder.copy(&staging, &memory)?;
                    recorder.submit()?;
                    recorder.finish()
                };
                time_each(count, copy, || Ok(()))
            },
            &mut || {
                let copy = |_| {
                    stream.write(&handle, &data)?;
                    Ok(stream.sync().wait()?)
                };
                time_each(count, copy, || Ok(()))
            },
        )?;
        let down = rig.alternate(
            &mut || {
                let copy = |_| {
                    recorder.barrier()?;
                    recorder.copy(&memory, &staging)?;
                    recorder.barrier()?;
                    recorder.submit()?;
                    recorder.finish()?;
                    std::hint::black_box(staging.bytes().to_vec());
                    Ok(())
                };
                time_each(count, copy, || Ok(()))
            },
            &mut || {
                let copy = |_| {
                    std::hint::black_box(stream.read(&handle).wait()?);
                    Ok(())
                };
                time_each(count, copy, || Ok(()))
            },
        )?;
        for (way, figures) in [("up", up), ("down", down)] {
            let name = format!("{size} {way}, with wait");
            rows.push(times(name, "us", figures.map(in_us), SHARE));
        }
    }
    Ok(rows)
}

/// Launches on two queues in turn, each after the one before. The raw side's submissions wait for each other's semaphore,
/// which also makes the writes visible.
fn hand_over(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    const HOPS: usize = 200;
    let client = rig.device.new_client();
    let streams = [client.new_stream(), client.new_stream()];
    let values = streams[0].create(&[0_u32; WORDS])?;
    let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Gpu)?;
    let mut recorders = [Recorder::new(&rig.gpu, 0)?, Recorder::new(&rig.gpu, 1)?];
    let figures = rig.alternate(
        &mut || {
            let start = Instant::now();
            for hop in 0..HOPS {
                let other = recorders[(hop + 1) % 2].point();
                let here = &mut recorders[hop % 2];
                here.launch(memory.address)?;
                here.submit_after(Some(other), None)?;
            }
            recorders[1].finish()?;
            Ok(millstream_harness::ns_each(start, HOPS))
        },
        &mut || {
            let hop = |hop: usize| rig.launch(&streams[hop % 2], &values);
            time_each(HOPS, hop, || Ok(streams[1].sync().wait()?))
        },
    )?;
    let name = "launch handed over between two streams";
    Ok(vec![times(name, "us", figures.map(in_us), SHARE)])
}

/// Waits after the device was idle.
fn after_idle(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let stream = rig.stream();
    let values = stream.create(&[0_u32; WORDS])?;
    let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Gpu)?;
    let mut recorder = Recorder::new(&rig.gpu, 0)?;
    stream.sync().wait()?;
    fn sample(mut work: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
        const WAITS: u32 = 10;
        let mut spent = Duration::ZERO;
        for _ in 0..WAITS {
            std::thread::sleep(IDLE);
            let start = Instant::now();
            work()?;
            spent += start.elapsed();
        }
        Ok((spent / WAITS).as_nanos() as f64)
    }
    let figures = rig.alternate(
        &mut || {
            sample(|| {
                recorder.barrier()?;
                recorder.launch(memory.address)?;
                recorder.submit()?;
                recorder.finish()
            })
        },
        &mut || {
            sample(|| {
                rig.launch(&stream, &values)?;
                Ok(stream.sync().wait()?)
            })
        },
    )?;
    let name = "launch and sync after idle";
    Ok(vec![times(name, "us", figures.map(in_us), SHARE)])
}
