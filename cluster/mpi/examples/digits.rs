//! Trains a network on handwritten digits on the ranks of MPI: `cluster/examples/digits.rs` with one device for each rank.
//!
//! ```sh
//! cargo build --release --example digits
//! mpirun -n 2 target/release/examples/digits
//! ```

#[path = "../../programs/digits/mod.rs"]
mod digits;

use clap::Parser;
use millstream::{Cpu, Device};
use millstream_cluster::Fleet;
use millstream_mpi::World;

use digits::model::{BATCH, Images, Order};
use digits::report::Report;
use digits::{Failure, Training};

/// Trains a network on handwritten digits, on the ranks of MPI.
#[derive(Parser)]
struct Options {
    /// The number of passes over the images.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// The images of a step, on all devices together.
    #[arg(long, default_value_t = BATCH as u32, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    batch: u32,
    /// The threads of each rank's device that share one launch.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Prints only one JSON object.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let world = World::init()?;
    let cpu = Cpu::default().threads(options.threads as usize);
    let fleet = Fleet::new([Device::open(cpu)?])?;
    let (images, tests) = Images::load();
    let mut order = Order::new(images.len());
    let groups = [world.group(&fleet, 0)?, world.group(&fleet, 0)?];
    let training = Training::new(groups, options.batch as usize, images, &tests)?;
    let rounds = 0..options.rounds as usize;
    let rounds = rounds.map(|round| training.round(&mut order, round));
    let report = Report {
        devices: world.size(),
        batch: options.batch as usize,
        tests: tests.len(),
        rounds: rounds.collect::<Result<_, _>>()?,
    };
    // All ranks have the same results.
    if world.rank() == 0 {
        match options.json {
            true => println!("{:#}", report.json()),
            false => println!("{}", report.text()),
        }
    }
    match report.is_finite() {
        true => Ok(()),
        false => Err("training diverged: the loss is not finite".into()),
    }
}
