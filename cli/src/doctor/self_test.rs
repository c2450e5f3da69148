//! Does a device do what it is told? Streams launch, fill and copy at random over shared buffers, and plain vectors on the
//! host are the model of what every one of them must hold.
//!
//! The steps are the same on every device and at every run; only the order in which the device runs what is free to go
//! differs. Each step depends on others through the buffers alone, so that a hazard which is missed shows.

use std::fmt;
use std::time::{Duration, Instant};

use millstream::{
    ComputeClient, CubeCount, Device, Handle, Kernel, KernelHandle, Pending, Source, Stream, read,
    update,
};
use millstream_testkit::Dice;
use serde::Serialize;

use crate::demo::counted;

const STEPS: usize = 3_000;
const STREAMS: usize = 4;
const BUFFERS: usize = 6;
/// The most elements of a buffer; each is shorter than the one before it, and not round.
const ELEMENTS_MAX: usize = 5_003;
/// Of the choices; any will do.
const SEED: u64 = 8;
/// How long the device may take for an answer: thousands of times what it needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// How it went.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SelfTest {
    Passed { steps: usize, took_ms: u64 },
    Failed { reason: String },
    LeftOut,
}

impl SelfTest {
    /// Tests the device, and closes it.
    pub(super) fn of(device: &Device, mix: Kernel) -> Self {
        let start = Instant::now();
        let tested = Desk::new(&device.new_client(), mix).and_then(Desk::work);
        match tested.and_then(|()| close(device)) {
            Ok(()) => Self::Passed {
                steps: STEPS,
                took_ms: start.elapsed().as_millis() as u64,
            },
            Err(reason) => Self::Failed { reason },
        }
    }
}

/// Native, and for GPUs as CUDA C or, where nothing compiles that, as what was made of it before.
pub(super) fn mix() -> Kernel {
    on_gpus(native().source(Source::CudaC(include_str!("mix.cu").into())))
}

fn on_gpus(kernel: Kernel) -> Kernel {
    kernel.source(Source::Ptx(include_str!("mix.ptx").into()))
}

fn native() -> Kernel {
    native_and(|_, _, _| {})
}

/// The same, and what is done to a chunk then: its elements, where it begins, and `by`.
fn native_and(then: impl Fn(&mut [u32], usize, u32) + Send + Sync + 'static) -> Kernel {
    Kernel::new("mix")
        .reads::<u32>("from")
        .updates::<u32>("into")
        .scalar::<u32>("by")
        .scalar::<u32>("len")
        .native(move |_, args| {
            let (start, by) = (args.chunk_start(1), args.scalar::<u32>(0));
            let into: &mut [u32] = args.chunk(1);
            let from: &[u32] = args.read(0);
            for (into, from) in into.iter_mut().zip(&from[start..]) {
                *into = mixed(*into, *from, by);
            }
            then(into, start, by);
        })
}

fn mixed(into: u32, from: u32, by: u32) -> u32 {
    into.wrapping_add(from.wrapping_mul(3)).wrapping_add(by)
}

/// A buffer of the device, and what it must hold.
struct Buffer {
    handle: Handle<u32>,
    model: Vec<u32>,
}

/// What is on its way to the host.
struct Wanted {
    step: usize,
    buffer: usize,
    start: usize,
    answer: Pending<Vec<u32>>,
    model: Vec<u32>,
}

struct Desk {
    streams: Vec<Stream>,
    mix: KernelHandle,
    buffers: Vec<Buffer>,
    wanted: Vec<Wanted>,
    dice: Dice,
}

impl Desk {
    fn new(client: &ComputeClient, mix: Kernel) -> Result<Self, String> {
        let mix = client.kernel(mix).map_err(|error| error.to_string())?;
        let streams: Vec<Stream> = (0..STREAMS).map(|_| client.new_stream()).collect();
        let mut buffers = Vec::new();
        for index in 0..BUFFERS {
            let len = ELEMENTS_MAX / (index + 1);
            let model: Vec<u32> = (0..len as u32).map(|at| at * 7 + index as u32).collect();
            let handle = streams[0].create(&model).map_err(refused)?;
            buffers.push(Buffer { handle, model });
        }
        Ok(Self {
            streams,
            mix,
            buffers,
            wanted: Vec::new(),
            dice: Dice::new(SEED, 0),
        })
    }

    fn work(mut self) -> Result<(), String> {
        for step in 1..=STEPS {
            self.step(step)?;
        }
        for buffer in 0..BUFFERS {
            self.read(STEPS, buffer, 0)?;
        }
        self.wanted.into_iter().try_for_each(Wanted::check)
    }

    fn step(&mut self, step: usize) -> Result<(), String> {
        let stream = self.streams[self.dice.below(STREAMS)].clone();
        let target = self.dice.below(BUFFERS);
        // Another one: a kernel may not read what it writes.
        let source = (target + 1 + self.dice.below(BUFFERS - 1)) % BUFFERS;
        let value = self.dice.number();
        let len = self.buffers[target].model.len();
        let both = len.min(self.buffers[source].model.len());
        let done = match self.dice.below(16) {
            0 => {
                self.buffers[target].model.fill(value);
                stream.fill(&self.buffers[target].handle, value)
            }
            1 => {
                self.buffers[target].model = (0..len as u32).map(|at| at ^ value).collect();
                let Buffer { handle, model } = &self.buffers[target];
                stream.write(handle, model)
            }
            2..5 => {
                let model = self.buffers[source].model[..both].to_vec();
                self.buffers[target].model[..both].copy_from_slice(&model);
                let (from, into) = self.prefixes(source, target, both)?;
                stream.copy(&from, &into)
            }
            5 => {
                let start = self.dice.below(len);
                return self.read(step, target, start);
            }
            _ => {
                let from = self.buffers[source].model[..both].to_vec();
                for (into, from) in self.buffers[target].model.iter_mut().zip(from) {
                    *into = mixed(*into, from, value);
                }
                let (from, into) = self.prefixes(source, target, both)?;
                let cubes = CubeCount::d1(1 + self.dice.below(5) as u32);
                let arguments = (read(&from), update(&into), value, both as u32);
                stream.launch(&self.mix, cubes, arguments)
            }
        };
        done.map_err(refused)
    }

