//! What the ranks of MPI take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use millstream::sim::KernelCost;
use millstream::{Cpu, Device, DeviceOptions};
use millstream_cluster::{Fleet, Group, Reduction};
use millstream_harness::median;
use millstream_mpi::World;

use crate::digits::Training;
use crate::digits::model::{Images, rate};
use crate::idle;
use crate::reaction::{Domain, KERNEL, Reaction, Tasks};
use crate::{BYTES, Failure, Options, STEPS, Times};

/// The figures of the ranks.
pub(crate) struct Measured {
    pub(crate) times: Times,
    /// Bytes per microsecond that a rank combines in a reduction.
    pub(crate) combined: u64,
    /// A launch of `reaction`, whose cubes are rows.
    pub(crate) row: KernelCost,
    /// The mean nanoseconds of each task of a step of `digits` on a rank, by its name.
    pub(crate) tasks: BTreeMap<String, u64>,
}

/// The spans of a sample.
const SPANS: usize = 1 << 16;

pub(crate) fn measure(world: &World, options: &Options) -> Result<Measured, Failure> {
    let mut device = DeviceOptions::default().trace(SPANS);
    if options.idle {
        device = device.spawn_with(idle::spawn);
    }
    let device = Device::open_with(Cpu::default().threads(1), device)?;
    let fleet = Fleet::new([device])?;
    let group = world.group(&fleet, 0)?;
    let rounds = options.rounds as usize;
    let mut times = Times::default();
    for bytes in BYTES {
        times.transfers.push(transfer(&group, bytes, rounds)?);
        times.reductions.push(all_reduce(&group, bytes, rounds)?);
    }
    let (reaction, row) = reaction(&fleet, &group, options)?;
    times.reaction = reaction;
    let (digits, tasks) = digits(world, &fleet, &group, options)?;
    times.digits = digits;
    Ok(Measured {
        times,
        combined: combined(rounds),
        row,
        tasks,
    })
}

/// Returns the median microseconds of what `call` takes, after a barrier.
fn sample(
    group: &Group,
    rounds: usize,
    mut call: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let mut samples = Vec::new();
    for round in 0..=rounds {
        barrier(group)?;
        let start = Instant::now();
        call()?;
        if round > 0 {
            samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(median(&samples))
}

fn barrier(group: &Group) -> Result<(), Failure> {
    let one = group.stream(0).create(&[1_u8])?;
    group.all_reduce(Reduction::Max, &[&one])?;
    group.stream(0).read(&one).wait()?;
    Ok(())
}

/// Rank 1 returns what rank 0 sends: half of that time.
fn transfer(group: &Group, bytes: usize, rounds: usize) -> Result<f64, Failure> {
    let stream = group.stream(0);
    let (there, back) = (
        stream.create(&vec![1_u8; bytes])?,
        stream.empty::<u8>(bytes)?,
    );
    let us = sample(group, rounds, || {
        match group.local_ranks().start {
            0 => {
                group.send(1, &there)?;
                group.receive(1, &back)?;
                stream.read(&back.slice(..1)?).wait()?;
            }
            1 => {
                group.receive(0, &back)?;
                group.send(0, &back)?;
                stream.read(&back.slice(..1)?).wait()?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(us / 2.0)
}

fn all_reduce(group: &Group, bytes: usize, rounds: usize) -> Result<f64, Failure> {
    let stream = group.stream(0);
    let buffer = stream.create(&vec![0.0_f32; bytes / 4])?;
    sample(group, rounds, || {
        group.all_reduce(Reduction::Sum, &[&buffer])?;
        stream.read(&buffer.slice(..1)?).wait()?;
        Ok(())
    })
}

/// Returns the time of a step, and the cost of a launch without messages beside it.
fn reaction(fleet: &Fleet, group: &Group, options: &Options) -> Result<(f64, KernelCost), Failure> {
    let domain = Domain {
        rows: options.size as usize,
        columns: options.size as usize,
    };
    let failed = |error: crate::reaction::Failure| error.to_string();
    let mut reaction = Reaction::new(group, domain).map_err(failed)?;
    let rounds = options.rounds as usize;
    let mut run = |tasks| {
        sample(group, rounds, || {
            reaction.submit(tasks, STEPS).map_err(failed)?;
            reaction.mark().wait().map_err(failed)?;
            Ok(())
        })
    };
    run(Tasks::Launches)?;
    let spans = fleet.devices()[0].trace()?;
    let step_us = run(Tasks::Step)? / STEPS as f64;
    let launches = spans.iter().filter(|span| *span.name == *KERNEL);
    let took = launches.map(|span| (span.end_ns - span.start_ns) as f64);
    let mut took: Vec<f64> = took.collect();
    took.sort_by(f64::total_cmp);
    // A third of the launches have all rows but two, the others one row each. Means, since ranks may share cores.
    let (edges, interiors) = took.split_at(2 * took.len() / 3);
    let (edge, interior) = (mean(edges), mean(interiors));
    let rows = domain.strip(0, group.len()).len() as f64 - 2.0;
    let cube_ns = (interior - edge) / (rows - 1.0);
    let row = KernelCost {
        launch_ns: (edge - cube_ns).max(0.0) as u64,
        cube_ns: cube_ns as u64,
    };
    Ok((step_us, row))
}

/// Returns the time of a step, and the cost of each task on a rank without messages beside it.
fn digits(
    world: &World,
    fleet: &Fleet,
    group: &Group,
    options: &Options,
) -> Result<(f64, BTreeMap<String, u64>), Failure> {
    let (images, tests) = Images::load();
    let images = Arc::new(images);
    let batch: Vec<usize> = (0..options.batch as usize)
        .map(|image| image % images.len())
        .collect();
    let rounds = options.rounds as usize;
    // As many images as one rank has of a batch.
    let part = &batch[..batch.len() / world.size()];
    let alone = [fleet.group(), fleet.group()];
    let alone = Training::new(alone, part.len(), images.clone(), &tests)?;
    let steps = |training: &Training, batch: &[usize]| {
        for _ in 1..STEPS {
            drop(training.step(batch, rate(0))?);
        }
        training.step(batch, rate(0))?.wait()?;
        Ok(())
    };
    steps(&alone, part)?;
    fleet.devices()[0].trace()?;
    sample(group, rounds, || steps(&alone, part))?;
    let mut tasks = BTreeMap::<String, Vec<f64>>::new();
    for span in fleet.devices()[0].trace()? {
        let took = (span.end_ns - span.start_ns) as f64;
        tasks.entry(span.name.to_string()).or_default().push(took);
    }
    let groups = [world.group(fleet, 0)?, world.group(fleet, 0)?];
    let training = Training::new(groups, batch.len(), images, &tests)?;
    let us = sample(group, rounds, || steps(&training, &batch))?;
    let means = tasks
        .into_iter()
        .map(|(name, took)| (name, mean(&took) as u64));
    Ok((us / STEPS as f64, means.collect()))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the bytes per microsecond that a rank combines.
fn combined(rounds: usize) -> u64 {
    let bytes = BYTES[BYTES.len() - 1];
    let (mut sums, values) = (vec![1.0_f32; bytes / 4], vec![1.0_f32; bytes / 4]);
    let samples = (0..rounds).map(|_| {
        let start = Instant::now();
        Reduction::Sum.combine(&mut sums, std::hint::black_box(&values));
        start.elapsed().as_secs_f64() * 1e6
    });
    let samples: Vec<f64> = samples.collect();
    std::hint::black_box(&sums);
    (bytes as f64 / median(&samples)) as u64
}
