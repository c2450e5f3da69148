//! Trains a network on handwritten digits on the ranks of MPI: `cluster/examples/digits.rs` with one device for each rank.
//!
//! ```sh
//! cargo build --release --example digits
//! mpirun -n 2 target/release/examples/digits
//! ```

use clap::Parser;
use millstream::{Cpu, Device};
use millstream_cluster::Fleet;
use millstream_cluster_programs::digits;
use millstream_mpi::World;

use digits::model::{Images, Order};
use digits::options::TrainingOptions;
use digits::report::Report;
use digits::{Failure, Training};

/// Trains a network on handwritten digits, on the ranks of MPI.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    training: TrainingOptions,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    // For instance of calls that wait for long.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .init();
    let world = World::init()?;
    let cpu = Cpu::default().threads(options.training.threads as usize);
    let fleet = Fleet::new([Device::open(cpu)?])?;
    let (images, tests) = Images::load();
    let mut order = Order::new(images.len());
    let groups = [world.group(&fleet, 0)?, world.group(&fleet, 0)?];
    let training = Training::new(groups, options.training.batch as usize, images, &tests)?;
    let rounds = 0..options.training.rounds as usize;
    let rounds = rounds.map(|round| training.round(&mut order, round));
    let report = Report {
        devices: world.size(),
        batch: options.training.batch as usize,
        tests: tests.len(),
        rounds: rounds.collect::<Result<_, _>>()?,
    };
    // All ranks have the same results.
    if world.rank() == 0 {
        match options.training.json {
            true => println!("{:#}", report.json()),
            false => println!("{}", report.text()),
        }
    }
    match report.is_finite() {
        true => Ok(()),
        false => Err("training diverged: the loss is not finite".into()),
    }
}
