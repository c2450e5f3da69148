//! Time, links and events: what the calls of all groups share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use millstream::FailureRef;
use millstream_cluster::NetworkPart;
use slab::Slab;

use crate::event::Happening;
use crate::fabric::{Fabric, Way};

/// What the calls of all groups share: time, links, and events.
pub(crate) struct Wires {
    pub(crate) now_ns: u64,
    pub(crate) fabric: Fabric,
    /// By rank: whether it has ended.
    pub(crate) has_ended: Vec<bool>,
    /// By rank: whether the others know that.
    pub(crate) is_known: Vec<bool>,
    /// Whether bytes move. Otherwise only time passes.
    pub(crate) moves_data: bool,
    events: BinaryHeap<Reverse<Timed>>,
    /// The number of events that are work.
    work: usize,
    messages: Slab<Message>,
    /// The number of events so far: those of one time happen in the order in which they were made.
    made: u64,
    /// Parts that have ended. Their devices must learn of it.
    ends: Vec<End>,
}

/// A message on its way.
struct Message {
    way: Way,
    /// The index of the link that its head comes to next.
    next: usize,
    bytes: u64,
    /// When its last byte is at that link.
    tail_ns: u64,
    arrives: Happening,
}

/// A part that has ended.
pub(crate) struct End {
    /// The rank in the cluster.
    pub(crate) rank: usize,
    pub(crate) part: NetworkPart,
    pub(crate) failure: Option<FailureRef>,
}

/// Something that happens at a time. Those of one time happen in the order of their numbers, plans last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Timed {
    at_ns: u64,
    is_plan: bool,
    number: u64,
    happening: Happening,
}

impl Wires {
    pub(crate) fn new(fabric: Fabric, ranks: usize, moves_data: bool) -> Self {
        Self {
            now_ns: 0,
            fabric,
            has_ended: vec![false; ranks],
            moves_data,
            is_known: vec![false; ranks],
            events: BinaryHeap::new(),
            work: 0,
            messages: Slab::new(),
            made: 0,
            ends: Vec::new(),
        }
    }

