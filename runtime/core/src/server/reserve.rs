//! Reserving: who gets memory, who waits for it, and who is told that there is none.
//!
//! A stream that waits (is *hungry*) goes first: later reservations may only take what was clean when
//! it began to wait, never what has come back since. The oldest fails only once nothing that came
//! before can free memory any more (I6).

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::backend::Backend;
use crate::failure::{Failure, FailureRef, Reason};
use crate::hazard::log::AccessLog;
use crate::id::Point;
use crate::memory::{AllocationMode, ReserveError};
use crate::message::{Op, Task};
use crate::slice::Memory;
use crate::stream::actor::Parked;

use super::Server;
use super::issue::Issued;
use super::progress::Pages;

/// Whether a reservation has waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// Its slice has just become known: nobody else has named it.
    Fresh,
    /// It was parked; tasks of other streams may wait for it.
    Parked,
}

impl<B: Backend> Server<B> {
    /// Gives a slice its memory, or says that there is none now.
    ///
    /// A stream that is hungry already goes first: later reservations may only take what was clean
    /// when it began to wait, never what has come back since.
    ///
    /// A fresh slice may take a range that is still used where its stream's queue comes after that use
    /// anyway, and inherits it. One that waited takes only clean memory: its log has entries already.
    pub(super) fn reserve(
        &mut self,
        slice: u32,
        stream: u32,
        mode: Option<AllocationMode>,
        patience: Patience,
    ) -> Result<(), ReserveError> {
        let (bytes, id) = (
            self.slices[slice as usize].bytes(),
            self.slices[slice as usize].id,
        );
        let Some(mode) = mode.filter(|_| bytes > 0) else {
            self.slices[slice as usize].memory = Memory::None(bytes);
            return Ok(());
        };
        let goes_first = patience == Patience::Parked && self.hungry.front() == Some(&stream);
        if !self.hungry.is_empty() && !goes_first && bytes > self.hungry_budget {
            return Err(ReserveError::OutOfMemory {
                asked: bytes,
                reserved: 0,
                free: None,
                waiting: 0,
            });
        }
        let queue = self.streams[stream as usize].queue;
        let state = &self.queues;
        let covered = |point: Point| {
            state[point.queue.index()].completed >= point.cursor
                || (patience == Patience::Fresh
                    && (point.queue == queue || state[queue.index()].clock.covers(point)))
        };
        let mut pages = Pages(&mut self.backend, &mut self.loss);
        let (reservation, residue) = self
            .pools
            .reserve(&mut pages, bytes, mode, queue, &covered)?;
        if !self.hungry.is_empty() {
            self.hungry_budget = self.hungry_budget.saturating_sub(reservation.bytes);
        }
        self.backend
            .slice_reserved(id, Some(reservation.page), reservation.offset, bytes);
        self.log_memory("reserved", reservation.bytes);
        let slice = &mut self.slices[slice as usize];
        self.accounts.charge(slice.client, reservation.bytes);
        if patience == Patience::Fresh {
            slice.log = AccessLog::with_residue(bytes, &residue);
        }
        slice.memory = Memory::Reserved(reservation);
        Ok(())
    }

    /// Makes a fresh slice known and gives it its memory. Says whether that settled the matter; else the
    /// reservation is to wait.
    pub(super) fn admit_reserve(&mut self, stream: u32, message: &mut Task) -> bool {
        let (
            Op::Reserve {
                client,
                mode,
                position,
            },
            Some(binding),
        ) = (&mut message.op, message.bindings.first().copied())
        else {
            return true;
        };
        *position = self.messages;
        let (client, mode) = (*client, *mode);
        let slice = self.insert_slice(&binding, client);
        if let Some(failure) = self.withdrawn_reserve(message) {
            self.slices[slice as usize].memory = Memory::Failed(binding.len, failure);
            return true;
        }
        let granted = self.reserve(slice, stream, mode, Patience::Fresh).is_ok();
        if let Some(terms) = message.terms().filter(|_| granted) {
            terms.issued();
        }
        granted
    }

    /// The failure of a reservation that is not wanted any more.
    fn withdrawn_reserve(&mut self, task: &Task) -> Option<FailureRef> {
        let terms = task.terms()?;
        let reason = terms.withdrawn(self.now)?;
        terms.removed();
        self.counters.withdrawn += 1;
        Some(Failure::not_run(&self.names.reserve, reason))
    }

