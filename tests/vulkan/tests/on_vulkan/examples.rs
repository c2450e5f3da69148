//! The examples on a Vulkan device.

#[path = "../../../../examples/game_loop/main.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod game_loop;
#[path = "../../../../examples/service.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod service;

use std::fs::File;

use millstream::journal::SubmissionLog;

use crate::subject::unavailable;

/// I1: replayed on the CPU, the submission log of a run on Vulkan gives the same bits.
#[test]
fn the_game_loop_computes_the_same_bits_on_vulkan_as_on_the_cpu_i1() {
    if let Some(why) = unavailable() {
        return eprintln!("SKIPPED: {why}");
    }
    let output = std::env::temp_dir().join(format!("millstream-game-vk-{}", std::process::id()));
    let arguments = "--frames 5 --size 40 --backend vulkan --replay --output";
    let arguments = arguments.split(' ').map(str::to_owned);
    let arguments = arguments.chain([output.to_str().unwrap().to_owned()]);
    let options = game_loop::Options::parse(arguments).unwrap();
    let digest = game_loop::run(&options).unwrap();
    let log = File::open(output.join("submissions.mslog")).unwrap();
    let log = SubmissionLog::read_from(log).unwrap();
    let on_cpu = game_loop::replay(&log, &game_loop::Backend::Cpu.open().unwrap()).unwrap();
    assert_eq!(on_cpu, digest);
    std::fs::remove_dir_all(output).unwrap();
}

/// I5, I12: on Vulkan requests have the same outcomes as on the CPU, and every answer is correct.
#[test]
fn the_service_answers_every_request_on_vulkan_i5() {
    if let Some(why) = unavailable() {
        return eprintln!("SKIPPED: {why}");
    }
    let text = service::run(120, "vulkan").unwrap();
    let sum = |outcome: &str| -> u32 {
        let label = format!("outcome=\"{outcome}\"}} ");
        let lines = text.lines().filter_map(|line| line.split_once(&label));
        lines.map(|(_, count)| count.parse::<u32>().unwrap()).sum()
    };
    let outcomes = ["cancelled", "late", "served", "refused", "failed", "wrong"].map(sum);
    assert_eq!(outcomes, [6, 6, 106, 2, 0, 0], "{text}");
    assert!(text.contains("closed: drained true"), "{text}");
}
