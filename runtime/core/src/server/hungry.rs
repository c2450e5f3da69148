//! The hungry: streams that wait for memory, which of them gets it, and who is told that there is none.
//!
//! A stream that waits goes first: later reservations may only take what was clean when it began to wait,
//! never what has come back since. The oldest fails only once nothing that came before can free memory any
//! more (I6).
//!
//! **Soft limits.** An ask that would take its client above its soft limit goes behind all that would not,
//! however early it came. So it may wait for later ones; that this makes no circle is seen to by
//! [`Server::feed_hungry`]: waiting for memory ends once none can come back, and where what is to come back
//! lies behind asks above their limits, it is those that are given up.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::backend::Backend;
use crate::failure::{Failure, Reason};
use crate::message::Op;
use crate::stream::actor::Parked;

use super::Server;
use super::issue::Issued;
use super::reserve::Patience;

impl<B: Backend> Server<B> {
    /// When the first task that waits is to be given up: a reservation that finds no memory, or one of which a caller waits for
    /// the answer.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = |stream: &u32| {
            let held = self.streams.get(*stream as usize)?.held.front()?;
            held.task.terms()?.deadline()
        };
        let reservations = self.hungry.iter().filter_map(deadline);
        reservations.chain(self.askers.next_deadline()).min()
    }

    /// May this reservation take what is there, though others wait? If it comes before them, or leaves them
    /// what they need.
    #[cold]
    pub(super) fn may_take(&self, slice: u32, stream: u32, patience: Patience) -> bool {
        let Some(front) = self.hungry.front().copied() else {
            return true;
        };
        if patience == Patience::Parked && front == stream {
            return true;
        }
        match (self.goes_above(slice), self.waits_above(front)) {
            (false, true) => true,
            (true, false) => false,
            _ => self.slices[slice as usize].bytes() <= self.hungry_budget,
        }
    }

    /// Would the bytes of a slice that has none yet take its client above its soft limit?
    fn goes_above(&self, slice: u32) -> bool {
        let slice = &self.slices[slice as usize];
        self.accounts.of(slice.client).is_above_with(slice.bytes())
    }

    /// Would what a hungry stream waits for take its client above its soft limit?
    fn waits_above(&self, stream: u32) -> bool {
        self.awaited_slice(stream)
            .is_some_and(|slice| self.goes_above(slice))
    }

    /// The stream waits for memory, behind those that asked before it, whenever they came to wait.
    pub(super) fn wait_for_memory(&mut self, stream: u32) {
        if self.hungry.contains(&stream) {
            return;
        }
        let rank = self.rank(stream);
        let place = self
            .hungry
            .iter()
            .take_while(|other| self.rank(**other) < rank)
            .count();
        self.hungry.insert(place, stream);
        if place == 0 {
            self.reckon_budget();
        }
        self.counters.tasks_parked += 1;
    }

    /// What decides who of the hungry goes first: whether it goes above its soft limit, then who asked first.
    fn rank(&self, stream: u32) -> (bool, u64) {
        (self.waits_above(stream), self.asked_at(stream))
    }

    /// Puts the hungry in order again: what clients have has changed since.
    fn sort_hungry(&mut self) {
        let mut hungry = std::mem::take(&mut self.hungry);
        hungry
            .make_contiguous()
            .sort_by_key(|stream| self.rank(*stream));
        self.hungry = hungry;
    }

    /// The slice whose reservation a stream waits for.
    fn awaited_slice(&self, stream: u32) -> Option<u32> {
        let held = self.streams.get(stream as usize)?.held.front()?;
        self.links.slice(held.task.bindings.first()?.slice)
    }

    /// The mailbox position of the reservation that a stream waits for: who asked first gets memory first.
    fn asked_at(&self, stream: u32) -> u64 {
        let actor = self.streams.get(stream as usize);
        match actor
            .and_then(|actor| actor.held.front())
            .map(|held| &held.task.op)
        {
            Some(Op::Reserve { position, .. }) => *position,
            _ => 0,
        }
    }

    /// Tries the streams that wait for memory, oldest first, those that stay within their soft limits before
    /// others. The first fails only once nothing can free memory any more: neither what was admitted, nor
    /// giving up those that would go above their limits.
    ///
    /// Every turn of the loop takes one stream out of the line, or returns because memory will come back by
    /// itself.
    pub(super) fn feed_hungry(&mut self) {
        self.hungry
            .retain(|stream| self.streams.contains(*stream as usize));
        let first = self.hungry.front().copied();
        self.sort_hungry();
        if self.hungry.front().copied() != first {
            self.reckon_budget();
        }
        while let Some(stream) = self.hungry.front().copied() {
            self.streams[stream as usize].parked = Parked::No;
            match self.issue_first(stream) {
                Issued::Parked if self.streams[stream as usize].parked == Parked::Memory => {
                    if self.memory_may_return() {
                        return;
                    }
                    if let Some(above) = self.in_the_way() {
                        self.give_up(above);
                        continue;
                    }
                    self.starve(stream);
                }
                Issued::Full => {
                    self.streams[stream as usize].parked = Parked::Memory;
                    return;
                }
                _ => {}
            }
            self.hungry.pop_front();
            self.sort_hungry();
            self.reckon_budget();
            if self.streams.contains(stream as usize) {
                self.join_turn(stream);
            }
        }
        self.table.sink().releases.forget_wait();
    }

    /// What later reservations may take, for all that the first of the hungry needs.
    fn reckon_budget(&mut self) {
        self.hungry_budget = self
            .hungry
            .front()
            .map_or(0, |next| self.spare_bytes(*next));
    }

    /// While one that stays within its soft limit is about to fail: a hungry stream that would not, and behind
    /// which dropped memory lies. If it takes several of them to free any, the oldest.
    fn in_the_way(&self) -> Option<u32> {
        let first = self.hungry.front()?;
        if self.dropped_in_use == 0 || self.waits_above(*first) {
            return None;
        }
        let frees =
            |these: &dyn Fn(&u32) -> bool| self.dropped_in_use > self.dropped_and_stuck(these);
        let above = || {
            self.hungry
                .iter()
                .copied()
                .filter(|stream| self.waits_above(*stream))
        };
        above()
            .find(|stream| frees(&|other| other != stream))
            .or_else(|| {
                above()
                    .next()
                    .filter(|_| frees(&|other| !self.waits_above(*other)))
            })
    }

    /// A hungry stream that is not the first gets no memory.
    fn give_up(&mut self, stream: u32) {
        self.hungry.retain(|other| *other != stream);
        self.streams[stream as usize].parked = Parked::No;
        self.starve(stream);
        if self.streams.contains(stream as usize) {
            self.join_turn(stream);
        }
    }

    /// Can anything that was admitted already free memory without its user doing more?
    fn memory_may_return(&self) -> bool {
        self.pools.has_busy()
            || !self.early_drops.is_empty()
            // Tasks that can go have values to drop among them, and user code.
            || self.can_flush()
            || !self.host_turns.is_empty()
            // Before the look at the drops: what a release has let go of is among those.
            || self.table.sink().releases.are_open()
            || self.table.has_dropped()
            || (self.dropped_in_use > 0 && self.dropped_in_use > self.dropped_and_stuck(|_| true))
    }

    /// How many dropped slices are held by tasks that wait, themselves or through others, for memory that
    /// these hungry streams want: they come back only after it does.
    fn dropped_and_stuck(&self, these: impl Fn(&u32) -> bool) -> usize {
        // The first stuck sequence of each stream that has one.
        let mut stuck: HashMap<u32, u64> = HashMap::new();
        let mut open: Vec<(u32, u64)> = self
            .hungry
            .iter()
            .filter(|stream| these(stream))
            .filter_map(|key| Some((*key, self.streams.get(*key as usize)?.issued + 1)))
            .collect();
        while let Some((key, first)) = open.pop() {
            let known = stuck.entry(key).or_insert(u64::MAX);
            if *known <= first {
                continue;
            }
            *known = first;
            let waiters = &self.streams[key as usize].waiters;
            let behind = waiters
                .iter()
                .map(|Reverse(waiter)| waiter)
                .filter(|waiter| waiter.sequence >= first);
            open.extend(behind.map(|waiter| (waiter.stream, waiter.task)));
        }
        let mut dropped: HashSet<u32> = HashSet::new();
        for (key, first) in stuck {
            let actor = &self.streams[key as usize];
            let before = (first - actor.issued - 1) as usize;
            let bindings = actor
                .held
                .iter()
                .skip(before)
                .flat_map(|held| held.task.all_bindings());
            let slices = bindings.filter_map(|binding| self.links.slice(binding.slice));
            dropped.extend(slices.filter(|slice| self.slices[*slice as usize].dropped));
        }
        dropped.len()
    }

    /// The reservation that a stream waits for fails.
    fn starve(&mut self, stream: u32) {
        let Some(held) = self.streams[stream as usize].held.front() else {
            return;
        };
        let (Op::Reserve { .. }, Some(binding)) =
            (&held.task.op, held.task.bindings.first().copied())
        else {
            return;
        };
        let Some(slice) = self.links.slice(binding.slice) else {
            return;
        };
        let asked = self.slices[slice as usize].bytes();
        let usage = self.pools.usage();
        let all = self.backend.properties().memory_bytes;
        let free = all.map(|all| all.saturating_sub(usage.in_use + usage.busy));
        self.log_memory("not to be had", asked);
        let reason = Reason::OutOfMemory { asked, free };
        self.fail_slice(slice, Failure::not_run(&self.names.reserve, reason));
        self.counters.failures += 1;
        self.finish_in_software(stream);
    }

    /// Bytes that are free and that the oldest hungry stream does not need: what it asks is taken from what
    /// will return first, the rest of it from what is free now.
    fn spare_bytes(&self, oldest: u32) -> u64 {
        let usage = self.pools.usage();
        let limit = self.backend.properties().memory_bytes.unwrap_or(u64::MAX);
        let free = limit
            .saturating_sub(usage.in_use)
            .saturating_sub(usage.busy);
        let asked = self
            .awaited_slice(oldest)
            .map_or(0, |slice| self.slices[slice as usize].bytes());
        free.saturating_sub(asked.saturating_sub(usage.busy))
    }
}
