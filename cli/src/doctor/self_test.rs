//! Tests whether a device computes correct results.
//!
//! Four streams launch, fill, copy, record and read over shared buffers, in an order that a fixed seed chooses. Every
//! result is compared with the same steps on the host. Only the order in which the device runs independent tasks
//! differs, so a hazard that a backend misses shows as wrong data.

use std::fmt::{self, Display};
use std::time::{Duration, Instant};

use millstream::{
    ComputeClient, CubeCount, Device, Error, Handle, Kernel, KernelHandle, Pending, Recorder,
    Stream, read, update, write,
};
use serde::Serialize;

use crate::units::counted;

const STEPS: usize = 3_000;
const STREAMS: usize = 4;
const BUFFERS: usize = 6;
const ELEMENTS: usize = 2_503;
/// The reads that are outstanding at once.
const READS: usize = 16;
/// The timeout of an answer: thousands of times what a device needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result of a self-test.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SelfTest {
    Passed { steps: usize, took_ms: u64 },
    Failed { reason: String },
    Skipped,
}

impl SelfTest {
    /// Tests the device and closes it. `sources` adds GPU sources to the kernels.
    pub(super) fn of(device: &Device, sources: impl Fn(Kernel) -> Kernel) -> Self {
        let start = Instant::now();
        let tested = run(&device.new_client(), sources);
        match tested.and_then(|()| close(device)) {
            Ok(()) => Self::Passed {
                steps: STEPS,
                took_ms: start.elapsed().as_millis() as u64,
            },
            Err(reason) => Self::Failed { reason },
        }
    }
}

impl fmt::Display for SelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { took_ms, .. } => {
                write!(f, "passed in {:.2} s", *took_ms as f64 / 1e3)
            }
            Self::Failed { .. } => f.write_str("FAILED, see below"),
            Self::Skipped => f.write_str("skipped"),
        }
    }
}

/// The kernels. Those for GPUs get the number of elements as their last scalar.
fn kernels() -> [Kernel; 3] {
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
            mix_on_host(&src[start..], args.chunk::<u32>(1));
        });
    let set = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .native(|_cube, args| args.chunk::<u32>(0).fill(args.scalar(0)));
    [add, mix, set]
}

fn mix_on_host(src: &[u32], dst: &mut [u32]) {
    for (dst, src) in dst.iter_mut().zip(src) {
        *dst = dst.wrapping_mul(31).wrapping_add(*src);
    }
}

/// Chooses numbers: always the same ones.
struct Choices(u64);

impl Choices {
    /// Returns a number below `most`. The constants are those of PCG.
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// A read and its expected data.
type Expectation = (Pending<Vec<u32>>, Vec<u32>);

fn run(client: &ComputeClient, sources: impl Fn(Kernel) -> Kernel) -> Result<(), String> {
    let refused = |error: Error| format!("a kernel was refused: {error}");
    let kernels = kernels().map(|kernel| client.kernel(sources(kernel)));
    let [add, mix, set] = kernels.map(|kernel| kernel.map_err(refused));
    let kernels = [add?, mix?, set?];
    let mut reads = Vec::with_capacity(READS);
    let mut choices = Choices(8);
    let mut program = Program::new(client, kernels).map_err(failed)?;
    for step in 0..STEPS {
        if let Some((read, expected)) = program.step(&mut choices).map_err(failed)? {
            reads.push((step, (read, expected)));
        }
        if reads.len() == READS {
            reads.drain(..).try_for_each(check)?;
        }
    }
    reads.into_iter().try_for_each(check)
}

fn failed(error: impl Display) -> String {
    format!("a step failed: {error}")
}

fn check((step, (mut read, expected)): (usize, Expectation)) -> Result<(), String> {
    let got = read.wait_timeout(PATIENCE).map_err(failed)?;
    match got
        .iter()
        .zip(&expected)
        .position(|(got, expected)| got != expected)
    {
        None if got.len() == expected.len() => Ok(()),
        None => Err(format!(
            "step {step}: expected {} elements, got {}",
            expected.len(),
            got.len()
        )),
        Some(at) => Err(format!(
            "step {step}: element {at}: expected {}, got {}",
            expected[at], got[at]
        )),
    }
}

/// The buffers of the device, and what they must contain.
struct Program {
    streams: Vec<Stream>,
    kernels: [KernelHandle; 3],
    buffers: Vec<Handle<u32>>,
    contents: Vec<Vec<u32>>,
}

impl Program {
    fn new(client: &ComputeClient, kernels: [KernelHandle; 3]) -> Result<Self, Error> {
        let streams: Vec<_> = (0..STREAMS).map(|_| client.new_stream()).collect();
        let contents: Vec<Vec<u32>> = (0..BUFFERS as u32)
            .map(|buffer| (0..ELEMENTS as u32).map(|at| at * 7 + buffer).collect())
            .collect();
        let created = contents.iter().map(|values| streams[0].create(values));
        Ok(Self {
            buffers: created.collect::<Result<_, _>>()?,
            streams,
            kernels,
            contents,
        })
    }

