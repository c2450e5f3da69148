//! The examples on the fake driver, which interprets the PTX that NVRTC makes of their kernels.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../examples/game_loop/main.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod game_loop;
#[path = "../../../examples/service.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod service;

use std::fs::File;

use fake_cuda::Session;
use millstream::journal::SubmissionLog;
use millstream::{Cuda, Device};

/// Begins a session of the fake, on which NVRTC compiles to PTX: the fake cannot run its binaries.
fn gpu(seed: u64) -> Session {
    Session::begin(seed).unwrap_or_else(|error| panic!("{error}"))
}

fn cuda() -> Cuda {
    Cuda::ordinal(0).compile_to_ptx(true)
}

/// I1: replayed on a GPU, on the CPU and on the simulator, the submission log of a run on a GPU gives the same bits.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_game_loop_computes_the_same_bits_on_a_gpu_as_on_the_cpu_i1() {
    let output = std::env::temp_dir().join(format!("millstream-game-gpu-{}", std::process::id()));
    let arguments = "--frames 5 --size 40 --output"
        .split(' ')
        .map(str::to_owned);
    let arguments = arguments.chain([output.to_str().unwrap().to_owned()]);
    let options = game_loop::Options::parse(arguments).unwrap();
    let gpu = gpu(3);
    let (device, driver) = Device::open_driven(cuda(), game_loop::logged()).unwrap();
    let (log, digest) = game_loop::play(&options, device, driver, None).unwrap();
    let log = SubmissionLog::read_from(File::open(log).unwrap()).unwrap();
    let others = [game_loop::Backend::Cpu, game_loop::Backend::Sim].map(|it| it.open().unwrap());
    for device in [Device::open(cuda()).unwrap()].iter().chain(&others) {
        assert_eq!(
            game_loop::replay(&log, device).unwrap(),
            digest,
            "{}",
            device.properties().name
        );
    }
    drop(others);
    gpu.assert_clean();
    std::fs::remove_dir_all(output).unwrap();
}

/// I5, I12: on a GPU requests have the same outcomes as on the CPU, and every answer is correct.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_service_answers_every_request_on_a_gpu_i5() {
    let gpu = gpu(4);
    let text = service::serve(120, Device::open(cuda()).unwrap()).unwrap();
    gpu.assert_clean();
    let sum = |outcome: &str| -> u32 {
        let label = format!("outcome=\"{outcome}\"}} ");
        let lines = text.lines().filter_map(|line| line.split_once(&label));
        lines.map(|(_, count)| count.parse::<u32>().unwrap()).sum()
    };
    let outcomes = ["cancelled", "late", "served", "refused", "failed", "wrong"].map(sum);
    assert_eq!(outcomes, [6, 6, 106, 2, 0, 0], "{text}");
    assert!(text.contains("closed: drained true"), "{text}");
}