    /// Tries a reservation that had to wait.
    pub(super) fn issue_reserve(&mut self, stream: u32) -> Issued {
        let Some(held) = self.streams[stream as usize].held.front() else {
            return Issued::Empty;
        };
        let (Op::Reserve { mode, .. }, Some(binding)) =
            (&held.task.op, held.task.bindings.first().copied())
        else {
            return Issued::Empty;
        };
        let mode = *mode;
        let Some(slice) = self.links.slice(binding.slice) else {
            return Issued::Empty;
        };
        if held.task.extra.is_some()
            && let Some(held) = self.streams[stream as usize].held.pop_front()
        {
            let failure = self.withdrawn_reserve(&held.task);
            self.streams[stream as usize].held.push_front(held);
            if let Some(failure) = failure {
                let slice = &mut self.slices[slice as usize];
                slice.memory = Memory::Failed(slice.bytes(), failure);
                self.finish_in_software(stream);
                return Issued::Yes;
            }
        }
        match self.reserve(slice, stream, mode, Patience::Parked) {
            Ok(()) => {
                let held = self.streams[stream as usize].held.front();
                if let Some(terms) = held.and_then(|held| held.task.terms()) {
                    terms.issued();
                }
            }
            Err(ReserveError::OutOfMemory { .. }) => {
                self.streams[stream as usize].parked = Parked::Memory;
                self.wait_for_memory(stream);
                return Issued::Parked;
            }
            Err(error) => {
                let failure =
                    Failure::not_run(&self.names.reserve, Reason::Refused(error.to_string()));
                let slice = &mut self.slices[slice as usize];
                slice.memory = Memory::Failed(slice.bytes(), failure);
                self.counters.failures += 1;
            }
        }
        self.finish_in_software(stream);
        Issued::Yes
    }

    /// When the first reservation that waits for memory is to be given up.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = |stream: &u32| {
            let held = self.streams.get(*stream as usize)?.held.front()?;
            held.task.terms()?.deadline
        };
        self.hungry.iter().filter_map(deadline).min()
    }

    /// The stream waits for memory, behind those that asked before it, whenever they came to wait.
    fn wait_for_memory(&mut self, stream: u32) {
        if self.hungry.contains(&stream) {
            return;
        }
        if self.hungry.is_empty() {
            self.hungry_budget = self.spare_bytes(stream);
        }
        let asked_at = self.asked_at(stream);
        let place = self
            .hungry
            .iter()
            .take_while(|other| self.asked_at(**other) < asked_at)
            .count();
        self.hungry.insert(place, stream);
        self.counters.tasks_parked += 1;
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

    /// Tries the streams that wait for memory, oldest first. The oldest fails only once nothing that
    /// came before can free memory any more.
    pub(super) fn feed_hungry(&mut self) {
        while let Some(stream) = self.hungry.front().copied() {
            if !self.streams.contains(stream as usize) {
                self.hungry.pop_front();
                continue;
            }
            self.streams[stream as usize].parked = Parked::No;
            match self.issue_first(stream) {
                Issued::Parked if self.streams[stream as usize].parked == Parked::Memory => {
                    if self.memory_may_return() {
                        return;
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
            self.hungry_budget = self
                .hungry
                .front()
                .map_or(0, |next| self.spare_bytes(*next));
            if self.streams.contains(stream as usize) {
                self.join_turn(stream);
            }
        }
    }

    /// Can anything that was admitted already free memory without its user doing more?
    fn memory_may_return(&self) -> bool {
        self.pools.has_busy()
            || !self.early_drops.is_empty()
            || self.table.has_dropped()
            || (self.dropped_in_use > 0 && self.dropped_in_use > self.dropped_and_stuck())
    }

    /// How many dropped slices are held by tasks that wait, themselves or through others, for memory:
    /// they come back only after it does.
    fn dropped_and_stuck(&self) -> usize {
        // The first stuck sequence of each stream that has one.
        let mut stuck: HashMap<u32, u64> = HashMap::new();
        let mut open: Vec<(u32, u64)> = self
            .hungry
            .iter()
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
        let free = self
            .backend
            .properties()
            .memory_bytes
            .map(|all| all.saturating_sub(self.pools.usage().reserved));
        self.log_memory("not to be had", asked);
        let reason = Reason::OutOfMemory { asked, free };
        self.slices[slice as usize].memory =
            Memory::Failed(asked, Failure::not_run(&self.names.reserve, reason));
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
