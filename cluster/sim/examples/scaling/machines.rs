//! The machine of the command line: what a host, a link and a device can do.

use clap::{Args, ValueEnum};
use millstream::sim::{CostModel, KernelCost};
use millstream_cluster_sim::{Link, Machine};

use crate::reaction::KERNEL;

/// The machine.
#[derive(Args, Clone, Debug)]
pub(crate) struct Figures {
    /// The machine from which the other figures are taken.
    #[arg(long, value_enum, default_value_t = Kind::Gpus)]
    pub(crate) machine: Kind,
    /// Ranks of each host.
    #[arg(long)]
    ranks_per_host: Option<usize>,
    /// Hosts of each switch.
    #[arg(long)]
    hosts_per_switch: Option<usize>,
    /// Nanoseconds from one host to another of the same switch.
    #[arg(long)]
    latency_ns: Option<u64>,
    /// Megabytes per second of a host's port.
    #[arg(long)]
    port_mb_per_s: Option<u64>,
    /// Megabytes per second of a switch's uplink.
    #[arg(long)]
    uplink_mb_per_s: Option<u64>,
    /// Nanoseconds of a message on a rank's communication thread.
    #[arg(long)]
    message_ns: Option<u64>,
    /// Nanoseconds from the end of a kernel to the first message, and from the last one to the next kernel.
    #[arg(long)]
    wake_ns: Option<u64>,
    /// Nanoseconds of a launch.
    #[arg(long)]
    launch_ns: Option<u64>,
    /// Picoseconds of a cell of `reaction`.
    #[arg(long)]
    cell_ps: Option<u64>,
}

/// Known machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Hosts with one GPU each and ports of 100 Gbit/s: the defaults of `Machine`. A cell of `reaction` takes 10 ps: 16
    /// bytes at 1.6 TB/s.
    Gpus,
    /// The two cores on which CI runs, with Open MPI over shared memory: measured, see the guide.
    Cores,
}

impl Figures {
    /// Returns the machine for a number of ranks.
    pub(crate) fn machine(&self) -> Machine {
        let mut machine = match self.machine {
            Kind::Gpus => Machine::default(),
            Kind::Cores => Machine {
                ranks_per_host: 2,
                memory: Link {
                    latency_ns: 1_000,
                    bytes_per_us: 4_000,
                },
                message_ns: 1_000,
                wake_ns: 20_000,
                ..Machine::default()
            },
        };
        let set = |target: &mut u64, value: Option<u64>| *target = value.unwrap_or(*target);
        set(
            &mut machine.port.latency_ns,
            self.latency_ns.map(|ns| ns / 2),
        );
        set(&mut machine.port.bytes_per_us, self.port_mb_per_s);
        set(&mut machine.uplink.bytes_per_us, self.uplink_mb_per_s);
        set(&mut machine.message_ns, self.message_ns);
        set(&mut machine.wake_ns, self.wake_ns);
        machine.ranks_per_host = self.ranks_per_host.unwrap_or(machine.ranks_per_host);
        machine.hosts_per_switch = self.hosts_per_switch.unwrap_or(machine.hosts_per_switch);
        machine
    }

    /// Returns the costs of a device. A launch of `reaction` has one cube for each row.
    pub(crate) fn cost(&self, columns: usize) -> CostModel {
        let mut cost = CostModel::default();
        let cell_ps = self.cell_ps.unwrap_or(match self.machine {
            Kind::Gpus => 10,
            Kind::Cores => 1_000,
        });
        cost.launch_ns = self.launch_ns.unwrap_or(cost.launch_ns);
        let row = KernelCost {
            launch_ns: cost.launch_ns,
            cube_ns: (columns as u64 * cell_ps / 1_000).max(1),
        };
        cost.kernels.insert(KERNEL.to_owned(), row);
        cost
    }

    /// Returns the figures in words.
    pub(crate) fn describe(&self) -> String {
        let machine = self.machine();
        let Machine {
            port,
            uplink,
            ranks_per_host,
            hosts_per_switch,
            ..
        } = machine;
        let ranks = if ranks_per_host == 1 { "rank" } else { "ranks" };
        format!(
            "{ranks_per_host} {ranks} per host, {hosts_per_switch} hosts per switch; ports {:.1} GB/s and {} ns, \
             uplinks {:.0} GB/s; {} ns per message, {} ns per wake",
            port.bytes_per_us as f64 / 1e3,
            2 * port.latency_ns,
            uplink.bytes_per_us as f64 / 1e3,
            machine.message_ns,
            machine.wake_ns,
        )
    }
}
