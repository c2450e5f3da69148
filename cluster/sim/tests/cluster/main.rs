//! Simulated clusters: what collectives compute, how long they take, how they fail, and both programs.
//!
//! Costs about 10 CPU seconds.

#![allow(clippy::unwrap_used, reason = "tests")]

use millstream_cluster_programs::{digits, reaction};

mod failures;
mod limits;
mod order;
mod programs;
mod stalls;
mod times;
mod values;

use millstream::sim::{CostModel, Findings, Sim};
use millstream::{DeviceOptions, Element, Handle};
use millstream_cluster::{Group, Reducible, Reduction};
use millstream_cluster_sim::{Link, Machine, SimCluster};

/// A cluster, and what its simulators have found.
struct Rig {
    cluster: SimCluster,
    findings: Vec<Findings>,
    /// The calls that a test leaves in flight.
    left: usize,
}

impl Rig {
    fn new(ranks: usize, machine: &Machine) -> Self {
        Self::with(ranks, machine, |rank| Sim::seed(rank as u64))
    }

    /// Every task takes no time, so that only messages do.
    fn free(ranks: usize, machine: &Machine) -> Self {
        Self::with(ranks, machine, |rank| {
            Sim::seed(rank as u64).cost(free_cost())
        })
    }

    fn with(ranks: usize, machine: &Machine, sim: impl Fn(usize) -> Sim) -> Self {
        let mut findings = Vec::new();
        let options = DeviceOptions::default();
        let cluster = SimCluster::open(ranks, machine, &options, |rank| {
            let sim = sim(rank);
            findings.push(sim.findings());
            sim
        });
        Self {
            cluster: cluster.unwrap(),
            findings,
            left: 0,
        }
    }

    /// Creates a buffer on each member.
    fn create<T: Element>(&self, groups: &[Group], values: &[Vec<T>]) -> Vec<Handle<T>> {
        let pairs = groups.iter().zip(values);
        pairs
            .map(|(group, values)| group.stream(0).create(values).unwrap())
            .collect()
    }

    /// Returns a group of all ranks, and a buffer of this many ones on each.
    fn ranks(&self, len: usize) -> (Vec<Group>, Vec<Handle<u8>>) {
        let groups = self.cluster.group().unwrap();
        let buffers = self.create(&groups, &vec![vec![1_u8; len]; groups.len()]);
        (groups, buffers)
    }

    /// Settles, and reads the buffers.
    fn read<T: Element>(&mut self, groups: &[Group], buffers: &[Handle<T>]) -> Vec<Vec<T>> {
        let pairs = groups.iter().zip(buffers);
        let reads: Vec<_> = pairs
            .map(|(group, buffer)| group.stream(0).read(buffer))
            .collect();
        self.cluster.settle().unwrap();
        reads.into_iter().map(|read| read.wait().unwrap()).collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.left, self.cluster.calls_in_flight(), "calls are left");
            self.findings.iter().for_each(Findings::assert_clean);
        }
    }
}

/// Sums the buffers of all ranks.
fn reduce<T: Reducible>(groups: &[Group], buffers: &[Handle<T>]) {
    for (group, buffer) in groups.iter().zip(buffers) {
        group.all_reduce(Reduction::Sum, &[buffer]).unwrap();
    }
}

/// Costs of nothing.
fn free_cost() -> CostModel {
    let mut cost = CostModel::default();
    (cost.launch_ns, cost.cube_ns, cost.copy_ns) = (0, 0, 0);
    (cost.wait_ns, cost.custom_ns) = (0, 0);
    (cost.host_bytes_per_us, cost.device_bytes_per_us) = (u64::MAX, u64::MAX);
    cost
}

/// One rank of each host, all on one switch, with round figures: a message of `n` bytes takes `200 + n` ns from host to
/// host, 10 more on each of both threads, and a call 1,000 on each of both ends.
fn round_machine() -> Machine {
    let link = Link {
        latency_ns: 100,
        bytes_per_us: 1_000,
    };
    Machine {
        ranks_per_host: 1,
        hosts_per_switch: 1 << 20,
        memory: link,
        port: link,
        uplink: link,
        message_ns: 10,
        wake_ns: 1_000,
        eager_bytes: 1_000,
        short_bytes: 1_000,
        combined_bytes_per_us: u64::MAX,
        detection_ns: 5_000,
        ..Machine::default()
    }
}
