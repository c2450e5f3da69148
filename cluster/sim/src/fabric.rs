//! The links of a cluster, and the time at which a message arrives.

use crate::machine::{Link, Machine};

/// What the messages of a cluster have used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// The number of messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds that messages have waited for links that were in use, of all messages together.
    pub waited_ns: u64,
}

/// All links, with the times at which they are free.
pub(crate) struct Fabric {
    pub(crate) machine: Machine,
    hosts: usize,
    /// By link, those of hosts first, then those of switches.
    links: Vec<u64>,
    /// By rank: the thread that sends and receives.
    threads: Vec<u64>,
    pub(crate) usage: Usage,
}

/// The links of a host: its memory, its port's way out, its port's way in.
const MEMORY: usize = 0;
const OUT: usize = 1;
const IN: usize = 2;
const OF_HOST: usize = 3;
/// The links of a switch: the ways up and down.
const UP: usize = 0;
const DOWN: usize = 1;
const OF_SWITCH: usize = 2;

impl Fabric {
    pub(crate) fn new(machine: Machine, ranks: usize) -> Self {
        let hosts = ranks.div_ceil(machine.ranks_per_host.max(1));
        let switches = hosts.div_ceil(machine.hosts_per_switch.max(1));
        Self {
            machine,
            hosts,
            links: vec![0; hosts * OF_HOST + switches * OF_SWITCH],
            threads: vec![0; ranks],
            usage: Usage::default(),
        }
    }

    /// Occupies the communication thread of a rank for some time from `now_ns` on. Returns the end.
    pub(crate) fn occupy(&mut self, rank: usize, now_ns: u64, ns: u64) -> u64 {
        let free = &mut self.threads[rank];
        *free = now_ns.max(*free).saturating_add(ns);
        *free
    }

    /// Returns the latency of the way between two ranks.
    pub(crate) fn latency_ns(&self, from: usize, to: usize) -> u64 {
        let links = self.way(from, to);
        let latencies = links.iter().flatten().map(|(link, _)| link.latency_ns);
        latencies.fold(0, u64::saturating_add)
    }

    /// The head of a message comes to a link. Returns when it enters and when the link is free again. Calls must come in
    /// the order of time, since a link serves the first that comes.
    pub(crate) fn cross(&mut self, now_ns: u64, (link, place): Hop, bytes: u64) -> (u64, u64) {
        let free = &mut self.links[place];
        let start_ns = match self.machine.contention {
            true => now_ns.max(*free),
            false => now_ns,
        };
        let end_ns = start_ns.saturating_add(link.bytes_ns(bytes));
        *free = end_ns;
        self.usage.waited_ns += start_ns - now_ns;
        (start_ns, end_ns)
    }

    /// Returns the links between two ranks.
    pub(crate) fn way(&self, from: usize, to: usize) -> Way {
        let host = |rank: usize| rank / self.machine.ranks_per_host.max(1);
        let switch = |host: usize| host / self.machine.hosts_per_switch.max(1);
        let (from, to) = (host(from), host(to));
        let of_host = |host: usize, link, place| Some((link, host * OF_HOST + place));
        let first = self.hosts * OF_HOST;
        let of_switch =
            |switch: usize, link, place| Some((link, first + switch * OF_SWITCH + place));
        let Machine {
            memory,
            port,
            uplink,
            ..
        } = self.machine;
        if from == to {
            return [of_host(from, memory, MEMORY), None, None, None];
        }
        let (out, into) = (of_host(from, port, OUT), of_host(to, port, IN));
        let (from, to) = (switch(from), switch(to));
        if from == to {
            return [out, into, None, None];
        }
        [
            out,
            of_switch(from, uplink, UP),
            of_switch(to, uplink, DOWN),
            into,
        ]
    }
}

/// The links between two ranks.
pub(crate) type Way = [Option<Hop>; 4];

/// A link of a way, and its number.
pub(crate) type Hop = (Link, usize);
