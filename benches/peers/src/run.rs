//! The parent process of all samples: starts each sample in its own process, alternates between the
//! sides round by round, and passes the medians to the table.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};

use millstream_harness::{Record, RecordRow, take_turns};

use crate::instruments::callgrind;
use crate::measures::instructions;
use crate::probe::{Probe, Setting, Side, probes};
use crate::table::{self, Row};

/// What starts this program.
const COMMAND: &str = "cargo run --release --manifest-path benches/peers/Cargo.toml --";
/// The default number of rounds per side.
const ROUNDS: usize = 5;
/// As [`ROUNDS`], for a quick run.
const ROUNDS_QUICK: usize = 1;

/// The time limit of a sample, in seconds. A sample that takes longer is stuck.
const LIMIT_S: &str = "60";
/// The exit code of `timeout` for a program that it has ended.
const TIMED_OUT: i32 = 124;

/// The options of a run.
pub(crate) struct Options {
    /// Only rows whose name contains this text are measured; all, if it is empty.
    pub(crate) only: String,
    /// The file for the record.
    pub(crate) json: Option<PathBuf>,
    pub(crate) quick: bool,
    pub(crate) rounds: Option<usize>,
}

/// The result of one sample: figures by name, or the reason why there are none.
type Sample = Result<BTreeMap<String, f64>, String>;

/// All samples of one probe, by side.
type Samples = BTreeMap<Side, Vec<Sample>>;

/// Takes every sample that the selected rows need, and prints the rows.
pub(crate) fn run(options: &Options) -> ExitCode {
    let rows: Vec<Row> = table::rows()
        .into_iter()
        .filter(|row| row.measure.contains(&options.only))
        .collect();
    let probes: Vec<Probe> = probes()
        .into_iter()
        .filter(|probe| rows.iter().any(|row| row.probe == probe.name))
        .collect();
    if rows.is_empty() {
        eprintln!(
            "no row name contains {:?}; `list` prints all rows",
            options.only
        );
        return ExitCode::FAILURE;
    }
    let mut samples = BTreeMap::new();
    for (index, probe) in probes.iter().enumerate() {
        let place = format!("{}/{}", index + 1, probes.len());
        samples.insert(probe.name, samples_of(probe, options, &place));
    }
    progress("");
    let rows = rows.iter().map(|row| recorded(row, &samples)).collect();
    let record = Record::of_now(COMMAND, &Side::ALL.map(Side::word), rows);
    match record.report(options.json.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the record: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on a terminal that the next one overwrites.
fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[2K{line}");
    }
}

fn samples_of(probe: &Probe, options: &Options, place: &str) -> Samples {
    let rounds = match options.rounds {
        _ if probe.is_exact() => 1,
        Some(rounds) => rounds.max(1),
        None if options.quick => ROUNDS_QUICK,
        None => ROUNDS,
    };
    let sides = Side::ALL.into_iter().filter(|&side| probe.has(side));
    let sides: Vec<Side> = sides.collect();
    let Ok(samples) = take_turns(sides.len(), 1..=rounds, |turn| {
        let (side, round) = (sides[turn.index], turn.round);
        let word = side.word();
        progress(&format!(
            "{place} {}: round {round}/{rounds}, {word}",
            probe.name
        ));
        // A failed sample does not end the run; it costs one cell.
        Ok::<_, Infallible>(take(probe, side, options.quick))
    });
    sides.into_iter().zip(samples).collect()
}

fn take(probe: &Probe, side: Side, quick: bool) -> Sample {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut sample = vec!["sample", side.word(), probe.name];
    if quick {
        sample.push("--quick");
    }
    let output = |before: &[&str], behind: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg(LIMIT_S).args(before).arg(&program);
        output_of(command.args(&sample).args(behind))
    };
    let ended = match probe.setting {
        Setting::Callgrind => {
            if !callgrind::AVAILABLE {
                return Err("valgrind requests are implemented for x86-64 only".into());
            }
            // Two samples, with shorter and with longer batches: the figure is their difference per launch.
            let tool = [
                "valgrind",
                "--tool=callgrind",
                "--callgrind-out-file=/dev/null",
            ];
            let tool = [&tool[..], &["--collect-atstart=no"]].concat();
            let short = collected(&output(&tool, &[])?)?;
            let long = collected(&output(&tool, &["--long-batches"])?)?;
            let each = (long - short) / instructions::difference();
            return Ok(BTreeMap::from([("instructions".to_string(), each)]));
        }
        Setting::OneCore => output(&["taskset", "--cpu-list", &first_core()?], &[])?,
        _ => output(&[], &[])?,
    };
    serde_json::from_slice(&ended.stdout).map_err(|error| error.to_string())
}

/// Returns the first core that this process may use.
fn first_core() -> Result<String, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let mut lines = status.lines();
    let allowed = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
    let core = allowed.and_then(|cores| cores.split([',', '-']).next());
    core.map(str::to_owned)
        .ok_or_else(|| "the system lists no cores".into())
}

/// Runs a sample to its end. An error is the reason why it has no result.
fn output_of(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(0) => Ok(output),
        Some(TIMED_OUT) => Err("timed out".into()),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr);
            let mut lines = text.lines();
            let line = lines.find(|line| !line.trim().is_empty());
            Err(format!(
                "{}: {}",
                output.status,
                line.unwrap_or("no output")
            ))
        }
    }
}

/// Returns the instructions that callgrind collected.
fn collected(output: &Output) -> Result<f64, String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let count = |line: &str| line.split_once("Collected :")?.1.trim().parse().ok();
    let count = text.lines().find_map(count);
    count.ok_or_else(|| "callgrind reported no count".into())
}

/// Returns a row with the samples of all sides.
fn recorded(row: &Row, samples: &BTreeMap<&str, Samples>) -> RecordRow {
    let of = |side: Side| {
        samples
            .get(row.probe)
            .and_then(|samples| samples.get(&side))
    };
    let figures = Side::ALL.map(|side| {
        let samples = of(side).into_iter().flatten().flatten();
        samples
            .filter_map(|figures| figures.get(row.figure).copied())
            .collect()
    });
    let failures = Side::ALL.into_iter().filter_map(|side| {
        let failure = of(side)?.iter().find_map(|sample| sample.as_ref().err())?;
        Some(format!("{}: {failure}", side.word()))
    });
    row.recorded(figures.into(), failures.collect())
}
