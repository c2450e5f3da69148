//! Credit that an awaited call has been granted so far: see `when_room`.

use std::sync::Arc;

use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, lock};
use smallvec::SmallVec;

use crate::Room;

/// Credit that a call has been granted, and what the last attempt was short of.
#[derive(Default)]
pub(crate) struct Purse(Mutex<Holdings>);

#[derive(Default)]
struct Holdings {
    rooms: SmallVec<[Granted; 2]>,
    lacks: Option<Lack>,
}

/// Credit that is held for the call, so that no other caller can take it.
struct Granted {
    credit: Arc<Credit>,
    amount: u64,
}

/// A credit, and the amount of it that a call was short of.
pub(super) type Lack = (Arc<Credit>, u64);

impl Purse {
    /// Spends `amount` of the granted `credit`; if less was granted, notes the shortfall and returns `false`.
    pub(super) fn spend(&self, credit: &Arc<Credit>, amount: u64) -> bool {
        let mut holdings = lock(&self.0);
        match holdings.of(credit) {
            Some(granted) if granted.amount >= amount => {
                granted.amount -= amount;
                true
            }
            _ => {
                holdings.lacks = Some((credit.clone(), amount));
                false
            }
        }
    }

    /// Tops the grant of `credit` up to `amount`; if there is not enough, notes the shortfall and returns `false`.
    pub(super) fn reserve(&self, credit: &Arc<Credit>, amount: u64) -> bool {
        let mut holdings = lock(&self.0);
        let has = holdings.of(credit).map_or(0, |granted| granted.amount);
        let missing = amount.saturating_sub(has);
        let fits = missing == 0 || credit.try_acquire(missing).is_ok();
        match fits {
            true => holdings.add(credit, missing),
            false => holdings.lacks = Some((credit.clone(), amount)),
        }
        fits
    }

    /// Adds credit that was acquired.
    pub(super) fn put(&self, credit: &Arc<Credit>, amount: u64) {
        lock(&self.0).add(credit, amount);
    }

    /// Takes the noted shortfall.
    pub(super) fn take_lack(&self) -> Option<Lack> {
        lock(&self.0).lacks.take()
    }

    /// Releases the grants of the credits for which `of` is true. Releasing wakes other callers, so it happens after
    /// the lock.
    pub(super) fn give_back(&self, of: impl Fn(&Arc<Credit>) -> bool) {
        let mut back: SmallVec<[Room; 2]> = SmallVec::new();
        lock(&self.0).rooms.retain(|granted| {
            let goes = of(&granted.credit);
            if goes && granted.amount > 0 {
                back.push(Room::taken(&granted.credit, granted.amount));
            }
            !goes
        });
        drop(back);
    }
}

impl Holdings {
    fn of(&mut self, credit: &Arc<Credit>) -> Option<&mut Granted> {
        let is_it = |granted: &&mut Granted| Arc::ptr_eq(&granted.credit, credit);
        self.rooms.iter_mut().find(is_it)
    }

    fn add(&mut self, credit: &Arc<Credit>, amount: u64) {
        match self.of(credit) {
            Some(granted) => granted.amount += amount,
            None => self.rooms.push(Granted {
                credit: credit.clone(),
                amount,
            }),
        }
    }
}
