//! Reaction and diffusion over ranks: `mpirun -n 4 target/release/examples/reaction --size 512 --steps 1000`.
//!
//! The same program as `cluster/examples/reaction.rs`, with one device of the CPU on each rank. Rank 0 draws the picture
//! and prints the figures.

use millstream_cluster_programs::reaction;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use millstream::{Cpu, Device};
use millstream_cluster::Fleet;
use millstream_mpi::World;
use reaction::{Domain, Failure, Reaction, Tasks, picture};

/// Simulates reaction and diffusion on the ranks of MPI, each with the processor as its device.
#[derive(Parser)]
struct Options {
    /// Simulate N rows of N cells.
    #[arg(long, value_name = "N", default_value_t = 512)]
    size: usize,
    /// Simulate N steps.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    steps: usize,
    /// Compute with N threads on each rank.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Write the picture to this file.
    #[arg(long, value_name = "FILE.png", default_value = "out/reaction-mpi.png")]
    output: PathBuf,
    /// Check that the result has the same bits as that of one device.
    #[arg(long)]
    check: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    // For instance of calls that wait for long.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .init();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reaction: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let domain = Domain {
        rows: options.size,
        columns: options.size,
    };
    let world = World::init()?;
    let device = || Device::open(Cpu::default().threads(options.threads));
    let fleet = Fleet::new([device()?])?;
    let mut reaction = Reaction::new(&world.group(&fleet, 0)?, domain)?;
    let start = Instant::now();
    reaction.submit(Tasks::Step, options.steps)?;
    reaction.mark().wait()?;
    let seconds = start.elapsed().as_secs_f64();
    let Some(second) = reaction.gather()? else {
        return Ok(());
    };
    if options.check {
        let alone = Fleet::new([device()?])?;
        let mut expected = Reaction::new(&alone.group(), domain)?;
        expected.submit(Tasks::Step, options.steps)?;
        if expected.gather()?.as_deref() != Some(&second[..]) {
            return Err("the result differs from that of one device".into());
        }
    }
    if let Some(folder) = options.output.parent() {
        std::fs::create_dir_all(folder)?;
    }
    picture::save(domain, &second, &options.output)?;
    let (ranks, steps) = (world.size(), options.steps);
    let rate = steps as f64 / seconds;
    let cells = rate * domain.cells() as f64 / 1e6;
    let file = options.output.display();
    match options.json {
        true => println!(
            "{{\"ranks\":{ranks},\"size\":{},\"steps\":{steps},\"steps_per_second\":{rate:.1},\"mcells_per_second\":{cells:.1},\"checked\":{}}}",
            options.size, options.check
        ),
        false => println!(
            "{ranks} ranks, {steps} steps of {0} x {0} cells: {rate:.0} steps/s, {cells:.0} Mcells/s{1}; {file}",
            options.size,
            if options.check {
                ", the same bits as one device"
            } else {
                ""
            },
        ),
    }
    Ok(())
}
