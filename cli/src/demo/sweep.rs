//! Runs the demo once for each call of the device, with a fault at that call. No thread hangs, nothing leaks, no
//! drawing is wrong, and every error is typed and names the failed task (I5, I6, I7, I10).

use std::collections::BTreeSet;
use std::time::Duration;

use millstream::sim::{Call, Faults, Findings, Sim};
use millstream::{Device, DeviceOptions, Error, Failure, Reason, Stream};

use super::check::Verdict;
use super::photos::Photo;
use super::pipeline::{Pipeline, kernels};
use super::progress::Progress;
use super::workers::{self, Prepared, Round};
use super::{gpu, reference, session};
use crate::args::{Cli, Command, DemoArgs};
use crate::exit::CommandError;
use crate::scratch::Scratch;

/// The load of a run. There are more streams than queues, and all streams read the taps.
const PHOTOS: u32 = 2;
const REPEAT: usize = 2;
const THREADS: usize = 3;
const RUNS: usize = PHOTOS as usize * REPEAT;
/// A limit on the sweeps until every stage has failed. One sweep reaches nearly all of them.
const SWEEPS_MAX: usize = 50;
/// A timeout far longer than a run takes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);
/// More calls than a run makes.
const CALLS_MAX: u64 = 2_000;

/// The tasks of a photograph, by the names that failures report.
const STAGES: [&str; 9] = [
    "reserve",
    "copy in",
    "luma",
    "blur_x",
    "blur_y",
    "sobel",
    "tone",
    "histogram",
    "copy out",
];

/// Returns small synthetic photographs of odd sizes.
fn photos() -> Vec<Prepared> {
    (0..PHOTOS)
        .map(|index| {
            let (width, height) = (7 + index, 5 + 2 * index);
            let rgb = (0..width * height * 3)
                .map(|byte| (byte * 37 + index * 11) as u8)
                .collect();
            let photo = Photo {
                file: format!("{index}.png"),
                output: format!("{index}.png"),
                width,
                height,
                rgb,
            };
            let tones = reference::tones(&photo);
            Prepared { photo, tones }
        })
        .collect()
}

fn simulator(faults: Faults) -> Sim {
    Sim::seed(11).queues(2).faults(faults)
}

/// The results of all photographs, or the error that ended the run early.
type Outcome = Result<Round, Error>;

/// Runs the demo's pipeline and workers on a simulator with these faults, closes the device and checks the
/// invariants of every run. Returns the outcome and the number of injected faults.
fn run(photos: &[Prepared], faults: Faults, name: &str) -> (Outcome, u64) {
    let sim = simulator(faults);
    let findings = sim.findings();
    let device = Device::open_with(sim, DeviceOptions::default()).unwrap();
    let client = device.new_client();
    let streams: Vec<Stream> = (0..THREADS).map(|_| client.new_stream()).collect();
    let outcome = Pipeline::new(&client, kernels(gpu::sources)).and_then(|pipeline| {
        let progress = Progress::new("sweeping", RUNS);
        workers::convert(&pipeline, &streams, photos, REPEAT, &progress).map_err(device_error)
    });
    drop((streams, client));
    assert_nothing_left(&device, &findings, name);
    (outcome, findings.figures().faults)
}

fn device_error(error: CommandError) -> Error {
    match error {
        CommandError::Device { source } => source,
        other => panic!("{other}"),
    }
}

/// I10: a device that was not lost reports nothing left. In both cases the checker has no findings and all threads
/// have ended. The report of a lost device describes the moment of the loss, when handles were still held.
fn assert_nothing_left(device: &Device, findings: &Findings, name: &str) {
    let alive = device.sync().wait().is_ok();
    if alive {
        let memory = device.memory_usage().unwrap();
        assert_eq!(memory.device.live_slices, 0, "{name}");
        assert_eq!(memory.clients, [], "{name}");
        assert_eq!(device.stats().unwrap().streams, 0, "{name}");
    }
    let closed = device.close(CLOSE_TIMEOUT);
    assert_eq!(closed.threads_left, 0, "{name}: {closed:?}");
    if alive {
        assert!(closed.drained, "{name}: {closed:?}");
        assert_eq!((closed.tasks_left, closed.slices_held), (0, 0), "{name}");
    }
    findings.assert_clean();
    assert_eq!(findings.figures().waits.implied, 0, "{name}");
}

