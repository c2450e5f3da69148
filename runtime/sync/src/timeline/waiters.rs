//! The waiters of a timeline: a binary heap by target, with removal from the middle.
//!
//! The heap is one vector with the next waiter to wake at its head; a second vector has the
//! position of each slot's entry in the heap. Inserting, removing and waking move at most as many
//! entries as the heap is deep. In the steady state nothing is allocated: both vectors keep their
//! capacity (I9), up to a limit.
//!
//! Plain data, guarded by the timeline's lock.

use crate::wait::Waiter;

/// The number of waiters whose capacity is kept once the heap is empty; more is freed.
const CAPACITY_KEPT: usize = 1_024;

/// A registered waker of a timeline, to be cancelled or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "cancel the registration when it is no longer needed"]
pub struct WaitKey {
    slot: usize,
    /// Distinguishes the entries that used the slot one after the other.
    ticket: u64,
}

struct Entry {
    target: u64,
    /// Unique and ascending: of equal targets, the first to register is woken first.
    ticket: u64,
    slot: usize,
    waiter: Waiter,
}

impl Entry {
    fn is_before(&self, other: &Self) -> bool {
        (self.target, self.ticket) < (other.target, other.ticket)
    }
}

#[derive(Default)]
pub(super) struct Waiters {
    next_ticket: u64,
    /// No entry comes before its parent, which is at `(index - 1) / 2`.
    heap: Vec<Entry>,
    /// For a used slot the index of its entry in `heap`, for a vacant one the next vacant slot.
    places: Vec<usize>,
    /// The first vacant slot, if there are more slots than entries.
    vacant: usize,
    /// The number of comparisons so far: the tests count them instead of time.
    #[cfg(test)]
    compared: u64,
}

impl Waiters {
    /// Inserts a waiter.
    pub(super) fn insert(&mut self, target: u64, waiter: Waiter) -> WaitKey {
        let (ticket, place) = (self.next_ticket, self.heap.len());
        self.next_ticket += 1;
        let slot = self.take_slot();
        self.heap.push(Entry {
            target,
            ticket,
            slot,
            waiter,
        });
        self.places[slot] = place;
        self.sift_up(place);
        WaitKey { slot, ticket }
    }

    /// Removes a waiter, unless it has been woken.
    pub(super) fn remove(&mut self, key: WaitKey) -> Option<Waiter> {
        let place = self.place(key)?;
        Some(self.remove_at(place))
    }

    /// Removes the next waiter to wake, if its target is reached.
    pub(super) fn pop_reached(&mut self, cursor: u64) -> Option<Waiter> {
        let next = self.heap.first()?;
        (next.target <= cursor).then(|| self.remove_at(0))
    }

    /// Returns a waiter that has not been woken.
    pub(super) fn get_mut(&mut self, key: WaitKey) -> Option<&mut Waiter> {
        let place = self.place(key)?;
        Some(&mut self.heap[place].waiter)
    }

