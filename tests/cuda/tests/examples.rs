//! The examples on the fake driver, with the PTX that they contain for machines without NVRTC.
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

/// Begins a session of the fake and disables NVRTC, whose binaries the fake cannot run.
fn gpu(seed: u64) -> Session {
    let gpu = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: other tests of this process read the environment only in a session, and there is one session at a time.
    unsafe { std::env::set_var("MILLSTREAM_NVRTC", "/nowhere/at/all") };
    gpu
}

/// I1: replayed on the CPU and on the simulator, the submission log of a run on a GPU gives the same bits.
#[test]
fn the_game_loop_computes_the_same_bits_on_a_gpu_as_on_the_cpu_i1() {
    let output = std::env::temp_dir().join(format!("millstream-game-gpu-{}", std::process::id()));
    let arguments = [
        "--frames",
        "5",
        "--size",
        "40",
        "--backend",
        "cuda",
        "--replay",
        "--output",
    ];
    let arguments = arguments.map(str::to_owned).into_iter();
    let arguments = arguments.chain([output.to_str().unwrap().to_owned()]);
    let options = game_loop::Options::parse(arguments).unwrap();
    let gpu = gpu(3);
    let digest = game_loop::run(&options).unwrap();
    gpu.assert_clean();
    let log = File::open(output.join("submissions.mslog")).unwrap();
    let log = SubmissionLog::read_from(log).unwrap();
    for backend in [game_loop::Backend::Cpu, game_loop::Backend::Sim] {
        assert_eq!(
            game_loop::replay(&log, backend).unwrap(),
            digest,
            "{backend:?}"
        );
    }
    std::fs::remove_dir_all(output).unwrap();
}

/// I5, I12: on a GPU requests have the same outcomes as on the CPU, and every answer is correct.
#[test]
fn the_service_answers_every_request_on_a_gpu_i5() {
    let gpu = gpu(4);
    let text = service::run(120, "cuda").unwrap();
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
