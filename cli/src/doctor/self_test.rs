//! Tests whether a device computes correct results.
//!
//! The test is a random program of the testkit: several streams launch, fill, copy, record and read over shared
//! buffers, and every result is compared with the expected one. The steps are the same on every device and in every
//! run. Only the order in which the device runs independent tasks differs, so a hazard that a backend misses shows as
//! wrong data.

use std::fmt::Display;
use std::time::{Duration, Instant};

use millstream::{ComputeClient, Device, Kernel};
use millstream_testkit::{Dice, End, Kernels, Program, ProgramConfig, Sizes};
use serde::Serialize;

use crate::demo::counted;

const STEPS: usize = 3_000;
const STREAMS_MAX: usize = 4;
const BUFFERS_MAX: usize = 6;
const ELEMENTS_MAX: usize = 5_003;
/// The seed of the program; any value works.
const SEED: u64 = 8;
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
        let tested = run_program(&device.new_client(), sources);
        match tested.and_then(|()| close(device)) {
            Ok(()) => Self::Passed {
                steps: STEPS,
                took_ms: start.elapsed().as_millis() as u64,
            },
            Err(reason) => Self::Failed { reason },
        }
    }
}

fn run_program(client: &ComputeClient, sources: impl Fn(Kernel) -> Kernel) -> Result<(), String> {
    let config = ProgramConfig {
        sizes: Sizes::UpTo(ELEMENTS_MAX),
        buffers_max: BUFFERS_MAX,
        streams_max: STREAMS_MAX,
        patience: PATIENCE,
        ..ProgramConfig::small(ELEMENTS_MAX)
    };
    let tally = config.tally.clone();
    let kernels = Kernels::prepared(|kernel| client.kernel(sources(kernel))).map_err(refused)?;
    let dice = &mut Dice::new(SEED, 0);
    let run = || -> Result<(), End> {
        let mut program = Program::new(config, vec![client.clone()], kernels, dice)?;
        for _ in 0..STEPS {
            program.plain_step(dice)?;
        }
        program.finish(dice)
    };
    run().map_err(|end| tally.reason(end))
}

fn refused(error: impl Display) -> String {
    format!("a kernel was refused: {error}")
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
