//! The sends and receives of a group.
//!
//! ```text
//!  short:  the sender's data is ready ──► wake ──► message ──► arrives ──► the receiver is ready ──► wake ──► it ends
//!  long:   both are ready ──► wake, and one latency for the receiver's answer ──► message ──► arrives ──► wake ──► it ends
//! ```
//! The sender of a short transfer ends when its bytes are copied, that of a long one when they have left.

use std::collections::HashMap;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, NetworkPart};

use crate::event::{Event, Happening, Id, Leg, Outcome, Side};
use crate::stall::Waiting;
use crate::wires::Wires;

/// The transfers of a group.
pub(crate) struct Transfers {
    group: usize,
    ranks: Vec<usize>,
    /// By sender and receiver: the numbers of their sends and of their receives.
    called: HashMap<(usize, usize), [u64; 2]>,
    in_flight: HashMap<Id, Transfer>,
}

#[derive(Default)]
struct Transfer {
    sent: Half,
    received: Half,
    has_left: bool,
    has_arrived: bool,
    /// The bytes of a short transfer whose receiver is not ready.
    bytes: Vec<u8>,
    /// Why the receiver gets no data.
    failure: Option<FailureRef>,
}

#[derive(Default)]
struct Half {
    call: Option<Announcement>,
    part: Option<NetworkPart>,
    has_begun: bool,
    has_ended: bool,
}

impl Transfers {
    pub(crate) fn new(group: usize, ranks: &[usize]) -> Self {
        Self {
            group,
            ranks: ranks.to_vec(),
            called: HashMap::new(),
            in_flight: HashMap::new(),
        }
    }

    pub(crate) fn announce(&mut self, side: Side, ranks: (usize, usize), call: Announcement) -> Id {
        let number = &mut self.called.entry(ranks).or_default()[side as usize];
        let id = (ranks.0, ranks.1, *number);
        *number += 1;
        let transfer = self.in_flight.entry(id).or_default();
        transfer.half(side).call = Some(call);
        if let (Some(sent), Some(received)) = (transfer.sent.call, transfer.received.call)
            && (sent.dtype, sent.elements) != (received.dtype, received.elements)
        {
            let message = format!(
                "rank {} sends {sent} at {}, and rank {} receives {received} at {}",
                ranks.0, sent.place, ranks.1, received.place
            );
            let remote = Remote::Mismatch { message };
            transfer.failure = Some(Failure::not_run(&"receive".into(), Reason::Remote(remote)));
        }
        id
    }

    /// A part begins, or cannot.
    pub(crate) fn begin(&mut self, wires: &mut Wires, (id, side): (Id, Side), part: Outcome) {
        let Some(transfer) = self.in_flight.get_mut(&id) else {
            return;
        };
        let half = transfer.half(side);
        half.has_begun = true;
        match part {
            Ok(part) => half.part = Some(part),
            Err(cause) => {
                half.has_ended = true;
                // The sender of a receiver that fails ends as if the bytes had been received.
                if side == Side::Sender {
                    transfer.failure.get_or_insert(cause);
                }
            }
        }
        self.go_on(wires, id);
    }

    /// A part has begun: sends the message, or ends what it cannot or need not be sent for.
    fn go_on(&mut self, wires: &mut Wires, id: Id) {
        let group = self.group;
        let event = |leg| Happening::Of(group, Event::Transfer(id, leg));
        let (from, to) = (self.ranks[id.0], self.ranks[id.1]);
        let Some(transfer) = self.in_flight.get_mut(&id) else {
            return;
        };
        let machine = wires.fabric.machine;
        let bytes = transfer.bytes_sent();
        if transfer.has_arrived && transfer.received.has_begun {
            return self.receive(wires, id);
        }
        let is_short = bytes <= machine.eager_bytes;
        let answers = transfer.received.has_begun && !wires.has_ended[to];
        let may_leave = transfer.sent.has_begun && (is_short || answers);
        if !may_leave || transfer.has_left {
            return;
        }
        transfer.has_left = true;
        let answer_ns = match is_short {
            true => 0,
            false => wires.fabric.latency_ns(to, from),
        };
        let leaves_ns = machine.wake_ns.saturating_add(answer_ns);
        wires.after(leaves_ns, event(Leg::Leaves));
    }

    pub(crate) fn step(&mut self, wires: &mut Wires, id: Id, leg: Leg) {
        match leg {
            Leg::Leaves => {
                let (goes, from) = (self.event(id, Leg::Goes), self.ranks[id.0]);
                let message_ns = wires.fabric.machine.message_ns;
                wires.after_work(from, message_ns, goes);
            }
            Leg::Goes => self.send(wires, id),
            Leg::Arrives => {
                if let Some(transfer) = self.in_flight.get_mut(&id) {
                    transfer.has_arrived = true;
                }
                self.go_on(wires, id);
            }
            Leg::Ends(side) => self.end(wires, id, side),
        }
    }

    fn event(&self, id: Id, leg: Leg) -> Happening {
        Happening::Of(self.group, Event::Transfer(id, leg))
    }

