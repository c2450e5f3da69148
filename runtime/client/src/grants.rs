//! Credit that an awaited call has been granted so far: see `when_ready`.

use std::sync::Arc;

use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, lock};
use smallvec::SmallVec;

use crate::Permit;

/// Credit that a call has been granted, and what the last attempt was short of.
#[derive(Default)]
pub(crate) struct Grants(Mutex<GrantList>);

#[derive(Default)]
struct GrantList {
    grants: SmallVec<[Grant; 2]>,
    shortfall: Option<Shortfall>,
}

/// Credit that is held for the call, so that no other caller can take it.
struct Grant {
    credit: Arc<Credit>,
    amount: u64,
}

/// A credit, and the amount of it that a call was short of.
pub(super) type Shortfall = (Arc<Credit>, u64);

impl Grants {
    /// Spends `amount` of the granted `credit`; if less was granted, notes the shortfall and returns `false`.
    pub(super) fn spend(&self, credit: &Arc<Credit>, amount: u64) -> bool {
        let mut list = lock(&self.0);
        match list.of(credit) {
            Some(grant) if grant.amount >= amount => {
                grant.amount -= amount;
                true
            }
            _ => {
                list.shortfall = Some((credit.clone(), amount));
                false
            }
        }
    }

    /// Adds credit that was acquired.
    pub(super) fn add(&self, credit: &Arc<Credit>, amount: u64) {
        lock(&self.0).insert(credit, amount);
    }

    /// Takes the noted shortfall.
    pub(super) fn take_shortfall(&self) -> Option<Shortfall> {
        lock(&self.0).shortfall.take()
    }

    /// Releases the grants of the credits for which `of` is true. Releasing wakes other callers, so it happens after
    /// the lock.
    pub(super) fn release(&self, of: impl Fn(&Arc<Credit>) -> bool) {
        let mut permits: SmallVec<[Permit; 2]> = SmallVec::new();
        lock(&self.0).grants.retain(|grant| {
            let matches = of(&grant.credit);
            if matches && grant.amount > 0 {
                permits.push(Permit::new(&grant.credit, grant.amount));
            }
            !matches
        });
        drop(permits);
    }
}

impl GrantList {
    fn of(&mut self, credit: &Arc<Credit>) -> Option<&mut Grant> {
        let is_credit = |grant: &&mut Grant| Arc::ptr_eq(&grant.credit, credit);
        self.grants.iter_mut().find(is_credit)
    }

    fn insert(&mut self, credit: &Arc<Credit>, amount: u64) {
        match self.of(credit) {
            Some(grant) => grant.amount += amount,
            None => self.grants.push(Grant {
                credit: credit.clone(),
                amount,
            }),
        }
    }
}