    /// The first elements of two buffers.
    fn prefixes(
        &self,
        source: usize,
        target: usize,
        len: usize,
    ) -> Result<(Handle<u32>, Handle<u32>), String> {
        let prefix = |at: usize| self.buffers[at].handle.slice(0..len).map_err(refused);
        Ok((prefix(source)?, prefix(target)?))
    }

    /// Asks for the end of a buffer; what comes is looked at in the end, so that nothing waits until then.
    fn read(&mut self, step: usize, buffer: usize, start: usize) -> Result<(), String> {
        let stream = &self.streams[self.dice.below(STREAMS)];
        let Buffer { handle, model } = &self.buffers[buffer];
        let part = handle.slice(start..model.len()).map_err(refused)?;
        self.wanted.push(Wanted {
            step,
            buffer,
            start,
            answer: stream.read(&part),
            model: model[start..].to_vec(),
        });
        Ok(())
    }
}

impl Wanted {
    fn check(mut self) -> Result<(), String> {
        let Self { step, buffer, .. } = self;
        let came = self.answer.wait_timeout(PATIENCE).map_err(|error| {
            format!("buffer {buffer} could not be read after step {step}: {error}")
        })?;
        let wrong = self.model.iter().zip(&came).position(|(a, b)| a != b);
        match wrong {
            None if came.len() == self.model.len() => Ok(()),
            None => Err(format!(
                "buffer {buffer} after step {step}: {} elements came instead of {}",
                came.len(),
                self.model.len()
            )),
            Some(at) => Err(format!(
                "element {} of buffer {buffer} after step {step} is {} instead of {}",
                self.start + at,
                came[at],
                self.model[at]
            )),
        }
    }
}

fn refused(error: impl fmt::Display) -> String {
    format!("a step was refused: {error}")
}

/// Everything is given back by now: nothing may be left.
fn close(device: &Device) -> Result<(), String> {
    let closed = device.close(PATIENCE);
    match closed.drained && closed.tasks_left == 0 && closed.slices_held == 0 {
        true => Ok(()),
        false => Err(format!(
            "{} and {} of memory were left when it was closed",
            counted(closed.tasks_left as usize, "task"),
            counted(closed.slices_held as usize, "piece"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use millstream::sim::Sim;
    use millstream::{Cpu, Cuda};

    use super::*;

    fn passes(tested: &SelfTest) -> bool {
        matches!(tested, SelfTest::Passed { steps: STEPS, .. })
    }

    /// I1, I2, I10.
    #[test]
    fn devices_that_work_pass_i2() {
        let cpu = Device::open(Cpu::default()).unwrap();
        let sim = Device::open(Sim::seed(3)).unwrap();
        for device in [cpu, sim] {
            let tested = SelfTest::of(&device, mix());
            assert!(passes(&tested), "{tested:?}");
        }
    }

    /// The PTX that stands in where there is no compiler.
    #[test]
    #[ignore = "long on a driver without a GPU: run `cargo xtask gpu`"]
    fn what_gpus_run_passes_on_a_driver_without_one() {
        let gpu = fake_cuda::Session::begin(1).unwrap();
        let device = Device::open(Cuda::ordinal(0)).unwrap();
        let tested = SelfTest::of(&device, on_gpus(native()));
        assert!(passes(&tested), "{tested:?}");
        drop(device);
        gpu.assert_clean();
    }

    /// One launch in very many adds one more to one element.
    #[test]
    fn a_kernel_that_is_wrong_once_is_found() {
        let wrong = native_and(|into, start, by| {
            if let (0, true) = (start, by % 512 == 1) {
                into[0] ^= 1;
            }
        });
        let device = Device::open(Cpu::default()).unwrap();
        let SelfTest::Failed { reason } = SelfTest::of(&device, wrong) else {
            panic!("it passed");
        };
        assert!(reason.starts_with("element "), "{reason}");
    }

    #[test]
    fn what_is_left_behind_is_found() {
        let device = Device::open(Cpu::default()).unwrap();
        let _held = device
            .new_client()
            .new_stream()
            .create(&[1_u32; 64])
            .unwrap();
        let SelfTest::Failed { reason } = SelfTest::of(&device, mix()) else {
            panic!("it passed");
        };
        assert!(reason.contains("1 piece of memory were left"), "{reason}");
    }

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn the_ptx_is_what_the_compiler_makes_of_the_cuda_c() {
        let made = millstream::cuda::ptx_for(&mix(), "compute_80").unwrap();
        if std::env::var_os("MILLSTREAM_WRITE_PTX").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctor/mix.ptx");
            std::fs::write(path, &made).unwrap();
            return;
        }
        assert!(
            include_str!("mix.ptx") == made,
            "mix.ptx is of another compiler or another mix.cu: MILLSTREAM_WRITE_PTX=1 writes it anew"
        );
    }
}
