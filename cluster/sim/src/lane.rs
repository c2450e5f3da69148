//! The calls of a group that follow each other: its collectives, or the transfers from one member to another.
//!
//! ```text
//!  collective:  all members have called ──► the member's data is ready ──► wake ──► its actions ──► wake ──► its part ends
//!  short send:  its data is ready ──► wake ──► message ──► arrives ──► the receiver is ready ──► wake ──► it ends
//!  long send:   both are ready ──► wake, and one latency for the receiver's answer ──► message, as above
//! ```
//! As on a real network, the ranks compare what they call before the data of a collective moves, so a member's messages
//! wait for the calls of all others. A transfer is a call of two members with one message. Its sender ends when the bytes
//! are copied if they are few, and otherwise when they have left. If its part fails, the message says so.

use std::collections::VecDeque;
use std::ops::Range;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, NetworkPart, Operation};

use crate::call::Call;
use crate::event::{Event, Happening, Kind, Outcome, Step};
use crate::machine::bytes_ns;
use crate::rounds::{Action, actions, receive, send};
use crate::stall::Waiting;
use crate::wires::Wires;

/// The places of a transfer.
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// The calls of a lane, which each place makes in the same order. The places of a collective are the members of the group,
/// those of a transfer the sender and the receiver.
pub(crate) struct Lane {
    group: usize,
    kind: Kind,
    /// By place: the rank in the cluster.
    ranks: Vec<usize>,
    /// By place: the number of its calls.
    called: Vec<u64>,
    /// The number of the first call that is in flight.
    first: u64,
    calls: VecDeque<Call>,
}

impl Lane {
    pub(crate) fn new(group: usize, kind: Kind, ranks: &[usize]) -> Self {
        let ranks = match kind {
            None => ranks.to_vec(),
            Some((from, to)) => vec![ranks[from], ranks[to]],
        };
        Self {
            group,
            kind,
            called: vec![0; ranks.len()],
            ranks,
            first: 0,
            calls: VecDeque::new(),
        }
    }

    /// A place makes its next call. Returns the number of the call.
    pub(crate) fn announce(&mut self, wires: &mut Wires, place: usize, what: Announcement) -> u64 {
        let (number, places) = (self.called[place], self.ranks.len());
        self.called[place] += 1;
        let index = (number - self.first) as usize;
        if index == self.calls.len() {
            self.calls.push_back(Call::new(place, places));
        }
        let call = &mut self.calls[index];
        call.called += 1;
        call.places[place].call = Some(what);
        let is_complete = call.called == places;
        let caller = call.caller;
        let first = call.places[caller].call.unwrap_or(what);
        if let Some((name, message)) = self.mismatch((caller, &first), (place, &what)) {
            let reason = Reason::Remote(Remote::Mismatch { message });
            self.fail(wires, number, Failure::not_run(&name.into(), reason));
        } else if self.kind.is_none() && is_complete {
            self.start(wires, number, 0..places);
        }
        number
    }

    /// Returns what two places called, unless it is the same, and the name of the call that fails.
    fn mismatch(
        &self,
        (caller, first): (usize, &Announcement),
        (place, call): (usize, &Announcement),
    ) -> Option<(&'static str, String)> {
        let data = |call: &Announcement| (call.dtype, call.elements);
        let what = |call: &Announcement| (call.operation, call.devices);
        let has_same_data = data(first) == data(call);
        match self.kind {
            None if has_same_data && what(first) == what(call) => None,
            None => {
                let (one, other) = (first.place, call.place);
                let message = format!(
                    "rank {caller} called {first} at {one}, and rank {place} {call} at {other}"
                );
                Some((first.name, message))
            }
            Some(_) if has_same_data => None,
            Some((from, to)) => {
                let (sent, received) = match place {
                    SENDER => (call, first),
                    _ => (first, call),
                };
                let message = format!(
                    "rank {from} sends {sent} at {}, and rank {to} receives {received} at {}",
                    sent.place, received.place
                );
                Some((received.name, message))
            }
        }
    }

