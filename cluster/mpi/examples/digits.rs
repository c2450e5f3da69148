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

use digits::Failure;
use digits::options::TrainingOptions;
use digits::report::Report;

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
    let groups = [world.group(&fleet, 0)?, world.group(&fleet, 0)?];
    let report = Report::of(groups, &options.training, world.size())?;
    // All ranks have the same results.
    if world.rank() == 0 {
        report.print(options.training.json);
    }
    report.check()
}
