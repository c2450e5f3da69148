//! The collectives of a group.
//!
//! ```text
//!  all members have called ──► the member's data is ready ──► wake ──► its actions ──► wake ──► its part ends
//! ```
//! As on a real network, the ranks compare what they call before data moves, so a member's messages wait for the calls
//! of all others.

use std::collections::VecDeque;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, NetworkPart, Operation};

use crate::event::{Event, Happening, Outcome, Step};
use crate::machine::bytes_ns;
use crate::rounds::{Action, actions};
use crate::stall::Waiting;
use crate::wires::Wires;

/// The collectives of a group, which each member calls in the same order.
pub(crate) struct Collectives {
    group: usize,
    ranks: Vec<usize>,
    /// By member: the number of its calls.
    called: Vec<u64>,
    /// The number of the first that is in flight.
    first: u64,
    in_flight: VecDeque<Collective>,
}

struct Collective {
    call: Announcement,
    /// The member that called first.
    caller: usize,
    members: Vec<Member>,
    called: usize,
    begun: usize,
    ended: usize,
    failure: Option<FailureRef>,
    /// The bytes of a broadcast, once its root has begun.
    spread: Vec<u8>,
}

#[derive(Default)]
struct Member {
    has_called: bool,
    part: Option<NetworkPart>,
    actions: Vec<Action>,
    /// The index of the next one.
    next: usize,
    /// Whether it waits for the message that it receives next.
    waits: bool,
    /// The tags of the messages that have arrived.
    arrived: u64,
}

impl Collectives {
    pub(crate) fn new(group: usize, ranks: &[usize]) -> Self {
        Self {
            group,
            ranks: ranks.to_vec(),
            called: vec![0; ranks.len()],
            first: 0,
            in_flight: VecDeque::new(),
        }
    }

    /// A member calls its next collective. Returns the number of the collective.
    pub(crate) fn announce(&mut self, wires: &mut Wires, member: usize, call: Announcement) -> u64 {
        let number = self.called[member];
        self.called[member] += 1;
        let index = (number - self.first) as usize;
        if index == self.in_flight.len() {
            self.in_flight
                .push_back(Collective::new(call, member, self.ranks.len()));
        }
        let collective = &mut self.in_flight[index];
        collective.called += 1;
        collective.members[member].has_called = true;
        if !is_same(&call, &collective.call) {
            let first = &collective.call;
            let message = format!(
                "rank {} called {first} at {}, and rank {member} {call} at {}",
                collective.caller, first.place, call.place
            );
            let name = collective.call.name.into();
            let cause = Failure::not_run(&name, Reason::Remote(Remote::Mismatch { message }));
            self.fail(wires, number, cause);
        } else if collective.called == self.ranks.len() {
            for member in 0..self.ranks.len() {
                self.start(wires, number, member);
            }
        }
        number
    }

    /// The part of a member begins, or cannot.
    pub(crate) fn begin(&mut self, wires: &mut Wires, number: u64, member: usize, part: Outcome) {
        let rank = self.ranks[member];
        let Some(collective) = self.get(number) else {
            return;
        };
        collective.begun += 1;
        match (part, collective.failure.clone()) {
            (Ok(part), Some(cause)) => {
                collective.ended += 1;
                wires.end(rank, part, Some(cause));
            }
            (Err(_), Some(_)) => collective.ended += 1,
            (Err(cause), None) => {
                collective.ended += 1;
                self.fail(wires, number, cause);
            }
            (Ok(part), None) => {
                collective.members[member].part = Some(part);
                match collective.move_data(member, wires.moves_data) {
                    Ok(()) => self.start(wires, number, member),
                    Err(why) => {
                        let name = collective.call.name.into();
                        let cause = Failure::not_run(&name, Reason::Refused(why));
                        self.fail(wires, number, cause);
                    }
                }
            }
        }
        self.drop_ended();
    }

    pub(crate) fn step(&mut self, wires: &mut Wires, number: u64, member: usize, step: Step) {
        let Some(collective) = self.get(number) else {
            return;
        };
        let state = &mut collective.members[member];
        match step {
            Step::Arrives(tag) => {
                state.arrived |= 1 << tag;
                if std::mem::take(&mut state.waits) {
                    self.go(wires, number, member);
                }
            }
            Step::Sends(to, bytes, tag) => {
                let (from, arrives) = (self.ranks[member], Step::Arrives(tag));
                if !wires.has_ended[from] {
                    let arrives = self.event(number, to, arrives);
                    wires.send(from, self.ranks[to], bytes, arrives);
                    self.go(wires, number, member);
                }
            }
            Step::Goes => self.go(wires, number, member),
            Step::Ends => {
                // A call that has failed has no parts left.
                if let Some(mut part) = state.part.take() {
                    collective.ended += 1;
                    let moved = collective.receive(&mut part);
                    let failure = moved.err().map(|why| {
                        Failure::not_run(&collective.call.name.into(), Reason::Refused(why))
                    });
                    wires.end(self.ranks[member], part, failure);
                    self.drop_ended();
                }
            }
        }
    }

