//! The ranks of a simulated cluster, and their run in one virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::sim::{Clock, Sim};
use millstream::{Device, DeviceOptions, Driver, OpenError};
use millstream_cluster::{ClusterError, Fleet, Group};

use crate::event::Happening;
use crate::fabric::{Fabric, Usage};
use crate::machine::Machine;
use crate::network::SimNetwork;
use crate::stall::Stalled;
use crate::traffic::{Shared, Traffic, lock};
use crate::wires::Wires;

/// Why a cluster could not be opened, or a group not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimClusterError {
    /// A device could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A rank is listed twice.
    #[error("rank {rank} is listed twice; a rank is one member of a group")]
    Twice {
        /// The rank.
        rank: usize,
    },
    /// A listed rank does not exist.
    #[error("rank {rank} does not exist, the cluster has {ranks} ranks, counted from 0")]
    NoRank {
        /// The listed rank.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// There are no ranks.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Simulated ranks with one device each, in one process and one virtual time.
///
/// A program makes the calls of all ranks, one after the other, and waits for none of them. Then
/// [`SimCluster::settle`] runs the devices and the network until nothing is left to do. After that every result is there.
///
/// The host of a rank takes no time: what it submits before a `settle` is there at the time of the one before. So submit
/// many steps at once, or measure each as if all ranks waited for each other before it.
///
/// A host may wait for its own device before `settle`, for an answer or because a mailbox is full: its device then runs
/// ahead of the others, and its messages leave at its time. A wait for *other ranks* before `settle` never ends, as they
/// are not run meanwhile; so does one for memory or handles that only such calls free.
pub struct SimCluster {
    ranks: Vec<Rank>,
    traffic: Shared,
    /// The time of each rank's next step and the rank. Entries that its `next_ns` contradicts are out of date.
    steps: BinaryHeap<Reverse<(u64, usize)>>,
}

struct Rank {
    fleet: Fleet,
    driver: Driver,
    clock: Clock,
    next_ns: Option<u64>,
}

impl SimCluster {
    /// Opens `ranks` ranks on a machine. `device` returns the simulator of each; they are made
    /// [punctual](Sim::punctual).
    ///
    /// # Errors
    /// [`SimClusterError::Open`], [`SimClusterError::Cluster`].
    pub fn open(
        ranks: usize,
        machine: &Machine,
        options: &DeviceOptions,
        mut device: impl FnMut(usize) -> Sim,
    ) -> Result<Self, SimClusterError> {
        if ranks == 0 {
            return Err(ClusterError::Empty.into());
        }
        let mut moves_data = true;
        let open = |rank: usize| {
            // A clock of its own, also if all ranks are clones of one simulator.
            let sim = device(rank).punctual().with_clock(Clock::default());
            moves_data &= sim.moves_data();
            let clock = sim.clock();
            let (device, driver) = Device::open_driven(sim, options.clone())?;
            Ok::<_, SimClusterError>(Rank {
                fleet: Fleet::new([device])?,
                driver,
                clock,
                next_ns: None,
            })
        };
        let all = (0..ranks).map(open).collect::<Result<_, _>>()?;
        let traffic = Traffic::new(Wires::new(Fabric::new(*machine, ranks), ranks, moves_data));
        Ok(Self {
            ranks: all,
            traffic: Arc::new(Mutex::new(traffic)),
            steps: BinaryHeap::new(),
        })
    }

    /// Returns the number of ranks, ended ones included.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a cluster has at least one rank"
    )]
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the fleet of a rank, which has one device.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn fleet(&self, rank: usize) -> &Fleet {
        &self.ranks[rank].fleet
    }

    /// Makes a group of all ranks: one handle for each.
    ///
    /// # Errors
    /// None for a cluster that is open.
    pub fn group(&self) -> Result<Vec<Group>, SimClusterError> {
        self.group_of(&(0..self.len()).collect::<Vec<_>>())
    }

    /// Makes a group of some ranks: one handle for each, in the order of the list.
    ///
    /// # Errors
    /// [`SimClusterError::Twice`], [`SimClusterError::NoRank`], [`SimClusterError::Cluster`].
    pub fn group_of(&self, ranks: &[usize]) -> Result<Vec<Group>, SimClusterError> {
        if ranks.is_empty() {
            return Err(ClusterError::Empty.into());
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SimClusterError::Twice { rank: twice[0] });
        }
        let (rank, all) = (sorted[sorted.len() - 1], self.len());
        if rank >= all {
            return Err(SimClusterError::NoRank { rank, ranks: all });
        }
        let group = lock(&self.traffic).add_group(ranks);
        let handle = |(member, rank): (usize, &usize)| {
            let network = Arc::new(SimNetwork {
                traffic: self.traffic.clone(),
                group,
                member,
                size: ranks.len(),
                clock: self.ranks[*rank].clock.clone(),
            });
            Ok(self.ranks[*rank].fleet.group_over(network, 0)?)
        };
        ranks.iter().enumerate().map(handle).collect()
    }

    /// Returns the virtual time.
    pub fn now_ns(&self) -> u64 {
        lock(&self.traffic).wires.now_ns
    }

    /// Returns what messages have used so far.
    pub fn usage(&self) -> Usage {
        lock(&self.traffic).wires.fabric.usage
    }

    /// Returns the number of calls that have not ended on all of their ranks.
    pub fn calls_in_flight(&self) -> usize {
        lock(&self.traffic).in_flight()
    }

    /// Moves the ranks to another machine, whose links are free. Calls in flight go on there.
    pub fn set_machine(&mut self, machine: &Machine) {
        let fabric = &mut lock(&self.traffic).wires.fabric;
        let usage = fabric.usage;
        *fabric = Fabric::new(*machine, self.ranks.len());
        fabric.usage = usage;
    }

    /// Lets a rank end at a time, as a process that is killed: its device does nothing more, and after
    /// [`Machine::detection_ns`] the calls of its groups fail with
    /// [`Remote::Ended`](millstream::error::Remote::Ended); so do those of later groups with it. Make no further calls for that
    /// rank, and a group of the others. A `settle` does not wait for an end, unless calls do.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn end_rank(&mut self, rank: usize, at_ns: u64) {
        assert!(rank < self.len(), "the cluster has no rank {rank}");
        lock(&self.traffic).wires.at(at_ns, Happening::Ends(rank));
    }

    /// Runs all ranks until nothing is left to do, and returns the virtual time then. Later tasks of all ranks begin no
    /// earlier.
    ///
    /// # Errors
    /// [`Stalled`] if calls wait for others that were not made. They still wait: make those calls, and call this again.
    pub fn settle(&mut self) -> Result<u64, Stalled> {
        self.pump_all();
        loop {
            self.deliver_ends();
            let step = self.next_step();
            let (next_ns, is_over) = {
                let traffic = lock(&self.traffic);
                let (next_ns, has_work) = (traffic.wires.next_ns(), traffic.wires.has_work());
                // Plans alone are no work, but calls may wait for what they bring.
                let awaits_plans = || next_ns.is_some() && !traffic.waiting().is_empty();
                (next_ns, step.is_none() && !has_work && !awaits_plans())
            };
            match step {
                // Code of a rank may have submitted to another one.
                None if is_over => {
                    let has_step = self.pump_all();
                    let wires = &lock(&self.traffic).wires;
                    if !has_step && !wires.has_work() && !wires.has_ends() {
                        break;
                    }
                }
                // At the same time the devices come first: their tasks may send messages.
                Some((at_ns, rank)) if next_ns.is_none_or(|next_ns| at_ns <= next_ns) => {
                    lock(&self.traffic).wires.advance(at_ns);
                    self.pump(rank);
                }
                _ => {
                    let traffic = &mut *lock(&self.traffic);
                    if let Some(event) = traffic.wires.next() {
                        traffic.handle(event);
                    }
                }
            }
        }
        self.align();
        let (now_ns, waiting) = {
            let traffic = lock(&self.traffic);
            (traffic.wires.now_ns, traffic.waiting())
        };
        match waiting.is_empty() {
            true => Ok(now_ns),
            false => Err(Stalled { waiting }),
        }
    }

    /// Lets all ranks have the same time: the latest of any of them. A host may wait for its device from then on, so that
    /// it runs without a horizon.
    fn align(&mut self) {
        let now_ns = {
            let wires = &mut lock(&self.traffic).wires;
            let living = self.ranks.iter().zip(&wires.has_ended);
            let living = living.filter(|(_, has_ended)| !**has_ended);
            let latest = living.map(|(rank, _)| rank.clock.now_ns()).max();
            wires.advance(latest.unwrap_or(0));
            wires.now_ns
        };
        for rank in &self.ranks {
            rank.clock.advance(now_ns);
            rank.clock.set_horizon(u64::MAX);
        }
    }

    /// Runs all devices up to the present, at which what was submitted to them is there. Returns whether any of them has
    /// a further step.
    fn pump_all(&mut self) -> bool {
        let now_ns = self.now_ns();
        for rank in 0..self.len() {
            self.ranks[rank].clock.advance(now_ns);
            self.pump(rank);
        }
        self.ranks.iter().any(|rank| rank.next_ns.is_some())
    }

    /// Returns the earliest step of a device.
    fn next_step(&mut self) -> Option<(u64, usize)> {
        while let Some(Reverse((at_ns, rank))) = self.steps.peek().copied() {
            if self.ranks[rank].next_ns == Some(at_ns) {
                return Some((at_ns, rank));
            }
            self.steps.pop();
        }
        None
    }

    /// Runs a device up to the present.
    fn pump(&mut self, index: usize) {
        let (now_ns, has_ended) = {
            let wires = &lock(&self.traffic).wires;
            (wires.now_ns, wires.has_ended[index])
        };
        let rank = &mut self.ranks[index];
        if has_ended {
            rank.next_ns = None;
            return;
        }
        rank.clock.set_horizon(now_ns);
        while rank.driver.pump(Duration::ZERO) {}
        rank.next_ns = rank.clock.next_ns();
        if let Some(next_ns) = rank.next_ns {
            self.steps.push(Reverse((next_ns, index)));
        }
    }

    /// Tells the devices of parts that have ended.
    fn deliver_ends(&mut self) {
        loop {
            let ends = lock(&self.traffic).wires.take_ends();
            if ends.is_empty() {
                return;
            }
            let now_ns = self.now_ns();
            let mut ranks = Vec::with_capacity(ends.len());
            for end in ends {
                // A rank that has ended is not run, so it learns of nothing.
                self.ranks[end.rank].clock.advance(now_ns);
                match end.failure {
                    None => end.part.complete(),
                    Some(cause) => end.part.fail_by(cause),
                }
                ranks.push(end.rank);
            }
            ranks.sort_unstable();
            ranks.dedup();
            for rank in ranks {
                self.pump(rank);
            }
        }
    }
}

impl std::fmt::Debug for SimCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SimCluster({} ranks at {} ns)",
            self.len(),
            self.now_ns()
        )
    }
}
