//! `millstream bench`: what the paths cost that a user pays for, on the machine at hand, in seconds.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`rig`] | the paths themselves, which `benches/paths.rs` measures as well |
//! | [`rows`] | what is measured |
//! | [`load`], [`samples`] | how much one sample does, and how each row takes one |
//! | [`report`] | the run as data, and the run that it is compared with |
//! | [`table`], [`plot`] | the report for people |
//!
//! Sampling in turn, figures, tables and plots are those of `millstream-harness`, which all benches share.

mod load;
mod plot;
mod report;
pub(crate) mod rig;
mod rows;
mod samples;
mod table;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use millstream::sim::Sim;
use millstream::{Cpu, Cuda, Device, OpenError};
use millstream_harness::{Figure, take_turns};

use self::load::Load;
use self::report::{Comparison, DeviceFacts, Measured, Report};
use self::rig::Rig;
use self::rows::Row;
use crate::args::{BenchArgs, BenchDevice};
use crate::demo::Progress;
use crate::exit::{CommandError, Exit};
use crate::output;

/// Samples of each row: enough for quartiles that mean something.
const ROUNDS: usize = 11;
/// The same where somebody only looks.
const ROUNDS_QUICK: usize = 3;
/// Threads that launch at most, if nothing is said: twice the processor's, up to these.
const THREADS_MAX: usize = 8;
/// How long the device may take to close: everything was waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> Result<Exit, CommandError> {
    // Before anything is measured: a name that is no good is told at once.
    let earlier = args.compare.as_deref().map(report::read).transpose()?;
    let unwritable = |path: &Path, source| CommandError::PictureUnwritable {
        path: path.to_owned(),
        source,
    };
    let picture = args
        .picture
        .as_deref()
        .map(|path| match File::create(path) {
            Ok(file) => Ok((path, file)),
            Err(source) => Err(unwritable(path, source)),
        });
    let picture = picture.transpose()?;
    let device = open(args.device).map_err(|source| CommandError::Open { source })?;
    let mut report = measure(args, device)?;
    if let (Some(earlier), Some(file)) = (&earlier, &args.compare) {
        report.compared = Some(Comparison::of(&report, earlier, file));
    }
    if let Some((path, mut file)) = picture {
        let written = file.write_all(plot::draw(&report).as_bytes());
        written.map_err(|source| unwritable(path, source))?;
    }
    match args.json {
        true => output::json(&report)?,
        false => output::text(&table::render(&report))?,
    }
    Ok(Exit::Success)
}

fn open(device: BenchDevice) -> Result<Device, OpenError> {
    match device {
        BenchDevice::Cpu => Device::open(Cpu::default()),
        BenchDevice::Cuda(ordinal) => Device::open(Cuda::ordinal(ordinal)),
        BenchDevice::Sim => Device::open(Sim::seed(1)),
    }
}

/// Takes the samples of all rows, in turn.
fn measure(args: &BenchArgs, device: Device) -> Result<Report, CommandError> {
    let begun = Instant::now();
    let failed = |source| CommandError::Device { source };
    let facts = DeviceFacts::of(&device);
    let rig = Rc::new(Rig::new(device).map_err(failed)?);
    let threads = args
        .threads
        .map_or_else(default_threads, |threads| threads as usize);
    let (rows, left_out) = rows::all(&rig, Load::new(args.quick), threads);
    let rounds = if args.quick { ROUNDS_QUICK } else { ROUNDS };
    let rows = in_turn(rows, rounds)?;
    rig.device.close(CLOSE_TIMEOUT);
    Ok(Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        exit_code: Exit::Success.code(),
        device: facts,
        quick: args.quick,
        debug_build: cfg!(debug_assertions),
        seconds: begun.elapsed().as_secs_f64(),
        rows,
        left_out,
        compared: None,
    })
}

fn default_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).min(THREADS_MAX)
}

/// Each row's samples, round by round; the first round, which warms everything up, is thrown away.
fn in_turn(mut rows: Vec<Row>, rounds: usize) -> Result<Vec<Measured>, CommandError> {
    let progress = Progress::new("measuring", (rounds + 1) * rows.len());
    let samples = take_turns(rows.len(), 0..=rounds, |turn| {
        let row = &mut rows[turn.index];
        let sample = (row.sample)().map_err(|source| CommandError::Bench {
            row: row.name.clone(),
            source,
        })?;
        progress.step();
        Ok(sample)
    })?;
    let measured = rows.into_iter().zip(samples).filter_map(|(row, samples)| {
        Some(Measured {
            name: row.name,
            unit: row.unit,
            threads: row.threads,
            figure: Figure::of(&samples)?,
        })
    });
    Ok(measured.collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::bench::rows::Unit;

    fn row(name: &str, order: &Rc<RefCell<String>>) -> Row {
        let (own, order) = (name.to_owned(), order.clone());
        Row {
            name: name.to_owned(),
            unit: Unit::Nanoseconds,
            threads: None,
            sample: Box::new(move || {
                order.borrow_mut().push_str(&own);
                match order.borrow().len() {
                    9.. => Err("enough".into()),
                    length => Ok(length as f64),
                }
            }),
        }
    }

    #[test]
    fn rows_take_turns_and_the_first_round_does_not_count() {
        let order = Rc::new(RefCell::new(String::new()));
        let rows = vec![row("a", &order), row("b", &order)];
        let rows = in_turn(rows, 2).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        let of = |row: &Measured| (row.figure.samples, row.figure.least, row.figure.most);
        assert_eq!((of(&rows[0]), of(&rows[1])), ((2, 4.0, 5.0), (2, 3.0, 6.0)));
    }

    #[test]
    fn a_row_that_cannot_be_measured_is_named() {
        let order = Rc::new(RefCell::new(String::new()));
        let error = in_turn(vec![row("a", &order)], 20).err().unwrap();
        assert_eq!(error.to_string(), "`a` could not be measured");
        assert_eq!(error.exit(), Exit::Wrong);
    }

    /// On a driver without a GPU, which finds whatever a row does wrong; its figures mean nothing.
    #[test]
    #[ignore = "long on a driver without a GPU: run `cargo xtask gpu`"]
    fn every_row_is_measured_on_a_gpu() {
        let gpu = fake_cuda::Session::begin(1).unwrap();
        let args = BenchArgs {
            device: BenchDevice::Cuda(0),
            threads: Some(2),
            quick: true,
            compare: None,
            picture: None,
            json: true,
        };
        // The fake takes PTX alone.
        let device = Device::open(Cuda::ordinal(0).compile_to_ptx(true)).unwrap();
        let report = measure(&args, device).unwrap();
        gpu.assert_clean();
        let left_out: Vec<&str> = report.left_out.iter().map(|row| &*row.name).collect();
        // A graph's kernels are CUDA C.
        let without_compiler = ["a step of a graph and its answer"];
        assert!(
            left_out.is_empty() || left_out == without_compiler,
            "{left_out:?}"
        );
        assert_eq!(report.rows.len() + left_out.len(), 20);
        assert!(report.rows.iter().all(|row| row.figure.median > 0.0));
    }
}