    /// Returns the least target.
    pub(super) fn next_target(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.target)
    }

    /// Returns the position of this key's entry in the heap. A vacant slot's value never matches:
    /// tickets are unique.
    fn place(&self, key: WaitKey) -> Option<usize> {
        let place = *self.places.get(key.slot)?;
        let entry = self.heap.get(place)?;
        (entry.ticket == key.ticket).then_some(place)
    }

    fn take_slot(&mut self) -> usize {
        if self.places.len() == self.heap.len() {
            self.places.push(self.heap.len());
            return self.heap.len();
        }
        let slot = self.vacant;
        self.vacant = self.places[slot];
        slot
    }

    fn remove_at(&mut self, place: usize) -> Waiter {
        let removed = self.heap.swap_remove(place);
        self.places[removed.slot] = self.vacant;
        self.vacant = removed.slot;
        if let Some(moved) = self.heap.get(place) {
            self.places[moved.slot] = place;
            // The moved entry comes from another branch: it may belong above or below.
            if !self.sift_up(place) {
                self.sift_down(place);
            }
        } else if self.heap.is_empty() && self.places.len() > CAPACITY_KEPT {
            self.free_capacity();
        }
        removed.waiter
    }

    /// Moves an entry up to its position; returns `true` if it moved.
    fn sift_up(&mut self, mut place: usize) -> bool {
        let start = place;
        while place > 0 && self.is_before(place, (place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        place != start
    }

    /// Moves an entry down to its position.
    fn sift_down(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let child = match right < self.heap.len() && self.is_before(right, left) {
                true => right,
                false => left,
            };
            if child >= self.heap.len() || !self.is_before(child, place) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn is_before(&mut self, one: usize, other: usize) -> bool {
        #[cfg(test)]
        {
            self.compared += 1;
        }
        self.heap[one].is_before(&self.heap[other])
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.places[self.heap[one].slot] = one;
        self.places[self.heap[other].slot] = other;
    }

    /// Frees the capacity of a large heap that is empty. Tickets go on, so no old key finds a new entry.
    #[cold]
    fn free_capacity(&mut self) {
        self.heap = Vec::new();
        self.places = Vec::new();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::task::Waker;

    /// As many waiters as a busy service may have at once. Under Miri each access of a slice costs
    /// its length.
    const WAITERS: u64 = if cfg!(miri) { 256 } else { 100_000 };

    fn waiter() -> Waiter {
        Waiter::Task(Waker::noop().clone())
    }

    /// The numbers below `WAITERS` in an order without pattern: the multiplier is coprime to it.
    fn shuffled() -> impl Iterator<Item = u64> {
        (0..WAITERS).map(|i| i * 70_001 % WAITERS)
    }

    /// The heap is less than 17 deep here; a step compares at most twice a level.
    fn assert_few_steps(waiters: &Waiters, operations: u64) {
        let most = operations * 2 * 17;
        assert!(waiters.compared <= most, "{} compared", waiters.compared);
    }

    fn pop_all(waiters: &mut Waiters) -> Vec<(u64, u64)> {
        let next = |waiters: &Waiters| waiters.heap.first().map(|e| (e.target, e.ticket));
        std::iter::from_fn(|| {
            let popped = next(waiters)?;
            waiters.pop_reached(u64::MAX).map(|_| popped)
        })
        .collect()
    }

    #[test]
    fn many_waiters_are_woken_in_order_in_few_steps() {
        let mut waiters = Waiters::default();
        for target in shuffled() {
            let _ = waiters.insert(target, waiter());
        }
        let woken: Vec<_> = pop_all(&mut waiters).iter().map(|woken| woken.0).collect();
        assert_eq!(woken, (0..WAITERS).collect::<Vec<_>>());
        assert_few_steps(&waiters, 2 * WAITERS);
        if WAITERS as usize > CAPACITY_KEPT {
            assert_eq!(waiters.heap.capacity() + waiters.places.capacity(), 0);
        }
    }

    #[test]
    fn many_waiters_are_cancelled_in_another_order_in_few_steps() {
        let mut waiters = Waiters::default();
        let keys: Vec<_> = shuffled().map(|t| waiters.insert(t, waiter())).collect();
        // Every other one, neither in the order of registration nor in that of the targets.
        for at in shuffled().filter(|at| at % 2 == 0) {
            assert!(waiters.remove(keys[at as usize]).is_some());
            assert!(waiters.remove(keys[at as usize]).is_none(), "once");
        }
        let mut left: Vec<_> = shuffled().skip(1).step_by(2).collect();
        left.sort_unstable();
        let woken: Vec<_> = pop_all(&mut waiters).iter().map(|woken| woken.0).collect();
        assert_eq!(woken, left);
        assert_few_steps(&waiters, 2 * WAITERS);
    }

    #[test]
    fn equal_targets_are_woken_in_the_order_of_registration() {
        let mut waiters = Waiters::default();
        let keys: Vec<_> = (0..100).map(|i| waiters.insert(i % 3, waiter())).collect();
        waiters.remove(keys[4]);
        let woken = pop_all(&mut waiters);
        assert!(woken.is_sorted() && woken.len() == 99);
    }

    #[test]
    fn an_old_key_does_not_find_the_next_entry_of_its_slot() {
        let mut waiters = Waiters::default();
        let old = waiters.insert(1, waiter());
        waiters.remove(old);
        let new = waiters.insert(1, waiter());
        assert_eq!((old.slot, new.slot), (0, 0), "the slot is reused");
        assert!(waiters.get_mut(old).is_none() && waiters.remove(old).is_none());
        assert!(waiters.get_mut(new).is_some());
    }

    /// I9: the capacity for a few waiters is allocated once.
    #[test]
    fn a_few_waiters_allocate_once() {
        let mut waiters = Waiters::default();
        let mut capacity = None;
        for round in 0..1_000 {
            let keys = [0, 1, 2, 3].map(|i| waiters.insert(round + i, waiter()));
            waiters.remove(keys[(round % 4) as usize]);
            while waiters.pop_reached(u64::MAX).is_some() {}
            let now = (waiters.heap.as_ptr(), waiters.places.as_ptr());
            assert_eq!(*capacity.get_or_insert(now), now);
        }
        assert_eq!(waiters.places.len(), 4);
    }
}
