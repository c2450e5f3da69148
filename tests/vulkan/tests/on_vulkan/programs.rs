//! Random programs (I1, I2, I4, I7, I10), each on a device of its own that is closed at its end: those of the suite,
//! with kernels in SPIR-V, those of the swarm, and programs with kernels of the IR, whose accesses the validation layer
//! sees.
//!
//! ```text
//! MILLSTREAM_SEEDS=1000 cargo test -p millstream-vulkan-conformance --test on_vulkan programs_
//! ```

use std::sync::Arc;

use millstream::ir::ssa::{Builder, Function, Val};
use millstream::ir::{BinaryOp, DType, Program as IrProgram};
use millstream::vulkan::Vulkan;
use millstream::{ComputeClient, Device, DeviceOptions, Error, Kernel, MemoryOptions, Source};
use millstream_conformance::program::RandomProgram;
use millstream_conformance::{Mode, On};
use millstream_swarm::Case;
use millstream_testkit::{Dice, End, Kernels, Program, ProgramConfig};
use rstest::rstest;

use crate::subject::{OnVulkan, checked, unavailable};

/// The number of programs of each test if `MILLSTREAM_SEEDS` is not set.
const SEEDS: u64 = 12;
/// The number of steps of a program with kernels of the IR.
const STEPS: usize = 150;
/// The number of elements of each of its buffers.
const ELEMENTS: usize = 96;

fn seeds() -> std::ops::RangeInclusive<u64> {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = given.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    1..=seeds
}

fn is_skipped() -> bool {
    let reason = unavailable();
    if let Some(reason) = reason {
        println!("skipped: {reason}");
    }
    reason.is_some()
}

#[rstest]
fn programs_are_right_for_every_seed_i2_i4_i10(
    #[values(Mode::Threads, Mode::OneQueue, Mode::Driven)] mode: Mode,
) {
    let on = On::new(&OnVulkan, mode);
    for seed in seeds().take_while(|_| !is_skipped()) {
        let rig = on.open_seeded(seed);
        let ran = RandomProgram::new(on, &rig.client(), seed).run();
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Builds a function over the first `n` elements. Two scalars, `number` and `n`, share a launch word.
fn each(k: &Builder, has_number: bool, body: impl FnOnce(Val<'_>, Val<'_>)) {
    let word = k.scalar("word", DType::U64);
    let high = word.binary(BinaryOp::Shr, k.bits(DType::U64, 32));
    let low = word.binary(BinaryOp::And, k.bits(DType::U64, u64::from(u32::MAX)));
    let (number, n) = if has_number { (low, high) } else { (low, low) };
    let number = number.cast(DType::U32);
    k.range(k.index(), n.cast(DType::I64), k.count(), |i| {
        body(i, number);
    });
}

/// Returns the code of a kernel of the testkit.
fn function(name: &str) -> Function {
    let k = Builder::new(name, [32, 1, 1]);
    match name {
        "add" => {
            let values = k.update("values", DType::U32);
            each(&k, true, |i, by| values.set(i, values.get(i) + by));
        }
        "set" => {
            let values = k.write("dst", DType::U32);
            each(&k, true, |i, value| values.set(i, value));
        }
        "mix" => {
            let (src, dst) = (k.read("src", DType::U32), k.update("dst", DType::U32));
            let factor = k.constant(31).cast(DType::U32);
            each(&k, false, |i, _| {
                dst.set(i, dst.get(i) * factor + src.get(i));
            });
        }
        other => unreachable!("the testkit has no kernel `{other}`"),
    }
    k.build().unwrap()
}

/// Prepares the kernels of a program, in the IR.
fn kernels(client: &ComputeClient) -> Result<Kernels, Error> {
    Kernels::prepared(|kernel: Kernel| {
        let program = IrProgram::Ssa(function(kernel.name()));
        client.kernel(kernel.source(Source::Ir(Arc::new(program))))
    })
}

/// Runs a program of the testkit.
fn run(device: &Device, seed: u64, is_driven: bool) -> Result<(), String> {
    let config = ProgramConfig {
        is_driven,
        ..ProgramConfig::small(ELEMENTS)
    };
    let tally = config.tally.clone();
    let steps = || -> Result<(), End> {
        let dice = &mut Dice::new(seed, 0);
        let client = device.new_client();
        let kernels = kernels(&client).unwrap();
        let mut program = Program::new(config, vec![client], kernels, dice)?;
        (0..STEPS).try_for_each(|_| program.step(dice))?;
        program.finish(dice)
    };
    steps().map_err(|end| tally.reason(end))
}

/// Each conflict of two tasks, of one queue or of two, has its barrier or its wait: the layer sees all accesses.
#[rstest]
fn programs_with_kernels_of_the_ir_are_right_for_every_seed_i1_i2_i4(
    #[values(1, 2, 4)] queues: usize,
    #[values(false, true)] is_driven: bool,
) {
    for seed in seeds().take_while(|_| !is_skipped()) {
        let opening = checked(Vulkan::ordinal(0).queues(queues).descriptors(true));
        let memory = MemoryOptions::default().page_bytes(256 << 10);
        let options = DeviceOptions::default().max_tasks(8).memory(memory);
        let (device, _driver) = match is_driven {
            true => Device::open_driven(opening.kind, options)
                .map(|(device, driver)| (device, Some(driver))),
            false => Device::open_with(opening.kind, options).map(|device| (device, None)),
        }
        .unwrap();
        let ran = run(&device, seed, is_driven);
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The swarm's programs: random options, limits, priorities and weights.
#[test]
fn programs_of_the_swarm_are_right_i1_i2_i4_i10() {
    for seed in seeds().take_while(|_| !is_skipped()) {
        let mut checks = None;
        let backend = |queues: usize| {
            let opening = checked(Vulkan::ordinal(0).queues(queues).descriptors(true));
            checks = Some(opening.checks);
            opening.kind
        };
        let ran = Case::new(seed).run_on_backend(backend, kernels);
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
