//! The examples run, small: each is a module here, with the function that its `main` calls.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../examples/game_loop.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod game_loop;
#[path = "../examples/service.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod service;

/// I1: the log of the game gives its pictures again; the example fails where it does not.
#[test]
fn the_game_loop_runs_and_replays_to_the_same_pictures_i1() {
    let output = std::env::temp_dir().join(format!("millstream-game-{}", std::process::id()));
    let arguments = ["--frames", "6", "--size", "48", "--replay", "--output"];
    let arguments = arguments.map(str::to_owned).into_iter();
    let arguments = arguments.chain([output.to_str().unwrap().to_owned()]);
    game_loop::run(&game_loop::Options::parse(arguments).unwrap()).unwrap();
    assert!(output.join("frame-00000.png").metadata().unwrap().len() > 0);
    assert!(output.join("submissions.mslog").metadata().unwrap().len() > 0);
    std::fs::remove_dir_all(output).unwrap();
}

/// I5, I12: every request ends, each as it was meant to.
#[test]
fn the_service_answers_every_request_i5() {
    let text = service::run(120, "cpu").unwrap();
    let sum = |outcome: &str| -> u32 {
        let label = format!("outcome=\"{outcome}\"}} ");
        let lines = text.lines().filter_map(|line| line.split_once(&label));
        lines.map(|(_, count)| count.parse::<u32>().unwrap()).sum()
    };
    // Of 20 requests one was given up and one is late; of 60, one is too large for its tenant.
    assert_eq!(
        (sum("cancelled"), sum("late"), sum("failed"), sum("wrong")),
        (6, 6, 0, 0),
        "{text}"
    );
    assert_eq!((sum("served"), sum("refused")), (106, 2), "{text}");
    assert!(text.contains("# TYPE millstream_tasks_total counter\nmillstream_tasks_total "));
    assert!(text.contains("millstream_up 1\n") && text.contains("closed: drained true"));
}
