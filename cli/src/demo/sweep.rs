//! The demo with a fault at every single call of the device, one run each: nobody hangs, nothing leaks, no drawing
//! is wrong, and every error is typed and says which task of which photograph it was (I5, I6, I7, I10).

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

/// Photographs, how often each is developed, and by how many threads: streams meet on queues and in the taps.
const PHOTOS: u32 = 2;
const REPEAT: usize = 2;
const THREADS: usize = 3;
const RUNS: usize = PHOTOS as usize * REPEAT;
/// Each meets nearly all stages.
const SWEEPS_MAX: usize = 50;
/// Far longer than a run takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// All calls have been made long before this.
const CALLS_MAX: u64 = 2_000;

/// What can fail while a photograph is developed.
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

/// Small photographs of odd sizes, made up.
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

/// How a run ended: what became of each photograph, or the error that ended it before.
type Ended = Result<Round, Error>;

/// The demo's own pipeline and workers on a device with these faults. Everything is dropped and closed by the
/// end, and what must hold of any run has been checked.
fn develop(photos: &[Prepared], faults: Faults, name: &str) -> (Ended, u64) {
    let sim = simulator(faults);
    let findings = sim.findings();
    let device = Device::open_with(sim, DeviceOptions::default()).unwrap();
    let client = device.new_client();
    let streams: Vec<Stream> = (0..THREADS).map(|_| client.new_stream()).collect();
    let ended = Pipeline::new(&client, kernels(gpu::sources)).and_then(|pipeline| {
        let progress = Progress::new("sweeping", RUNS);
        workers::develop(&pipeline, &streams, photos, REPEAT, &progress).map_err(device_error)
    });
    drop((streams, client));
    leaves_nothing(&device, &findings, name);
    (ended, findings.figures().faults)
}

fn device_error(error: CommandError) -> Error {
    match error {
        CommandError::Device { source } => source,
        other => panic!("{other}"),
    }
}

/// I10: a device that was not lost has nothing left and says so; either way the checker found nothing, and all
/// threads ended. The report of a lost one is of the moment of the loss, when handles were still held.
fn leaves_nothing(device: &Device, findings: &Findings, name: &str) {
    let runs = device.sync().wait().is_ok();
    if runs {
        let memory = device.memory_usage().unwrap();
        assert_eq!(memory.device.live_slices, 0, "{name}");
        assert_eq!(memory.clients, [], "{name}");
        assert_eq!(device.stats().unwrap().streams, 0, "{name}");
    }
    let closed = device.close(PATIENCE);
    assert_eq!(closed.threads_left, 0, "{name}: {closed:?}");
    if runs {
        assert!(closed.drained, "{name}: {closed:?}");
        assert_eq!((closed.tasks_left, closed.slices_held), (0, 0), "{name}");
    }
    findings.assert_clean();
    assert_eq!(findings.figures().waits.implied, 0, "{name}");
}

/// Photographs that failed, each for a failure that names its stage and the injected fault. I6: every one was
/// answered once. I7: a drawing that came is right.
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
            Reason::Refused(why) => why.contains("injected fault"),
            _ => false,
        };
        assert!(injected, "{name}: {root}");
    }
    failures
}

/// Runs with the nth call of a kind failing, for every n that there is: how many, and the stages that failed.
fn sweep(call: Call) -> (u64, BTreeSet<String>) {
    let photos = photos();
    let mut stages = BTreeSet::new();
    for nth in 1..CALLS_MAX {
        let name = format!("{call:?} {nth}");
        let (ended, faults) = develop(&photos, Faults::none().nth(call, nth), &name);
        let round = ended.unwrap_or_else(|error| panic!("{name}: {error}"));
        let failed = failures(&round, &name);
        if faults == 0 {
            assert!(failed.is_empty(), "{name}");
            return (nth - 1, stages);
        }
        // I7: a stage belongs to one photograph; the taps belong to all, and a page that is refused is asked for
        // again in halves.
        let shared = failed.iter().any(|root| root.task.as_ref() == "copy in");
        let one = failed.len() == 1 || shared || call == Call::Allocate;
        assert!(one, "{name}: {} failed", failed.len());
        stages.extend(failed.iter().map(|root| root.task.to_string()));
    }
    panic!("{call:?}: the calls do not end");
}

/// Sweeps until each of these stages has failed, and none else: whose task is the nth depends on which thread comes first, and a busy
/// machine may have the nth of one stage come elsewhere each time. How many calls a run has.
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
fn a_refused_launch_or_copy_fails_its_photograph_and_no_other_i7() {
    assert_eq!(sweep_all(Call::Launch, &STAGES[2..8]), 6 * RUNS as u64);
    let (uploads, stages) = sweep(Call::CopyIn);
    assert_eq!((uploads, stages), (2 * RUNS as u64 + 1, set(&["copy in"])));
    let (readbacks, stages) = sweep(Call::CopyOut);
    assert_eq!((readbacks, stages), (2 * RUNS as u64, set(&["copy out"])));
}

#[test]
fn memory_that_cannot_be_had_fails_typed_i6() {
    let (pages, _) = sweep(Call::Allocate);
    assert!(pages >= 1);
}

#[test]
fn a_task_that_fails_half_way_fails_its_photograph_and_no_other_i7() {
    assert_eq!(sweep_all(Call::Run, &STAGES[1..]), 10 * RUNS as u64 + 1);
}

#[test]
fn a_kernel_that_does_not_compile_is_named() {
    let photos = photos();
    for (nth, kernel) in (1..).zip(&STAGES[2..8]) {
        let faults = Faults::none().nth(Call::Compile, nth);
        let (ended, _) = develop(&photos, faults, kernel);
        let error = ended.err().unwrap().to_string();
        assert!(
            error.contains(&format!("kernel `{kernel}` does not compile")),
            "{error}"
        );
    }
}

/// I5: from whichever call on the device is lost, everybody is told, and nothing else is said.
#[test]
fn a_device_lost_at_any_call_answers_every_photograph_i5() {
    let photos = photos();
    for nth in 1..CALLS_MAX {
        let name = format!("lost from {nth}");
        let (ended, faults) = develop(&photos, Faults::none().lost_from(nth), &name);
        match ended {
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
    panic!("the calls do not end");
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

/// The whole command, from the folder to the report: a failure is in the report, beside its photograph; a lost
/// device is the command's error.
#[test]
fn the_whole_command_says_which_photograph_failed_and_where() {
    let folder = Scratch::new("sweep_command");
    std::fs::create_dir(folder.path().join("in")).unwrap();
    folder.photograph("in/a.png", 9, 7);
    folder.photograph("in/b.png", 5, 11);
    let args = demo(&folder);
    let with = |faults: Faults| {
        let open = |_: &DemoArgs| {
            Device::open(simulator(faults)).map_err(|source| CommandError::Open { source })
        };
        session::run_on(&args, open, kernels(gpu::sources))
    };
    assert!(
        with(Faults::none())
            .unwrap()
            .photos
            .iter()
            .all(|photo| photo.wrong.is_none())
    );
    let report = with(Faults::none().nth(Call::Launch, 4)).unwrap();
    let wrong: Vec<_> = report
        .photos
        .iter()
        .filter(|photo| photo.wrong.is_some())
        .collect();
    assert_eq!(wrong.len(), 1);
    let said = wrong[0].wrong.as_deref().unwrap();
    assert!(
        said.contains("failed: the device refused it, injected fault: launch 4"),
        "{said}"
    );
    let lost = with(Faults::none().lost_from(12)).unwrap_err();
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
