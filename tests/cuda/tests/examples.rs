//! The examples on a GPU: on the fake driver, by the PTX that they bring for machines without NVRTC.
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
use millstream::SubmissionLog;

/// A GPU, and no NVRTC: what that would make, the fake could not run.
fn gpu(seed: u64) -> Session {
    let gpu = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: others of this program read the environment in a session of theirs, of which there is one at a time.
    unsafe { std::env::set_var("MILLSTREAM_NVRTC", "/nowhere/at/all") };
    gpu
}

/// I1: the game on a GPU comes to the bits that the processor comes to, step for step.
#[test]
fn the_game_comes_to_the_same_bits_on_a_gpu_as_on_the_processor_i1() {
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

/// I5, I12: on a GPU every request ends as on the processor, and every answer is right.
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
    let ends = ["cancelled", "late", "served", "refused", "failed", "wrong"].map(sum);
    assert_eq!(ends, [6, 6, 106, 2, 0, 0], "{text}");
    assert!(text.contains("closed: drained true"), "{text}");
}