/// Returns the root failures, each of which names a stage and the injected fault.
///
/// Also checks that every photograph is answered exactly once (I6) and that returned drawings are correct (I7).
fn failures<'a>(round: &'a Round, name: &str) -> Vec<&'a Failure> {
    assert_eq!(round.runs.len(), RUNS, "{name}");
    let mut failures = Vec::new();
    for run in &round.runs {
        assert!(
            run.photo < PHOTOS as usize && run.thread < THREADS,
            "{name}"
        );
        match &run.outcome {
            Ok(Verdict::Equal { .. }) => {}
            Ok(Verdict::Different(difference)) => panic!("{name}: {difference}"),
            Err(Error::Failed(failure)) => failures.push(failure.root()),
            Err(other) => panic!("{name}: {other}"),
        }
    }
    for root in &failures {
        assert!(STAGES.contains(&root.task.as_ref()), "{name}: {root}");
        let injected = match &root.reason {
            Reason::OutOfMemory { .. } => true,
            Reason::Refused(reason) => reason.contains("injected fault"),
            _ => false,
        };
        assert!(injected, "{name}: {root}");
    }
    failures
}

/// Fails the nth call of a kind, for every n, one run each. Returns the number of calls, and the stages that failed.
fn sweep(call: Call) -> (u64, BTreeSet<String>) {
    let photos = photos();
    let mut stages = BTreeSet::new();
    for nth in 1..CALLS_MAX {
        let name = format!("{call:?} {nth}");
        let (outcome, faults) = run(&photos, Faults::none().nth(call, nth), &name);
        let round = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        let failed = failures(&round, &name);
        if faults == 0 {
            assert!(failed.is_empty(), "{name}");
            return (nth - 1, stages);
        }
        // I7: a stage belongs to one photograph. Exceptions: all photographs read the taps, and the server retries a
        // refused page with smaller ones.
        let shared = failed.iter().any(|root| root.task.as_ref() == "copy in");
        let one = failed.len() == 1 || shared || call == Call::Allocate;
        assert!(one, "{name}: {} failed", failed.len());
        stages.extend(failed.iter().map(|root| root.task.to_string()));
    }
    panic!("{call:?}: more than {CALLS_MAX} calls");
}

/// Sweeps until each of these stages, and no other, has failed. Returns the number of calls of a run.
///
/// One sweep may miss a stage, because the order of the threads decides which task makes the nth call.
fn sweep_all(call: Call, stages: &[&str]) -> u64 {
    let (all, mut failed) = (set(stages), BTreeSet::new());
    for _ in 0..SWEEPS_MAX {
        let (calls, more) = sweep(call);
        failed.extend(more);
        assert!(failed.is_subset(&all), "{call:?}: {failed:?}");
        if failed == all {
            return calls;
        }
    }
    panic!("{call:?}: only {failed:?} failed in {SWEEPS_MAX} sweeps");
}

fn set(stages: &[&str]) -> BTreeSet<String> {
    stages.iter().map(ToString::to_string).collect()
}

#[test]
fn refused_launch_or_copy_fails_only_its_photograph_i7() {
    assert_eq!(sweep_all(Call::Launch, &STAGES[2..8]), 6 * RUNS as u64);
    let (uploads, stages) = sweep(Call::CopyIn);
    assert_eq!((uploads, stages), (2 * RUNS as u64 + 1, set(&["copy in"])));
    let (readbacks, stages) = sweep(Call::CopyOut);
    assert_eq!((readbacks, stages), (2 * RUNS as u64, set(&["copy out"])));
}