    /// Sends the message.
    fn send(&mut self, wires: &mut Wires, id: Id) {
        let (arrives, ends) = (
            self.event(id, Leg::Arrives),
            self.event(id, Leg::Ends(Side::Sender)),
        );
        let (from, to) = (self.ranks[id.0], self.ranks[id.1]);
        if wires.has_ended[from] {
            return;
        }
        let Some(transfer) = self.in_flight.get_mut(&id) else {
            return;
        };
        let machine = wires.fabric.machine;
        if wires.moves_data
            && let Err(why) = transfer.move_data()
        {
            let failure = Failure::not_run(&"send".into(), Reason::Refused(why));
            transfer.failure.get_or_insert(failure);
        }
        // A failed part sends the failure instead of its bytes.
        let bytes = match transfer.sent.part {
            Some(_) => transfer.bytes_sent(),
            None => 0,
        };
        let left_ns = wires.send(from, to, bytes, arrives);
        let ended_ns = match bytes <= machine.eager_bytes {
            true => wires.now_ns,
            false => left_ns,
        };
        wires.at(ended_ns.saturating_add(machine.wake_ns), ends);
    }

    /// The bytes are there, and the receiver is ready.
    fn receive(&mut self, wires: &mut Wires, id: Id) {
        let ends = self.event(id, Leg::Ends(Side::Receiver));
        let rank = self.ranks[id.1];
        let Some(transfer) = self.in_flight.get_mut(&id) else {
            return;
        };
        if let (Some(part), None) = (&mut transfer.received.part, &transfer.failure)
            && !transfer.bytes.is_empty()
        {
            let written = part.memory().map(|memory| {
                if let Some(output) = memory.output {
                    output.copy_from_slice(&transfer.bytes);
                }
            });
            transfer.failure = written
                .err()
                .map(|why| Failure::not_run(&"receive".into(), Reason::Refused(why)));
        }
        let machine = wires.fabric.machine;
        let received_ns = wires.fabric.occupy(rank, wires.now_ns, machine.message_ns);
        wires.at(received_ns.saturating_add(machine.wake_ns), ends);
    }

    /// A part ends.
    fn end(&mut self, wires: &mut Wires, id: Id, side: Side) {
        let Some(transfer) = self.in_flight.get_mut(&id) else {
            return;
        };
        let (member, failure) = match side {
            Side::Sender => (id.0, None),
            Side::Receiver => (id.1, transfer.failure.clone()),
        };
        let half = transfer.half(side);
        half.has_ended = true;
        if let Some(part) = half.part.take() {
            wires.end(self.ranks[member], part, failure);
        }
        if transfer.sent.has_ended && transfer.received.has_ended && transfer.has_arrived {
            self.in_flight.remove(&id);
        }
    }

    /// Takes the parts of all transfers, which are forgotten.
    pub(crate) fn take_all(&mut self) -> Vec<(usize, NetworkPart)> {
        let mut left: Vec<_> = std::mem::take(&mut self.in_flight).into_iter().collect();
        // The order of a map is another one in each run.
        left.sort_unstable_by_key(|(id, _)| *id);
        let parts = left.into_iter().flat_map(|((from, to, _), transfer)| {
            [(from, transfer.sent.part), (to, transfer.received.part)]
        });
        parts
            .filter_map(|(member, part)| Some((member, part?)))
            .collect()
    }

    /// Returns the number of transfers that have not ended on both sides.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the transfers for which a member waits, in their order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let mut all: Vec<_> = self.in_flight.iter().collect();
        all.sort_unstable_by_key(|(id, _)| **id);
        all.into_iter().filter_map(|((from, to, _), transfer)| {
            let halves = [
                (&transfer.sent, *from, *to, &transfer.received),
                (&transfer.received, *to, *from, &transfer.sent),
            ];
            let waits = |half: &(&Half, usize, usize, &Half)| half.0.part.is_some();
            let (half, rank, peer, other) = halves.into_iter().find(waits)?;
            let call = half.call.as_ref()?;
            Some(Waiting {
                call: format!("`{}` of {call} at {}", call.name, call.place),
                rank,
                missing: other.call.is_none().then_some(peer),
            })
        })
    }
}

impl Transfer {
    fn half(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Sender => &mut self.sent,
            Side::Receiver => &mut self.received,
        }
    }

    fn bytes_sent(&self) -> u64 {
        self.sent
            .call
            .as_ref()
            .map_or(0, |call| call.bytes() as u64)
    }

    /// Moves the bytes to the receiver if it is ready, or keeps a copy of them.
    fn move_data(&mut self) -> Result<(), String> {
        let (Some(call), Some(sent)) = (&self.sent.call, &mut self.sent.part) else {
            return Ok(());
        };
        match &mut self.received.part {
            Some(received) if self.failure.is_none() => {
                call.carry_out([sent, received].into_iter())
            }
            Some(_) => Ok(()),
            None => {
                self.bytes = sent.memory()?.input.unwrap_or_default().to_vec();
                Ok(())
            }
        }
    }
}
