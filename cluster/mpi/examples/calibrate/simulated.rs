//! The same calls on simulated ranks of a machine with the measured figures.

use std::sync::Arc;

use millstream::DeviceOptions;
use millstream::sim::{Checks, CostModel, KernelCost, Sim};
use millstream_cluster::{Group, Reduction};
use millstream_cluster_sim::{Link, Machine, SimCluster};

use crate::digits::Training;
use crate::digits::model::{Images, rate};
use crate::measured::Measured;
use crate::reaction::{Domain, KERNEL, Reaction, Tasks};
use crate::{BYTES, Failure, Options, STEPS, Times};

/// Returns the machine: one host, whose ranks share its memory.
pub(crate) fn machine(found: &Measured, ranks: usize) -> Machine {
    let transfers = &found.times.transfers;
    let (short_us, long_us) = (transfers[0], transfers[BYTES.len() - 1]);
    let bytes = (BYTES[BYTES.len() - 1] - BYTES[0]) as f64;
    // Most of a short transfer are the wakes of threads. The messages themselves are some hundred nanoseconds each, which
    // cannot be told apart from that.
    let message_ns = 500;
    let latency_ns = 500;
    let wake_ns = (short_us * 1e3 - (message_ns + latency_ns) as f64) / 2.0;
    Machine {
        ranks_per_host: ranks,
        memory: Link {
            latency_ns,
            bytes_per_us: (bytes / (long_us - short_us).max(1.0)).max(1.0) as u64,
        },
        message_ns,
        wake_ns: wake_ns.max(0.0) as u64,
        combined_bytes_per_us: found.combined,
        ..Machine::default()
    }
}

/// Runs the calls in virtual time.
pub(crate) fn simulate(
    found: &Measured,
    ranks: usize,
    options: &Options,
) -> Result<Times, Failure> {
    let mut cost = CostModel::default();
    // Tasks that were not measured, such as the marks of a read, take nothing.
    (cost.launch_ns, cost.cube_ns, cost.copy_ns) = (0, 0, 0);
    (cost.host_bytes_per_us, cost.device_bytes_per_us) = (u64::MAX, u64::MAX);
    let slower = slower(ranks)?;
    let kernel = |launch_ns: u64, cube_ns: u64| KernelCost {
        launch_ns: (launch_ns as f64 * slower) as u64,
        cube_ns: (cube_ns as f64 * slower) as u64,
    };
    let tasks = found.tasks.iter();
    cost.kernels = tasks
        .map(|(name, ns)| (name.clone(), kernel(*ns, 0)))
        .collect();
    let row = kernel(found.row.launch_ns, found.row.cube_ns);
    cost.kernels.insert(KERNEL.to_owned(), row);
    let device = |rank: usize| {
        Sim::seed(rank as u64)
            .queues(1)
            .checks(Checks::Off)
            .cost(cost.clone())
            .without_data()
    };
    let machine = machine(found, ranks);
    let mut cluster = SimCluster::open(ranks, &machine, &DeviceOptions::default(), device)?;
    let groups = cluster.group()?;
    let mut times = Times::default();
    for bytes in BYTES {
        let us = took(&mut cluster, &groups, |rank, group| {
            let buffer = group.stream(0).empty::<u8>(bytes)?;
            match rank {
                0 => group.send(1, &buffer)?,
                1 => group.receive(0, &buffer)?,
                _ => {}
            }
            Ok(())
        })?;
        times.transfers.push(us);
        let us = took(&mut cluster, &groups, |_, group| {
            let buffer = group.stream(0).empty::<f32>(bytes / 4)?;
            Ok(group.all_reduce(Reduction::Sum, &[&buffer])?)
        })?;
        times.reductions.push(us);
    }
    let domain = Domain {
        rows: options.size as usize,
        columns: options.size as usize,
    };
    let failed = |error: crate::reaction::Failure| error.to_string();
    let reactions = groups
        .iter()
        .map(|group| Reaction::unfilled(group, domain).map_err(failed));
    let mut reactions = reactions.collect::<Result<Vec<_>, _>>()?;
    let us = took(&mut cluster, &groups, |rank, _| {
        Ok(reactions[rank].submit(Tasks::Step, STEPS).map_err(failed)?)
    })?;
    times.reaction = us / STEPS as f64;
    let (images, tests) = Images::load();
    let images = Arc::new(images);
    let batch: Vec<usize> = (0..options.batch as usize)
        .map(|image| image % images.len())
        .collect();
    let others = cluster.group()?;
    let trainings = groups.iter().zip(others).map(|(first, last)| {
        Training::new([first.clone(), last], batch.len(), images.clone(), &tests)
    });
    let trainings = trainings.collect::<Result<Vec<_>, _>>()?;
    let us = took(&mut cluster, &groups, |rank, _| {
        for _ in 0..STEPS {
            drop(trainings[rank].step(&batch, rate(0))?);
        }
        Ok(())
    })?;
    times.digits = us / STEPS as f64;
    Ok(times)
}

/// Returns how much slower kernels are while calls are in flight: each rank has a thread then that polls MPI, and shares the
/// cores with the threads of kernels. Their times on their own contain already what they share with each other.
fn slower(ranks: usize) -> Result<f64, Failure> {
    let cores = std::thread::available_parallelism()?.get() as f64;
    let share = |threads: usize| (threads as f64 / cores).max(1.0);
    Ok(share(2 * ranks) / share(ranks))
}

/// Returns the microseconds from the calls of all ranks to the end of the last.
fn took(
    cluster: &mut SimCluster,
    groups: &[Group],
    mut call: impl FnMut(usize, &Group) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let start_ns = cluster.settle()?;
    for (rank, group) in groups.iter().enumerate() {
        call(rank, group)?;
    }
    Ok((cluster.settle()? - start_ns) as f64 / 1e3)
}