    /// The part of a place begins, or cannot.
    pub(crate) fn begin(&mut self, wires: &mut Wires, number: u64, place: usize, part: Outcome) {
        let is_transfer = self.kind.is_some();
        let Some(call) = self.index(number).map(|index| &mut self.calls[index]) else {
            return;
        };
        call.begun += 1;
        call.places[place].has_begun = true;
        let cause = match part {
            Ok(part) if is_transfer || call.failure.is_none() => {
                call.places[place].part = Some(part);
                match wires.moves_data {
                    true => call.take_data(place),
                    false => None,
                }
            }
            Ok(part) => {
                call.ended += 1;
                wires.end(self.ranks[place], part, call.failure.clone());
                None
            }
            // The sender of a receiver that fails ends as if the bytes had been received.
            Err(cause) if is_transfer => (place == SENDER).then_some(cause),
            Err(cause) => {
                call.ended += 1;
                Some(cause)
            }
        };
        if let Some(cause) = cause {
            self.fail(wires, number, cause);
        }
        // A long send waits for its receiver, too.
        let places = if is_transfer { 0..2 } else { place..place + 1 };
        self.start(wires, number, places);
        self.drop_ended();
    }

    pub(crate) fn step(&mut self, wires: &mut Wires, event: Event) {
        let Event { number, place, .. } = event;
        let (is_transfer, rank) = (self.kind.is_some(), self.ranks[place]);
        let Some(call) = self.index(number).map(|index| &mut self.calls[index]) else {
            return;
        };
        let state = &mut call.places[place];
        match event.step {
            Step::Goes => self.go(wires, event),
            Step::Arrives(tag) => {
                state.arrived |= 1 << tag;
                if std::mem::take(&mut state.waits) {
                    self.go(wires, event);
                }
            }
            Step::Sends(..) if wires.has_ended[rank] => {}
            Step::Sends(to, bytes, tag) => {
                // A part that has failed sends the failure instead of its bytes.
                let bytes = state.part.as_ref().map_or(0, |_| bytes);
                let arrives = Event { place: to, ..event }.then(Step::Arrives(tag));
                let left_ns = wires.send(rank, self.ranks[to], bytes, arrives);
                if is_transfer && bytes > wires.fabric.machine.eager_bytes {
                    wires.at(left_ns, event.then(Step::Goes));
                } else {
                    self.go(wires, event);
                }
            }
            Step::Ends => {
                let part = state.part.take();
                // A collective that has failed has no parts left.
                if part.is_none() && !is_transfer {
                    return;
                }
                call.ended += 1;
                if let Some(mut part) = part {
                    let failure = call.deliver(place, &mut part);
                    wires.end(rank, part, failure);
                }
                self.drop_ended();
            }
        }
    }

    /// Starts the actions of places that may begin with them now.
    fn start(&mut self, wires: &mut Wires, number: u64, places: Range<usize>) {
        let (group, lane, step) = (self.group, self.kind, Step::Goes);
        for place in places {
            if let Some((delay_ns, actions)) = self.actions(wires, number, place)
                && let Some(call) = self.call(number)
            {
                let state = &mut call.places[place];
                (state.has_started, state.actions) = (true, actions);
                let goes = Event {
                    group,
                    lane,
                    number,
                    place,
                    step,
                };
                wires.after(delay_ns, Happening::Of(goes));
            }
        }
    }

    /// Returns the actions of a place that may begin with them, and the time until then.
    fn actions(&self, wires: &Wires, number: u64, place: usize) -> Option<(u64, Vec<Action>)> {
        let call = self.calls.get(self.index(number)?)?;
        let state = &call.places[place];
        let what = state
            .call
            .filter(|_| state.has_begun && !state.has_started)?;
        let (machine, ranks, bytes) = (&wires.fabric.machine, &self.ranks, what.bytes() as u64);
        match what.operation {
            Operation::Receive { .. } => Some((0, vec![receive(0, SENDER, 0)])),
            Operation::Send { .. } => {
                let (from, to) = (ranks[SENDER], ranks[RECEIVER]);
                let may_answer = call.places[RECEIVER].has_begun && !wires.has_ended[to];
                let answer_ns = match bytes <= machine.eager_bytes {
                    true => 0,
                    false if may_answer => wires.fabric.latency_ns(to, from),
                    false => return None,
                };
                let delay_ns = machine.wake_ns.saturating_add(answer_ns);
                Some((delay_ns, vec![send(0, RECEIVER, bytes)]))
            }
            operation => {
                let is_ready = call.called == ranks.len() && state.part.is_some();
                if !is_ready || call.failure.is_some() {
                    return None;
                }
                let bytes = match operation {
                    Operation::AllGather | Operation::ReduceScatter(_) => {
                        bytes * ranks.len() as u64
                    }
                    _ => bytes,
                };
                let actions = actions(operation, (place, ranks.len()), bytes, machine.short_bytes);
                Some((machine.wake_ns, actions))
            }
        }
    }

