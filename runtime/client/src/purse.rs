//! What a call that awaits room has been granted so far: see `when_room`.

use std::sync::Arc;

use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, lock};
use smallvec::SmallVec;

use crate::Room;

/// What a call has been granted, and what it lacked when it was tried last.
#[derive(Default)]
pub(crate) struct Purse(Mutex<Holdings>);

#[derive(Default)]
struct Holdings {
    rooms: SmallVec<[Granted; 2]>,
    lacks: Option<Lack>,
}

/// Credit that no other caller can take.
struct Granted {
    credit: Arc<Credit>,
    amount: u64,
}

/// A credit, and the amount of it that was asked for.
pub(super) type Lack = (Arc<Credit>, u64);

impl Purse {
    /// Takes `amount` of what was granted of `credit`; where there is less, it is noted as lacking.
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

    /// Makes sure that `amount` of `credit` can be spent; where it cannot, it is noted as lacking.
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

    /// Credit that was acquired is the purse's.
    pub(super) fn put(&self, credit: &Arc<Credit>, amount: u64) {
        lock(&self.0).add(credit, amount);
    }

    /// What lacked, once.
    pub(super) fn take_lack(&self) -> Option<Lack> {
        lock(&self.0).lacks.take()
    }

    /// Gives back what was granted of those credits. It wakes others, and is done outside of the lock.
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
