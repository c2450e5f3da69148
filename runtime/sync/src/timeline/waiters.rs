//! Who waits on a timeline: a heap by target whose entries can be taken out from the middle.
//!
//! A binary heap in one vector, the next to be woken first, and beside it where in the heap each slot's
//! entry lies at the moment. Entering, taking out and waking move at most as many entries as the heap is
//! deep, and in the steady state nothing is allocated: both vectors keep their room (I9), up to a limit.
//!
//! Plain data, guarded by the timeline's lock.

use crate::wait::Waiter;

/// Room for so many waiters is kept when nobody waits any more; what a crowd beyond it needed is given back.
const ROOM_KEPT: usize = 1_024;

/// A place in a timeline's list, to be cancelled or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "cancel the registration when it is not needed any more"]
pub struct WaitKey {
    slot: usize,
    /// Tells apart those who have had the slot, one after the other.
    ticket: u64,
}

struct Entry {
    target: u64,
    /// Unique, and ascending: of equal targets the first to come is woken first.
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
    /// No entry comes before its parent, the one at `(index - 1) / 2`.
    heap: Vec<Entry>,
    /// Of a taken slot the index of its entry in `heap`, of a vacant one the next vacant slot.
    places: Vec<usize>,
    /// The first vacant slot, where there are more slots than entries.
    vacant: usize,
    /// Entries compared so far: what the tests count instead of time.
    #[cfg(test)]
    compared: u64,
}

impl Waiters {
    /// Enters a waiter.
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
        self.rise(place);
        WaitKey { slot, ticket }
    }

    /// Takes a waiter out, unless it has been woken.
    pub(super) fn remove(&mut self, key: WaitKey) -> Option<Waiter> {
        let place = self.place(key)?;
        Some(self.remove_at(place))
    }

    /// Takes out the next to be woken, if its target is reached.
    pub(super) fn pop_reached(&mut self, cursor: u64) -> Option<Waiter> {
        let next = self.heap.first()?;
        (next.target <= cursor).then(|| self.remove_at(0))
    }

    /// A waiter that has not been woken.
    pub(super) fn get_mut(&mut self, key: WaitKey) -> Option<&mut Waiter> {
        let place = self.place(key)?;
        Some(&mut self.heap[place].waiter)
    }

    /// The least target.
    pub(super) fn next_target(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.target)
    }

    /// Where in the heap the entry of this key is. What a vacant slot says is no entry's ticket.
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
            // Out of another branch it may belong above as well as below.
            if !self.rise(place) {
                self.sink(place);
            }
        } else if self.heap.is_empty() && self.places.len() > ROOM_KEPT {
            self.give_back();
        }
        removed.waiter
    }

    /// Moves an entry up to where it belongs and says whether it moved.
    fn rise(&mut self, mut place: usize) -> bool {
        let start = place;
        while place > 0 && self.is_before(place, (place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        place != start
    }

    /// Moves an entry down to where it belongs.
    fn sink(&mut self, mut place: usize) {
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

    /// Gives back the room of a crowd that is gone. Tickets go on, so no old key finds a new entry.
    #[cold]
    fn give_back(&mut self) {
        self.heap = Vec::new();
        self.places = Vec::new();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::task::Waker;

    /// As many as a busy service may await at once. Under Miri each look at a slice costs its length.
    const CROWD: u64 = if cfg!(miri) { 256 } else { 100_000 };

    fn waiter() -> Waiter {
        Waiter::Task(Waker::noop().clone())
    }

    /// The numbers below `CROWD` in an order without pattern: the multiplier is odd and no divisor of it.
    fn shuffled() -> impl Iterator<Item = u64> {
        (0..CROWD).map(|i| i * 70_001 % CROWD)
    }

    /// A heap is less than 17 deep here, a step compares at most twice a level.
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
    fn a_crowd_is_woken_in_order_in_few_steps() {
        let mut waiters = Waiters::default();
        for target in shuffled() {
            let _ = waiters.insert(target, waiter());
        }
        let woken: Vec<_> = pop_all(&mut waiters).iter().map(|woken| woken.0).collect();
        assert_eq!(woken, (0..CROWD).collect::<Vec<_>>());
        assert_few_steps(&waiters, 2 * CROWD);
        if CROWD as usize > ROOM_KEPT {
            assert_eq!(waiters.heap.capacity() + waiters.places.capacity(), 0);
        }
    }

    #[test]
    fn a_crowd_is_cancelled_in_another_order_in_few_steps() {
        let mut waiters = Waiters::default();
        let keys: Vec<_> = shuffled().map(|t| waiters.insert(t, waiter())).collect();
        // Every other one, in an order that is neither that of coming nor that of the targets.
        for at in shuffled().filter(|at| at % 2 == 0) {
            assert!(waiters.remove(keys[at as usize]).is_some());
            assert!(waiters.remove(keys[at as usize]).is_none(), "once");
        }
        let mut left: Vec<_> = shuffled().skip(1).step_by(2).collect();
        left.sort_unstable();
        let woken: Vec<_> = pop_all(&mut waiters).iter().map(|woken| woken.0).collect();
        assert_eq!(woken, left);
        assert_few_steps(&waiters, 2 * CROWD);
    }

    #[test]
    fn of_equal_targets_the_first_to_come_is_woken_first() {
        let mut waiters = Waiters::default();
        let keys: Vec<_> = (0..100).map(|i| waiters.insert(i % 3, waiter())).collect();
        waiters.remove(keys[4]);
        let woken = pop_all(&mut waiters);
        assert!(woken.is_sorted() && woken.len() == 99);
    }

    #[test]
    fn an_old_key_finds_nobody_who_came_later() {
        let mut waiters = Waiters::default();
        let old = waiters.insert(1, waiter());
        waiters.remove(old);
        let new = waiters.insert(1, waiter());
        assert_eq!((old.slot, new.slot), (0, 0), "the slot is used again");
        assert!(waiters.get_mut(old).is_none() && waiters.remove(old).is_none());
        assert!(waiters.get_mut(new).is_some());
    }

    /// I9: what few need is there from the first time on.
    #[test]
    fn few_waiters_take_no_room_anew() {
        let mut waiters = Waiters::default();
        let mut room = None;
        for round in 0..1_000 {
            let keys = [0, 1, 2, 3].map(|i| waiters.insert(round + i, waiter()));
            waiters.remove(keys[(round % 4) as usize]);
            while waiters.pop_reached(u64::MAX).is_some() {}
            let now = (waiters.heap.as_ptr(), waiters.places.as_ptr());
            assert_eq!(*room.get_or_insert(now), now);
        }
        assert_eq!(waiters.places.len(), 4);
    }
}