    /// Returns the time of the next event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.events.peek()?.0.at_ns)
    }

    /// Whether there are other events than [plans](Happening::is_plan).
    pub(crate) fn has_work(&self) -> bool {
        self.work > 0
    }

    /// Takes the next event, and advances the time to it.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let Reverse(event) = self.events.pop()?;
        self.work -= usize::from(!event.is_plan);
        self.advance(event.at_ns);
        Some(event.happening)
    }

    /// Advances the time; it does not go back.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// Returns `true` if parts have ended whose devices must learn of it.
    pub(crate) fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Takes the parts that have ended.
    pub(crate) fn take_ends(&mut self) -> Vec<End> {
        std::mem::take(&mut self.ends)
    }

    /// Lets something happen after `ns` nanoseconds.
    pub(crate) fn after(&mut self, ns: u64, happening: Happening) {
        self.at(self.now_ns.saturating_add(ns), happening);
    }

    /// Lets something happen at a time.
    pub(crate) fn at(&mut self, at_ns: u64, happening: Happening) {
        self.made += 1;
        self.work += usize::from(!happening.is_plan());
        self.events.push(Reverse(Timed {
            at_ns: at_ns.max(self.now_ns),
            is_plan: happening.is_plan(),
            number: self.made,
            happening,
        }));
    }

    /// Lets something happen once the thread of a rank has been busy with it for some time.
    pub(crate) fn after_work(&mut self, rank: usize, ns: u64, happening: Happening) {
        let end_ns = self.fabric.occupy(rank, self.now_ns, ns);
        self.at(end_ns, happening);
    }

    /// Sends a message. Returns when its last byte has left the sender.
    pub(crate) fn send(&mut self, from: usize, to: usize, bytes: u64, arrives: Happening) -> u64 {
        self.fabric.usage.messages += 1;
        self.fabric.usage.bytes += bytes;
        self.hop(Message {
            way: self.fabric.way(from, to),
            next: 0,
            bytes,
            tail_ns: self.now_ns,
            arrives,
        })
    }

    /// The head of a message comes to its next link.
    pub(crate) fn hop_on(&mut self, message: usize) {
        if let Some(message) = self.messages.try_remove(message) {
            self.hop(message);
        }
    }

    /// Returns when the link is free again.
    fn hop(&mut self, mut message: Message) -> u64 {
        let Some(hop) = message.way.get(message.next).copied().flatten() else {
            self.at(message.tail_ns, message.arrives);
            return self.now_ns;
        };
        let (start_ns, end_ns) = self.fabric.cross(self.now_ns, hop, message.bytes);
        let latency_ns = hop.0.latency_ns;
        // The head goes on while the rest follows; the slowest link decides when the rest is there.
        message.tail_ns = message.tail_ns.max(end_ns).saturating_add(latency_ns);
        message.next += 1;
        match message.way.get(message.next).copied().flatten() {
            None => self.at(message.tail_ns, message.arrives),
            Some(_) => {
                let message = self.messages.insert(message);
                self.at(
                    start_ns.saturating_add(latency_ns),
                    Happening::Hops(message),
                );
            }
        }
        end_ns
    }

    /// Forgets what would happen in a group.
    pub(crate) fn forget(&mut self, group: usize) {
        let is_of_group =
            |event: &Timed| matches!(event.happening, Happening::Of(it) if it.group == group);
        self.events.retain(|event| !is_of_group(&event.0));
        let work = self.events.iter().filter(|event| !event.0.is_plan);
        self.work = work.count();
    }

    /// Ends a part.
    pub(crate) fn end(&mut self, rank: usize, part: NetworkPart, failure: Option<FailureRef>) {
        self.ends.push(End {
            rank,
            part,
            failure,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Link, Machine};

    /// Two ranks of each host, two hosts of each switch.
    fn wires(contention: bool) -> Wires {
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
        Wires::new(Fabric::new(machine, 8), 8, true)
    }

    /// Sends messages of these senders, receivers and bytes. Returns when each arrives.
    fn arrivals(wires: &mut Wires, messages: &[(usize, usize, u64)]) -> Vec<u64> {
        for (number, (from, to, bytes)) in messages.iter().enumerate() {
            wires.send(*from, *to, *bytes, Happening::Ends(number));
        }
        let mut arrivals = vec![0; messages.len()];
        while let Some(happening) = wires.next() {
            match happening {
                Happening::Hops(message) => wires.hop_on(message),
                Happening::Ends(number) => arrivals[number] = wires.now_ns,
                other => panic!("{other:?}"),
            }
        }
        assert!(wires.messages.is_empty());
        arrivals
    }

    #[test]
    fn way_and_slowest_link_decide_when_a_message_arrives() {
        for (to, expected) in [
            (1, 1 + 1),
            (2, 2 * 100 + 1_000),
            (4, 100 + 10 + 10 + 100 + 2_000),
        ] {
            assert_eq!(arrivals(&mut wires(true), &[(0, to, 1_000)]), [expected]);
        }
        assert_eq!(wires(true).fabric.latency_ns(0, 4), 220);
    }

    /// From both ranks of a host to both of another one.
    #[test]
    fn messages_share_links_only_with_contention() {
        for (contention, expected) in [(true, [1_200, 2_200]), (false, [1_200, 1_200])] {
            let mut wires = wires(contention);
            let found = arrivals(&mut wires, &[(0, 2, 1_000), (1, 3, 1_000)]);
            assert_eq!(found, expected);
            let usage = wires.fabric.usage;
            assert_eq!((usage.messages, usage.bytes), (2, 2_000));
            assert_eq!(usage.waited_ns, if contention { 1_000 } else { 0 });
        }
    }

    /// A message that waits at its own port does not hold the port of its receiver meanwhile.
    #[test]
    fn a_link_is_free_until_a_message_comes() {
        let mut wires = wires(true);
        // The second message waits for the first. The third comes from another host.
        let found = arrivals(&mut wires, &[(0, 4, 50_000), (0, 2, 1_000), (6, 2, 100)]);
        assert_eq!(found[2], 100 + 10 + 10 + 100 + 200);
        assert_eq!(found[1], 50_000 + 1_000 + 200);
    }

    #[test]
    fn figures_of_any_size_do_not_overflow() {
        let link = Link {
            latency_ns: u64::MAX,
            bytes_per_us: 0,
        };
        let machine = Machine {
            ranks_per_host: 0,
            hosts_per_switch: 0,
            port: link,
            ..Machine::default()
        };
        let mut wires = Wires::new(Fabric::new(machine, 2), 2, true);
        assert_eq!(arrivals(&mut wires, &[(0, 1, u64::MAX)]), [u64::MAX]);
        assert_eq!(wires.fabric.latency_ns(0, 1), u64::MAX);
    }
}
