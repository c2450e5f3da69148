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
    /// By host: its memory, its port's way out, its port's way in.
    hosts: Vec<[u64; 3]>,
    /// By switch: the ways up and down.
    switches: Vec<[u64; 2]>,
    /// By rank: the thread that sends and receives.
    threads: Vec<u64>,
    pub(crate) usage: Usage,
}

const MEMORY: usize = 0;
const OUT: usize = 1;
const IN: usize = 2;
const UP: usize = 0;
const DOWN: usize = 1;

impl Fabric {
    pub(crate) fn new(machine: Machine, ranks: usize) -> Self {
        let hosts = ranks.div_ceil(machine.ranks_per_host.max(1));
        let switches = hosts.div_ceil(machine.hosts_per_switch.max(1));
        Self {
            machine,
            hosts: vec![[0; 3]; hosts],
            switches: vec![[0; 2]; switches],
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
        let contention = self.machine.contention;
        let free = self.place(place);
        let start_ns = match contention {
            true => now_ns.max(*free),
            false => now_ns,
        };
        let end_ns = start_ns.saturating_add(link.bytes_ns(bytes));
        *free = end_ns;
        self.usage.waited_ns += start_ns - now_ns;
        (start_ns, end_ns)
    }

    fn place(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::Host(host, link) => &mut self.hosts[host][link],
            Place::Switch(switch, link) => &mut self.switches[switch][link],
        }
    }

    /// Returns the links between two ranks.
    pub(crate) fn way(&self, from: usize, to: usize) -> Way {
        let host = |rank: usize| rank / self.machine.ranks_per_host.max(1);
        let switch = |host: usize| host / self.machine.hosts_per_switch.max(1);
        let (from, to) = (host(from), host(to));
        let Machine {
            memory,
            port,
            uplink,
            ..
        } = self.machine;
        if from == to {
            return [Some((memory, Place::Host(from, MEMORY))), None, None, None];
        }
        let (out, into) = (
            Some((port, Place::Host(from, OUT))),
            Some((port, Place::Host(to, IN))),
        );
        let (from, to) = (switch(from), switch(to));
        if from == to {
            return [out, into, None, None];
        }
        let up = Some((uplink, Place::Switch(from, UP)));
        let down = Some((uplink, Place::Switch(to, DOWN)));
        [out, up, down, into]
    }
}

/// The links between two ranks.
pub(crate) type Way = [Option<Hop>; 4];

/// A link of a way, and where its time is stored.
pub(crate) type Hop = (Link, Place);

/// Where the time of a link is stored.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Host(usize, usize),
    Switch(usize, usize),
}