    /// Submits one step, and does it on the host. A step that reads returns the expected data.
    fn step(&mut self, choices: &mut Choices) -> Result<Option<Expectation>, Error> {
        let Self {
            streams,
            kernels: [add, mix, set],
            buffers,
            contents,
        } = self;
        let stream = &streams[choices.below(STREAMS)];
        let one = choices.below(BUFFERS);
        let other = (one + 1 + choices.below(BUFFERS - 1)) % BUFFERS;
        let number = choices.below(1 << 20) as u32;
        let (n, cubes) = (ELEMENTS as u32, CubeCount::d1(1 + number % 16));
        let adds = (update(&buffers[one]), number, n);
        let mixes = (read(&buffers[other]), update(&buffers[one]), n);
        let Ok([result, source]) = contents.get_disjoint_mut([one, other]) else {
            unreachable!("the buffers differ");
        };
        let added = |values: &mut [u32]| {
            values
                .iter_mut()
                .for_each(|value| *value = value.wrapping_add(number));
        };
        match choices.below(8) {
            0 | 1 => {
                stream.launch(add, cubes, adds)?;
                added(result);
            }
            2 | 3 => {
                stream.launch(mix, cubes, mixes)?;
                mix_on_host(source, result);
            }
            4 => {
                stream.launch(set, cubes, (write(&buffers[one]), number, n))?;
                result.fill(number);
            }
            5 => {
                let from = choices.below(ELEMENTS / 2);
                let part = from..from + ELEMENTS / 2;
                let slice = |buffer: usize| buffers[buffer].slice(part.clone());
                stream.copy(&slice(other)?, &slice(one)?)?;
                result[part.clone()].copy_from_slice(&source[part]);
            }
            6 => {
                let recording = stream.record(|recorder: &mut Recorder<'_>| {
                    recorder.launch(add, cubes.clone(), adds)?;
                    recorder.launch(mix, cubes.clone(), mixes)
                })?;
                recording.replay(stream)?;
                added(result);
                mix_on_host(source, result);
            }
            _ => return Ok(Some((stream.read(&buffers[one]), result.clone()))),
        }
        Ok(None)
    }
}

/// Closes the device. All handles have been dropped, so nothing may be left.
fn close(device: &Device) -> Result<(), String> {
    let closed = device.close(PATIENCE);
    match closed.drained && closed.tasks_left == 0 && closed.slices_held == 0 {
        true => Ok(()),
        false => Err(format!(
            "the device left {} and {} when it closed",
            counted(closed.tasks_left as usize, "task"),
            counted(closed.slices_held as usize, "slice"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use millstream::sim::Sim;
    use millstream::{Cpu, Cuda};

    use super::*;
    use crate::doctor::gpu_sources::{with_gpu_sources, with_ptx};

    fn passes(tested: &SelfTest) -> bool {
        matches!(tested, SelfTest::Passed { steps: STEPS, .. })
    }

    /// I1, I2, I10.
    #[test]
    fn cpu_and_simulator_pass_i2() {
        let cpu = Device::open(Cpu::default()).unwrap();
        let sim = Device::open(Sim::seed(3)).unwrap();
        for device in [cpu, sim] {
            let tested = SelfTest::of(&device, with_gpu_sources);
            assert!(passes(&tested), "{tested:?}");
        }
    }

    /// The PTX serves machines without a compiler.
    #[test]
    #[ignore = "slow on the fake driver: run `cargo xtask gpu`"]
    fn ptx_passes_on_the_fake_gpu() {
        let gpu = fake_cuda::Session::begin(1).unwrap();
        let device = Device::open(Cuda::ordinal(0)).unwrap();
        let tested = SelfTest::of(&device, with_ptx);
        assert!(passes(&tested), "{tested:?}");
        drop(device);
        gpu.assert_clean();
    }

    /// One launch in 128 computes one wrong element per cube.
    #[test]
    fn kernel_that_is_rarely_wrong_fails_the_self_test() {
        let wrong = |kernel: Kernel| match &**kernel.name() {
            "add" => Kernel::new("add")
                .updates::<u32>("values")
                .scalar::<u32>("by")
                .scalar::<u32>("n")
                .native(|_cube, args| {
                    let by: u32 = args.scalar(0);
                    for (index, value) in args.chunk::<u32>(0).iter_mut().enumerate() {
                        let wrong = u32::from(index == 0 && by % 128 == 1);
                        *value = value.wrapping_add(by) ^ wrong;
                    }
                }),
            _ => kernel,
        };
        let device = Device::open(Cpu::default()).unwrap();
        let SelfTest::Failed { reason } = SelfTest::of(&device, wrong) else {
            panic!("the self-test passed");
        };
        assert!(reason.contains("element "), "{reason}");
    }

    #[test]
    fn held_memory_fails_the_self_test() {
        let device = Device::open(Cpu::default()).unwrap();
        let _held = device
            .new_client()
            .new_stream()
            .create(&[1_u32; 64])
            .unwrap();
        let SelfTest::Failed { reason } = SelfTest::of(&device, with_gpu_sources) else {
            panic!("the self-test passed");
        };
        assert!(
            reason.contains("0 tasks and 1 slice when it closed"),
            "{reason}"
        );
    }

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn ptx_is_the_compiler_output_of_the_cuda_c() {
        let kernel = with_gpu_sources(Kernel::new("mix"));
        let made = millstream::cuda::ptx_for(&kernel, "compute_80").unwrap();
        if std::env::var_os("MILLSTREAM_WRITE_PTX").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctor/program.ptx");
            std::fs::write(path, &made).unwrap();
            return;
        }
        assert!(
            include_str!("program.ptx") == made,
            "program.ptx differs from the compiler's output for program.cu: run with MILLSTREAM_WRITE_PTX=1 to regenerate it"
        );
    }
}