    /// Goes on with the actions of a place until it waits, or until its thread is busy for some time.
    fn go(&mut self, wires: &mut Wires, event: Event) {
        let (rank, is_transfer) = (self.ranks[event.place], self.kind.is_some());
        let Some(call) = self.call(event.number) else {
            return;
        };
        if wires.has_ended[rank] && !is_transfer {
            return;
        }
        let state = &mut call.places[event.place];
        let machine = wires.fabric.machine;
        let message_ns = machine.message_ns;
        match state.actions.get(state.next).copied() {
            None => return wires.after(machine.wake_ns, event.then(Step::Ends)),
            Some(Action::Send { tag, to, bytes }) => {
                wires.after_work(rank, message_ns, event.then(Step::Sends(to, bytes, tag)));
            }
            Some(Action::Receive { tag, .. }) if state.arrived & (1 << tag) == 0 => {
                state.waits = true;
                return;
            }
            Some(Action::Receive { combined, .. }) => {
                let combined_ns = bytes_ns(combined, machine.combined_bytes_per_us);
                let ns = message_ns.saturating_add(combined_ns);
                wires.after_work(rank, ns, event.then(Step::Goes));
            }
        }
        state.next += 1;
    }

    /// Fails a call. Of a collective the parts that have begun end now, the others when they begin; of a transfer the
    /// receiver learns of it by the message.
    fn fail(&mut self, wires: &mut Wires, number: u64, cause: FailureRef) {
        let Some(call) = self.index(number).map(|index| &mut self.calls[index]) else {
            return;
        };
        if self.kind.is_none() {
            for (state, rank) in call.places.iter_mut().zip(&self.ranks) {
                if let Some(part) = state.part.take() {
                    call.ended += 1;
                    wires.end(*rank, part, Some(cause.clone()));
                }
            }
        }
        call.failure.get_or_insert(cause);
    }

    fn index(&self, number: u64) -> Option<usize> {
        let index = number.checked_sub(self.first)? as usize;
        (index < self.calls.len()).then_some(index)
    }

    fn call(&mut self, number: u64) -> Option<&mut Call> {
        let index = self.index(number)?;
        self.calls.get_mut(index)
    }

    /// Forgets the calls that have ended on all places.
    fn drop_ended(&mut self) {
        let places = self.ranks.len();
        while self
            .calls
            .pop_front_if(|call| call.ended == places)
            .is_some()
        {
            self.first += 1;
        }
    }

    /// Takes the parts of all calls, which are forgotten, with their ranks in the cluster.
    pub(crate) fn take_all(&mut self) -> Vec<(usize, NetworkPart)> {
        let calls = std::mem::take(&mut self.calls);
        let ranks = &self.ranks;
        let parts = calls.into_iter().flat_map(|call| {
            let places = ranks.iter().copied().zip(call.places);
            places.filter_map(|(rank, state)| Some((rank, state.part?)))
        });
        parts.collect()
    }

    /// Returns the number of calls that have not ended on all places.
    pub(crate) fn in_flight(&self) -> usize {
        self.calls.len()
    }

    /// Returns the calls for which a place waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let member = |place: usize| match self.kind {
            Some((from, to)) => [from, to][place],
            None => place,
        };
        self.calls.iter().filter_map(move |call| {
            let waits = call.places.iter().position(|it| it.part.is_some())?;
            let missing = call.places.iter().position(|it| it.call.is_none());
            let what = call.places[waits].call?;
            let name = match self.kind {
                Some(_) => format!("`{}` of ", what.name),
                None => String::new(),
            };
            Some(Waiting {
                call: format!("{name}{what} at {}", what.place),
                rank: member(waits),
                missing: missing.map(member),
            })
        })
    }
}
