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

/// The times of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    /// The sender's first link is free again.
    pub(crate) left_ns: u64,
    /// All bytes are there.
    pub(crate) arrives_ns: u64,
}

/// All links, with the times at which they are free.
pub(crate) struct Fabric {
    machine: Machine,
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

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
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
        latencies.sum()
    }

    /// Sends a message. Calls must come in the order of time, since a link serves the first that comes.
    pub(crate) fn send(&mut self, now_ns: u64, from: usize, to: usize, bytes: u64) -> Flight {
        self.usage.messages += 1;
        self.usage.bytes += bytes;
        let contention = self.machine.contention;
        let (mut head_ns, mut tail_ns, mut left_ns) = (now_ns, now_ns, None);
        for (link, place) in self.way(from, to).into_iter().flatten() {
            let free = self.place(place);
            let start_ns = match contention {
                true => head_ns.max(*free),
                false => head_ns,
            };
            let end_ns = start_ns.saturating_add(link.bytes_ns(bytes));
            *free = end_ns;
            self.usage.waited_ns += start_ns - head_ns;
            // The head goes on while the rest follows; the slowest link decides when the rest is there.
            head_ns = start_ns.saturating_add(link.latency_ns);
            tail_ns = tail_ns.max(end_ns).saturating_add(link.latency_ns);
            left_ns.get_or_insert(end_ns);
        }
        Flight {
            left_ns: left_ns.unwrap_or(now_ns),
            arrives_ns: tail_ns,
        }
    }

    fn place(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::Host(host, link) => &mut self.hosts[host][link],
            Place::Switch(switch, link) => &mut self.switches[switch][link],
        }
    }

    /// Returns the links between two ranks.
    fn way(&self, from: usize, to: usize) -> [Option<(Link, Place)>; 4] {
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

/// Where the time of a link is stored.
#[derive(Clone, Copy)]
enum Place {
    Host(usize, usize),
    Switch(usize, usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks of each host, two hosts of each switch.
    fn fabric(contention: bool) -> Fabric {
        let machine = Machine {
            ranks_per_host: 2,
            hosts_per_switch: 2,
            memory: Link {
                latency_ns: 1,
                bytes_per_us: 1_000_000,
            },
            port: Link {
                latency_ns: 100,
                bytes_per_us: 1_000,
            },
            uplink: Link {
                latency_ns: 10,
                bytes_per_us: 500,
            },
            contention,
            ..Machine::default()
        };
        Fabric::new(machine, 8)
    }

    #[test]
    fn way_and_slowest_link_decide_when_a_message_arrives() {
        let mut fabric = fabric(true);
        let mut arrival = |to| fabric.send(0, 0, to, 1_000).arrives_ns;
        assert_eq!(arrival(1), 1 + 1, "through memory");
        assert_eq!(arrival(2), 2 * 100 + 1_000, "through one switch");
        // The first message holds the port until 1,000.
        let through_the_core = 1_000 + 100 + 2_000 + 10 + 10 + 100;
        assert_eq!(arrival(4), through_the_core);
        assert_eq!(fabric.usage.waited_ns, 1_000);
        assert_eq!((fabric.usage.messages, fabric.usage.bytes), (3, 3_000));
        assert_eq!(fabric.latency_ns(0, 4), 220);
    }

    #[test]
    fn messages_share_links_only_with_contention() {
        for (contention, expected) in [(true, [1_200, 2_200]), (false, [1_200, 1_200])] {
            let mut fabric = fabric(contention);
            // From both ranks of a host to both of another one.
            let arrivals = [(0, 2), (1, 3)].map(|(from, to)| fabric.send(0, from, to, 1_000));
            assert_eq!(arrivals.map(|flight| flight.arrives_ns), expected);
        }
    }
}
