//! `millstream bench`: measures the costs of the main operations on the current machine in some seconds.
//!
//! | module | contents |
//! | --- | --- |
//! | [`rig`] | the measured operations; `benches/paths.rs` measures them as well |
//! | [`rows`] | the rows of the report, and how each takes a sample |
//! | [`report`] | the run as data, and its comparison with an earlier run |
//! | [`table`] | the report as text and as SVG |

mod report;
mod rig;
mod rows;
mod table;

use std::time::{Duration, Instant};

use millstream::{Device, DeviceOptions};
use serde_json::json;

use self::report::{DeviceFacts, Measured, Report, Summary};
use self::rig::Rig;
use self::rows::{Load, Row};
use crate::args::BenchArgs;
use crate::exit::{CommandError, Exit, FileRole, picture};
use crate::output::{self, Progress};

/// Samples of each row: enough for meaningful quartiles.
const ROUNDS: usize = 11;
/// Samples of each row with `--quick`.
const ROUNDS_QUICK: usize = 3;
/// The upper bound of the default number of launching threads, which is twice the number of cores.
const THREADS_MAX: usize = 8;
/// How long closing the device may take. Nothing is in flight then.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> Result<output::Report, CommandError> {
    // Both files are opened before the measurement, so that a wrong path fails at once.
    let earlier = args.compare.as_deref().map(report::read).transpose()?;
    let picture = args.picture.as_deref().map(picture);
    picture.map_or(Ok(()), FileRole::create)?;
    let device = args.device.open(None, DeviceOptions::default())?;
    let mut report = measure(args, device)?;
    if let (Some(earlier), Some(file)) = (&earlier, &args.compare) {
        report.compare(earlier, file);
    }
    if let Some(picture) = picture {
        picture.write(table::draw(&report))?;
    }
    Ok(output::Report {
        exit: Exit::Success,
        json: json!(report),
        text: table::render(&report),
    })
}

/// Measures all rows on the device.
fn measure(args: &BenchArgs, device: Device) -> Result<Report, CommandError> {
    let begun = Instant::now();
    let properties = device.properties();
    let facts = DeviceFacts {
        backend: properties.backend.to_owned(),
        name: properties.name.clone(),
        queues: properties.queues,
        threads: properties.compute_units,
    };
    let rig = Rig::new(device).map_err(CommandError::device)?;
    let threads = args
        .threads
        .map_or_else(default_threads, |threads| threads as usize);
    let rows = rows::all(&rig, Load::new(args.quick), threads).map_err(CommandError::device)?;
    let rounds = if args.quick { ROUNDS_QUICK } else { ROUNDS };
    let rows = sample_in_turn(&rig, rows, rounds)?;
    rig.device.close(CLOSE_TIMEOUT);
    Ok(Report {
        device: facts,
        quick: args.quick,
        debug_build: cfg!(debug_assertions),
        seconds: begun.elapsed().as_secs_f64(),
        rows,
        compared: None,
    })
}

fn default_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).min(THREADS_MAX)
}

/// Samples all rows round by round, each round in the reverse order of the one before, so that a steady drift of the
/// machine cancels. The first round only warms up and is discarded.
fn sample_in_turn(
    rig: &Rig,
    mut rows: Vec<Row>,
    rounds: usize,
) -> Result<Vec<Measured>, CommandError> {
    let progress = Progress::new("measuring", (rounds + 1) * rows.len());
    let mut samples = vec![Vec::new(); rows.len()];
    for round in 0..=rounds {
        for place in 0..rows.len() {
            let index = match round % 2 {
                0 => place,
                _ => rows.len() - 1 - place,
            };
            let row = &mut rows[index];
            let sample = (row.sample)(rig).map_err(|source| {
                let next = "run `millstream doctor` to test the device; if it passes, report this with the message above";
                let message = format!("`{}` cannot be measured", row.name);
                CommandError::failure(&message, next, source)
            })?;
            if round > 0 {
                samples[index].push(sample);
            }
            progress.step();
        }
    }
    let measured = rows.into_iter().zip(samples).filter_map(|(row, samples)| {
        Some(Measured {
            name: row.name,
            unit: row.unit.to_owned(),
            threads: row.threads,
            summary: Summary::of(samples)?,
            change: None,
        })
    });
    Ok(measured.collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use millstream::Cuda;

    use super::*;

    fn rig() -> Rig {
        Rig::new(Device::open(millstream::Cpu::default()).unwrap()).unwrap()
    }

    fn row(name: &str, order: &Rc<RefCell<String>>) -> Row {
        let (own, order) = (name.to_owned(), order.clone());
        Row {
            name: name.to_owned(),
            unit: "ns",
            threads: None,
            sample: Box::new(move |_| {
                order.borrow_mut().push_str(&own);
                match order.borrow().len() {
                    9.. => Err(millstream::Error::Closed),
                    length => Ok(length as f64),
                }
            }),
        }
    }

    #[test]
    fn rows_are_sampled_in_turn_and_the_first_round_is_discarded() {
        let order = Rc::new(RefCell::new(String::new()));
        let rows = vec![row("a", &order), row("b", &order)];
        let rows = sample_in_turn(&rig(), rows, 2).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        let of = |row: &Measured| (row.summary.samples, row.summary.min, row.summary.max);
        assert_eq!((of(&rows[0]), of(&rows[1])), ((2, 4.0, 5.0), (2, 3.0, 6.0)));
    }

    #[test]
    fn failed_sample_names_its_row() {
        let order = Rc::new(RefCell::new(String::new()));
        let error = sample_in_turn(&rig(), vec![row("a", &order)], 20)
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "`a` cannot be measured");
        assert_eq!(error.exit, Exit::Failure);
    }

    /// The fake driver checks every call of every row. Its figures have no meaning.
    #[test]
    #[ignore = "slow on the fake driver: run `cargo xtask gpu`"]
    fn every_row_is_measured_on_the_fake_gpu() {
        let gpu = fake_cuda::Session::begin(1).unwrap();
        let args = BenchArgs {
            device: "cuda".parse().unwrap(),
            threads: Some(2),
            quick: true,
            compare: None,
            picture: None,
        };
        // The fake driver only accepts PTX.
        let device = Device::open(Cuda::ordinal(0).compile_to_ptx(true)).unwrap();
        let report = measure(&args, device).unwrap();
        gpu.assert_clean();
        assert_eq!(report.rows.len(), 16);
        assert!(report.rows.iter().all(|row| row.summary.median > 0.0));
    }
}