#[test]
fn refused_allocation_gives_typed_failures_i6() {
    let (pages, _) = sweep(Call::Allocate);
    assert!(pages >= 1);
}

#[test]
fn task_that_fails_while_it_runs_fails_only_its_photograph_i7() {
    assert_eq!(sweep_all(Call::Run, &STAGES[1..]), 10 * RUNS as u64 + 1);
}

#[test]
fn error_of_a_kernel_that_does_not_compile_names_the_kernel() {
    let photos = photos();
    for (nth, kernel) in (1..).zip(&STAGES[2..8]) {
        let faults = Faults::none().nth(Call::Compile, nth);
        let (outcome, _) = run(&photos, faults, kernel);
        let error = outcome.err().unwrap().to_string();
        assert!(
            error.contains(&format!("kernel `{kernel}` does not compile")),
            "{error}"
        );
    }
}

/// I5: at whatever call the device is lost, every unanswered photograph gets `DeviceLost`.
#[test]
fn device_lost_at_any_call_answers_every_photograph_i5() {
    let photos = photos();
    for nth in 1..CALLS_MAX {
        let name = format!("lost at call {nth}");
        let (outcome, faults) = run(&photos, Faults::none().lost_from(nth), &name);
        match outcome {
            Err(Error::DeviceLost { epoch: 0, .. }) => {}
            Err(other) => panic!("{name}: {other}"),
            Ok(round) => {
                assert_eq!(round.runs.len(), RUNS, "{name}");
                for run in &round.runs {
                    match &run.outcome {
                        Ok(Verdict::Equal { .. }) | Err(Error::DeviceLost { epoch: 0, .. }) => {}
                        other => panic!("{name}: photograph {}: {other:?}", run.photo),
                    }
                }
            }
        }
        if faults == 0 && nth > 6 {
            assert!(nth > 10 * RUNS as u64, "{nth}");
            return;
        }
    }
    panic!("more than {CALLS_MAX} calls");
}

fn demo(folder: &Scratch) -> DemoArgs {
    use clap::Parser;
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let options = [
        "millstream",
        "demo",
        "--backend",
        "sim",
        "--repeat",
        "1",
        "--threads",
        "2",
    ];
    let mut line: Vec<std::ffi::OsString> = options.map(Into::into).into();
    line.extend([
        "--input".into(),
        input.into(),
        "--output".into(),
        output.into(),
    ]);
    match Cli::parse_from(line).command {
        Command::Demo(args) => args,
        other => panic!("{other:?}"),
    }
}

/// The report lists a failure with its photograph. A lost device is the error of the command.
#[test]
fn report_names_the_failed_photograph_and_a_lost_device_is_an_error() {
    let folder = Scratch::new("sweep_command");
    std::fs::create_dir(folder.path().join("in")).unwrap();
    folder.photograph("in/a.png", 9, 7);
    folder.photograph("in/b.png", 5, 11);
    let args = demo(&folder);
    let run_with = |faults: Faults| {
        let open = |_: &DemoArgs| {
            Device::open(simulator(faults)).map_err(|source| CommandError::Open { source })
        };
        session::run_on(&args, open, kernels(gpu::sources))
    };
    assert!(
        run_with(Faults::none())
            .unwrap()
            .photos
            .iter()
            .all(|photo| photo.wrong.is_none())
    );
    let report = run_with(Faults::none().nth(Call::Launch, 4)).unwrap();
    let wrong: Vec<_> = report
        .photos
        .iter()
        .filter(|photo| photo.wrong.is_some())
        .collect();
    assert_eq!(wrong.len(), 1);
    let message = wrong[0].wrong.as_deref().unwrap();
    assert!(
        message.contains("failed: the device refused it, injected fault: launch 4"),
        "{message}"
    );
    let lost = run_with(Faults::none().lost_from(12)).unwrap_err();
    assert!(
        matches!(
            &lost,
            CommandError::Device {
                source: Error::DeviceLost { epoch: 0, .. }
            }
        ),
        "{lost:?}"
    );
}