    /// Starts the actions of a member once it has begun and all have called.
    fn start(&mut self, wires: &mut Wires, number: u64, member: usize) {
        let (goes, ranks) = (self.event(number, member, Step::Goes), self.ranks.len());
        let Some(collective) = self.get(number) else {
            return;
        };
        let state = &mut collective.members[member];
        if collective.called < ranks || collective.failure.is_some() || state.part.is_none() {
            return;
        }
        let machine = wires.fabric.machine;
        let call = &collective.call;
        let bytes = call.bytes() as u64
            * match call.operation {
                Operation::AllGather | Operation::ReduceScatter(_) => ranks as u64,
                _ => 1,
            };
        state.actions = actions(call.operation, (member, ranks), bytes, machine.short_bytes);
        wires.after(machine.wake_ns, goes);
    }

    fn event(&self, number: u64, member: usize, step: Step) -> Happening {
        Happening::Of(self.group, Event::Collective(number, member, step))
    }

    /// Goes on with the actions of a member until it waits, or until its thread is busy for some time.
    fn go(&mut self, wires: &mut Wires, number: u64, member: usize) {
        let (group, rank) = (self.group, self.ranks[member]);
        let event = |step| Happening::Of(group, Event::Collective(number, member, step));
        let Some(collective) = self.get(number).filter(|_| !wires.has_ended[rank]) else {
            return;
        };
        let state = &mut collective.members[member];
        let machine = wires.fabric.machine;
        let message_ns = machine.message_ns;
        match state.actions.get(state.next).copied() {
            None => return wires.after(machine.wake_ns, event(Step::Ends)),
            Some(Action::Send { tag, to, bytes }) => {
                wires.after_work(rank, message_ns, event(Step::Sends(to, bytes, tag)));
            }
            Some(Action::Receive { tag, .. }) if state.arrived & (1 << tag) == 0 => {
                state.waits = true;
                return;
            }
            Some(Action::Receive { combined, .. }) => {
                let combined_ns = bytes_ns(combined, machine.combined_bytes_per_us);
                let ns = message_ns.saturating_add(combined_ns);
                wires.after_work(rank, ns, event(Step::Goes));
            }
        }
        state.next += 1;
    }

    /// Fails a call: the parts that have begun now, the others when they begin.
    fn fail(&mut self, wires: &mut Wires, number: u64, cause: FailureRef) {
        let ranks = self.ranks.clone();
        let Some(collective) = self.get(number) else {
            return;
        };
        for (state, rank) in collective.members.iter_mut().zip(ranks) {
            if let Some(part) = state.part.take() {
                collective.ended += 1;
                wires.end(rank, part, Some(cause.clone()));
            }
        }
        collective.failure.get_or_insert(cause);
    }

    fn get(&mut self, number: u64) -> Option<&mut Collective> {
        let index = number.checked_sub(self.first)?;
        self.in_flight.get_mut(index as usize)
    }

    /// Forgets the calls that have ended on all members.
    fn drop_ended(&mut self) {
        let ranks = self.ranks.len();
        while self.in_flight.front().is_some_and(|it| it.ended == ranks) {
            self.in_flight.pop_front();
            self.first += 1;
        }
    }

    /// Takes the parts of all calls, which are forgotten.
    pub(crate) fn take_all(&mut self) -> Vec<(usize, NetworkPart)> {
        let calls = std::mem::take(&mut self.in_flight);
        let members = calls
            .into_iter()
            .flat_map(|call| call.members.into_iter().enumerate());
        members
            .filter_map(|(member, state)| Some((member, state.part?)))
            .collect()
    }

    /// Returns the number of calls that have not ended on all members.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the calls for which a member waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let waits = |collective: &&Collective| collective.begun > collective.ended;
        let waiting = self.in_flight.iter().filter(waits);
        waiting.map(|collective| {
            let members = &collective.members;
            let waits = members.iter().position(|it| it.part.is_some());
            let missing = members.iter().position(|it| !it.has_called);
            Waiting {
                call: format!("{} at {}", collective.call, collective.call.place),
                rank: waits.unwrap_or_default(),
                missing,
            }
        })
    }
}

/// Whether two calls belong together.
fn is_same(one: &Announcement, other: &Announcement) -> bool {
    let what = |call: &Announcement| (call.operation, call.dtype, call.elements, call.devices);
    what(one) == what(other)
}

impl Collective {
    fn new(call: Announcement, caller: usize, members: usize) -> Self {
        Self {
            call,
            caller,
            members: (0..members).map(|_| Member::default()).collect(),
            called: 0,
            begun: 0,
            ended: 0,
            failure: None,
            spread: Vec::new(),
        }
    }

    /// Moves the bytes of a call whose parts have all begun: no part ends before that, except in a broadcast, whose root
    /// keeps a copy.
    fn move_data(&mut self, member: usize, moves_data: bool) -> Result<(), String> {
        if !moves_data {
            return Ok(());
        }
        let have_all_begun = self.begun == self.members.len();
        let mut parts = self.members.iter_mut().map(|state| state.part.as_mut());
        match self.call.operation {
            Operation::Broadcast { root } if root == member => {
                let root = parts.nth(root).flatten();
                if let Some(part) = root {
                    self.spread = part.memory()?.input.unwrap_or_default().to_vec();
                }
                Ok(())
            }
            Operation::Broadcast { .. } => Ok(()),
            _ if have_all_begun => self.call.carry_out(parts.flatten()),
            _ => Ok(()),
        }
    }

    /// Writes the bytes of a broadcast to a part that ends.
    fn receive(&self, part: &mut NetworkPart) -> Result<(), String> {
        if let Operation::Broadcast { .. } = self.call.operation
            && !self.spread.is_empty()
            && let Some(output) = part.memory()?.output
        {
            output.copy_from_slice(&self.spread);
        }
        Ok(())
    }
}
