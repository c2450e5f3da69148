//! `all_reduce` over ranks, beside `MPI_Allreduce` on buffers of the same length in the same run: `cargo bench`.
//!
//! Starts itself under `mpirun` with 4 ranks. Both ways replace a buffer; ours is timed with the wait for its result.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run has no result")]

use std::process::Command;
use std::time::Instant;

use millstream::{Cpu, Device};
use millstream_cluster::{Fleet, Group, Reduction};
use millstream_mpi::World;
use mpi::ffi;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn main() {
    if std::env::args().all(|argument| argument != "--rank") {
        let default = "mpirun --with-ft ulfm --oversubscribe -n 4";
        let command = std::env::var("MILLSTREAM_MPIRUN").unwrap_or_else(|_| default.to_owned());
        let words: Vec<&str> = command.split_whitespace().collect();
        let status = Command::new(words[0])
            .args(&words[1..])
            .arg(std::env::current_exe().unwrap())
            .arg("--rank")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let world = World::init().unwrap();
    let fleet = Fleet::new([Device::open(Cpu::default()).unwrap()]).unwrap();
    let group = world.group(&fleet, 0).unwrap();
    let each = in_flight(&group);
    if world.rank() == 0 {
        println!(
            "all-reduces of 1 KiB, 200 in flight, {} ranks: {each:.1} us each",
            world.size()
        );
    }
    for (bytes, rounds) in [(KIB, 400), (64 * KIB, 200), (MIB, 100), (64 * MIB, 11)] {
        let ([plain, ours], sleeps) = medians(&group, bytes / 4, rounds);
        if world.rank() == 0 {
            println!(
                "all-reduce of {:>6} KiB, {} ranks: MPI {plain:>9.1} us, millstream {ours:>9.1} us, {:>7.1} us more, {:.2} of its speed, {sleeps:.2} sleeps of threads a call",
                bytes / KIB,
                world.size(),
                ours - plain,
                plain / ours,
            );
        }
    }
}

/// Returns the median microseconds of each of 200 calls of 1 KiB that are in flight together.
fn in_flight(group: &Group) -> f64 {
    const CALLS: usize = 200;
    let stream = group.stream(0);
    let buffer = stream.create(&[1.0_f32; 256]).unwrap();
    let round = || {
        barrier();
        let start = Instant::now();
        for _ in 0..CALLS {
            group.all_reduce(Reduction::Max, &[&buffer]).unwrap();
        }
        stream.sync().wait().unwrap();
        start.elapsed().as_secs_f64() * 1e6 / CALLS as f64
    };
    let mut times: Vec<f64> = (0..11).map(|_| round()).collect();
    times.sort_unstable_by(f64::total_cmp);
    times[5]
}

/// Returns the median microseconds of both ways, which take turns, and how often the threads of this rank slept in a call of
/// ours.
fn medians(group: &Group, len: usize, rounds: usize) -> ([f64; 2], f64) {
    let (mut plain, mut sums) = (vec![1.0_f32; len], vec![1.0_f32; len]);
    let stream = group.stream(0);
    let buffer = stream.create(&plain).unwrap();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        plain.fill(1.0);
        barrier();
        let start = Instant::now();
        // SAFETY: the buffers have this length. The thread of the world sleeps, since no call is in flight.
        unsafe {
            ffi::MPI_Allreduce(
                plain.as_ptr().cast(),
                sums.as_mut_ptr().cast(),
                len as i32,
                ffi::RSMPI_FLOAT,
                ffi::RSMPI_SUM,
                ffi::RSMPI_COMM_WORLD,
            );
        }
        times[0].push(start.elapsed());
        stream.fill(&buffer, 1.0).unwrap();
        stream.sync().wait().unwrap();
        barrier();
        let start = Instant::now();
        group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        stream.sync().wait().unwrap();
        times[1].push(start.elapsed());
    }
    assert_eq!(stream.read(&buffer).wait().unwrap(), sums);
    let times = times.map(|mut times| {
        times.sort_unstable();
        times[rounds / 2].as_secs_f64() * 1e6
    });
    let before = sleeps();
    for _ in 0..rounds {
        group.all_reduce(Reduction::Max, &[&buffer]).unwrap();
        stream.sync().wait().unwrap();
    }
    (times, (sleeps() - before) as f64 / rounds as f64)
}

/// Returns how often the threads of this process have slept, in all. A thread that yields does not.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(status).sum()
}

/// Waits for all ranks.
fn barrier() {
    // SAFETY: as in `medians`.
    unsafe { ffi::MPI_Barrier(ffi::RSMPI_COMM_WORLD) };
}
