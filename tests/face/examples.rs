//! Runs the examples with small inputs. Each is a module here, whose entry function its `main` calls.
#![allow(
    clippy::duplicate_mod,
    reason = "each example includes the shared module itself, as it does as a program"
)]

#[path = "../../examples/decoder/main.rs"]
#[allow(dead_code, reason = "an example as a module")]
mod decoder;
#[path = "../../examples/digits/main.rs"]
#[allow(dead_code, reason = "an example as a module")]
mod digits;
#[path = "../../examples/game_loop/main.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod game_loop;
#[path = "../../examples/reaction/main.rs"]
#[allow(dead_code, reason = "an example as a module")]
mod reaction;
#[path = "../../examples/service.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod service;

/// I1: the game replays its log to the same pictures; the example fails if they differ.
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

/// I5, I12: every request ends with the outcome that its kind expects.
#[test]
fn the_service_answers_every_request_i5() {
    let text = service::run(120, "cpu").unwrap();
    let sum = |outcome: &str| -> u32 {
        let label = format!("outcome=\"{outcome}\"}} ");
        let lines = text.lines().filter_map(|line| line.split_once(&label));
        lines.map(|(_, count)| count.parse::<u32>().unwrap()).sum()
    };
    // Of 20 requests one is cancelled and one is late; of 60, one is too large for its tenant.
    assert_eq!(
        (sum("cancelled"), sum("late"), sum("failed"), sum("wrong")),
        (6, 6, 0, 0),
        "{text}"
    );
    assert_eq!((sum("served"), sum("refused")), (106, 2), "{text}");
    assert!(text.contains("# TYPE millstream_tasks_total counter\nmillstream_tasks_total "));
    assert!(text.contains("millstream_up 1\n") && text.contains("closed: drained true"));
}

/// Returns arguments for an example that writes its files to `folder`.
fn arguments(folder: &std::path::Path, line: &str) -> impl Iterator<Item = String> + use<> {
    let output = ["--output".to_owned(), folder.to_str().unwrap().to_owned()];
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    words.into_iter().chain(output)
}

/// Each example writes its pictures and its schedule.
#[test]
fn the_graph_examples_run_and_write_their_pictures() {
    let folder = std::env::temp_dir().join(format!("millstream-graphs-{}", std::process::id()));
    digits::run(arguments(&folder, "--rounds 1 --json")).unwrap();
    decoder::run(arguments(&folder, "--tokens 5")).unwrap();
    reaction::run(arguments(&folder, "--size 16 --steps 16 --backend sim")).unwrap();
    let loss = std::fs::read_to_string(folder.join("loss.svg")).unwrap();
    assert!(loss.contains("Training on digits"), "{loss}");
    for picture in ["guesses", "attention", "reaction"] {
        millstream_picture::Picture::open(folder.join(picture).with_extension("png")).unwrap();
    }
    for schedule in ["step", "token", "run"] {
        let path = folder.join(schedule).with_extension("dot");
        let dot = std::fs::read_to_string(path).unwrap();
        assert!(dot.starts_with("digraph schedule {"), "{dot}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_invalid_argument_of_an_example_is_reported_with_the_valid_ones() {
    let folder = std::env::temp_dir().join(format!("millstream-usage-{}", std::process::id()));
    for (line, expected) in [
        (
            "--rounds 0",
            "--rounds expects a number from 1 to 10000, got `0`",
        ),
        (
            "--rounds",
            "--rounds expects a number from 1 to 10000, got `--output`",
        ),
        (
            "--steps 5",
            "unknown option `--steps`: digits has --rounds, --backend",
        ),
        ("--backend abacus", "--backend expects cpu, cuda"),
    ] {
        let failure = digits::run(arguments(&folder, line)).unwrap_err();
        let text = format!("{failure:?}");
        assert!(text.starts_with("Usage("), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}
