//! Measures ranks of MPI, takes the figures of a machine from a part of that, and simulates the rest on such a machine.
//!
//! ```sh
//! mpirun --oversubscribe -n 2 target/release/examples/calibrate
//! ```
//! Transfers between two ranks and the kernels on their own give the machine. Reductions and whole steps of both programs
//! are then predictions, which stand beside what the ranks took.

mod measured;
mod simulated;

use millstream_cluster_programs::{digits, idle, reaction};
use std::process::ExitCode;

use clap::Parser;
use millstream_harness::Table;
use millstream_mpi::World;
use serde_json::json;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Compares ranks of MPI with simulated ones.
#[derive(Parser, Clone, Debug)]
struct Options {
    /// Rows and columns of the domain of `reaction`.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(64..=32_768))]
    size: u32,
    /// Images of a step of `digits`.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(64..=65_536))]
    batch: u32,
    /// Samples of each figure.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(3..=1_000))]
    rounds: u32,
    /// Run kernels in the scheduling class `idle`, so that the threads of messages preempt them. Otherwise Linux lets a
    /// kernel finish its time slice of some milliseconds first if all cores are busy.
    #[arg(long)]
    idle: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// The bytes of the transfers and of the reductions.
const BYTES: [usize; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
/// Steps of a sample.
const STEPS: usize = 20;

/// The times of the calls, in microseconds.
#[derive(Clone, Default, Debug)]
struct Times {
    /// From the call of a sender to the data of the receiver, by [`BYTES`].
    transfers: Vec<f64>,
    /// All-reduces of all ranks, by [`BYTES`].
    reductions: Vec<f64>,
    /// A step of `reaction`.
    reaction: f64,
    /// A step of `digits`.
    digits: f64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calibrate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let world = World::init()?;
    let found = measured::measure(&world, options)?;
    if world.rank() > 0 {
        return Ok(());
    }
    let simulated = simulated::simulate(&found, world.size(), options)?;
    let machine = simulated::machine(&found, world.size());
    let rows = rows(&found.times).into_iter().zip(rows(&simulated));
    let mut table = Table::new(["", "ranks of MPI us", "simulated us", "ratio"], 1..4);
    let mut all = Vec::new();
    for ((name, measured), (_, simulated)) in rows {
        let ratio = simulated / measured;
        table.row([
            name.clone(),
            format!("{measured:.1}"),
            format!("{simulated:.1}"),
            format!("{ratio:.2}"),
        ]);
        all.push(json!({ "name": name, "us": measured, "us_simulated": simulated }));
    }
    match options.json {
        true => println!(
            "{:#}",
            json!({
                "ranks": world.size(), "rows": all, "wake_ns": machine.wake_ns, "message_ns": machine.message_ns,
                "latency_ns": machine.memory.latency_ns, "mb_per_s": machine.memory.bytes_per_us,
                "row_ns": found.row.cube_ns,
            })
        ),
        false => println!(
            "{}\n{} ranks; the transfers of {} and {} bytes and the kernels' times are taken over.\n\
             wake {} ns, message {} ns, latency {} ns, {} MB/s; a row of {} cells {} ns",
            table.text(),
            world.size(),
            BYTES[0],
            BYTES[BYTES.len() - 1],
            machine.wake_ns,
            machine.message_ns,
            machine.memory.latency_ns,
            machine.memory.bytes_per_us,
            options.size,
            found.row.cube_ns,
        ),
    }
    Ok(())
}

fn rows(times: &Times) -> Vec<(String, f64)> {
    let named = |name: &str, times: &[f64]| {
        let rows = BYTES.iter().zip(times);
        rows.map(|(bytes, us)| (format!("{name} of {bytes} bytes"), *us))
            .collect::<Vec<_>>()
    };
    let mut rows = named("transfer", &times.transfers);
    rows.extend(named("all-reduce", &times.reductions));
    rows.push(("step of reaction".to_owned(), times.reaction));
    rows.push(("step of digits".to_owned(), times.digits));
    rows
}
