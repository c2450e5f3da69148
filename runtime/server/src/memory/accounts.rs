//! Bytes per client, for reports, and soft limits. Hard limits are kept elsewhere, where a client meets them.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;

use millstream_protocol::id::ClientId;
use millstream_protocol::report::ClientMemory;

/// What one client holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Bytes held now.
    pub in_use: u64,
    /// The most that it held.
    pub high_water: u64,
    /// How much it may hold before others go first.
    pub soft_limit: Option<u64>,
}

impl Account {
    /// The same, as it is told of `client`.
    pub fn memory_of(&self, client: ClientId) -> ClientMemory {
        let mut memory = ClientMemory::of(client);
        memory.in_use = self.in_use;
        memory.high_water = self.high_water;
        memory.soft_limit = self.soft_limit;
        memory
    }
}

impl Account {
    /// Would it be above its soft limit with `more` bytes?
    pub fn is_above_with(&self, more: u64) -> bool {
        let bytes = self.in_use.saturating_add(more);
        self.soft_limit.is_some_and(|limit| bytes > limit)
    }
}

/// The bytes of every client of a device.
///
/// A client that is there is kept from [`open`](Self::open) to [`close`](Self::close); one that is gone, for as
/// long as it holds something. So clients that come and go leave nothing here.
#[derive(Default, Debug)]
pub struct Accounts(HashMap<ClientId, Entry>);

#[derive(Default, Debug)]
struct Entry {
    account: Account,
    /// What the client is called, once it is known.
    name: Arc<str>,
    /// What its streams that are gone have done.
    tasks: u64,
    /// Is the client there?
    open: bool,
}

impl Accounts {
    /// No clients.
    pub fn new() -> Self {
        Self::default()
    }

    /// `client` is there, and is called so.
    pub fn open(&mut self, client: ClientId, name: Arc<str>) {
        let entry = self.0.entry(client).or_default();
        (entry.open, entry.name) = (true, name);
    }

    /// A stream of `client`, of so many tasks, is gone.
    pub fn stream_is_gone(&mut self, client: ClientId, tasks: u64) {
        if let Some(entry) = self.0.get_mut(&client) {
            entry.tasks += tasks;
        }
    }

    /// How much `client` may hold before others go first.
    pub fn limit(&mut self, client: ClientId, soft_limit: u64) {
        let account = &mut self.0.entry(client).or_default().account;
        account.soft_limit = Some(soft_limit);
    }

    /// `client` is gone.
    pub fn close(&mut self, client: ClientId) {
        if let hash_map::Entry::Occupied(mut entry) = self.0.entry(client) {
            entry.get_mut().open = false;
            if entry.get().account.in_use == 0 {
                entry.remove();
            }
        }
    }

    /// `client` holds `bytes` more. Says whether that took it above its soft limit.
    pub fn charge(&mut self, client: ClientId, bytes: u64) -> bool {
        let account = &mut self.0.entry(client).or_default().account;
        let crosses = account.is_above_with(bytes) && !account.is_above_with(0);
        account.in_use = account.in_use.saturating_add(bytes);
        account.high_water = account.high_water.max(account.in_use);
        crosses
    }

    /// `client` holds `bytes` less. Says whether it was above its soft limit with them.
    pub fn credit(&mut self, client: ClientId, bytes: u64) -> bool {
        let hash_map::Entry::Occupied(mut entry) = self.0.entry(client) else {
            debug_assert!(bytes == 0, "{client:?} gives back {bytes} and has nothing");
            return false;
        };
        let account = &mut entry.get_mut().account;
        let was_above = account.is_above_with(0);
        debug_assert!(
            account.in_use >= bytes,
            "{client:?} gives back {bytes} of {}",
            account.in_use
        );
        account.in_use = account.in_use.saturating_sub(bytes);
        if account.in_use == 0 && !entry.get().open {
            entry.remove();
        }
        was_above
    }

    /// Bytes that `client` holds.
    pub fn in_use(&self, client: ClientId) -> u64 {
        self.of(client).in_use
    }

    /// The most that `client` held.
    pub fn high_water(&self, client: ClientId) -> u64 {
        self.of(client).high_water
    }

    /// What `client` holds and held.
    pub fn of(&self, client: ClientId) -> Account {
        self.0
            .get(&client)
            .map(|entry| entry.account)
            .unwrap_or_default()
    }

    /// All clients that are there or hold something, in no order: what they are called, what they hold, and what their streams that are
    /// gone have done.
    pub fn all(&self) -> impl Iterator<Item = (ClientId, &Arc<str>, Account, u64)> {
        self.0
            .iter()
            .map(|(client, entry)| (*client, &entry.name, entry.account, entry.tasks))
    }

    /// All clients that have or had something, or have a soft limit, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, Account)> + '_ {
        self.0
            .iter()
            .map(|(client, entry)| (*client, entry.account))
            .filter(|(_, account)| account.high_water > 0 || account.soft_limit.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_stays_when_bytes_go() {
        let (a, b) = (ClientId(1), ClientId(2));
        let mut accounts = Accounts::new();
        accounts.charge(a, 100);
        accounts.charge(b, 7);
        accounts.credit(a, 60);
        accounts.charge(a, 10);
        assert_eq!(
            accounts.of(a),
            Account {
                in_use: 50,
                high_water: 100,
                soft_limit: None,
            }
        );
        assert_eq!(
            (accounts.in_use(b), accounts.high_water(ClientId(3))),
            (7, 0)
        );
    }

    #[test]
    fn a_crossing_of_the_soft_limit_is_told_each_time_and_once() {
        let client = ClientId(1);
        let mut accounts = Accounts::new();
        accounts.limit(client, 100);
        assert!(!accounts.charge(client, 100), "at the limit, not above it");
        assert!(accounts.of(client).is_above_with(1));
        assert!(accounts.charge(client, 1) && !accounts.charge(client, 50));
        accounts.credit(client, 51);
        assert!(!accounts.of(client).is_above_with(0));
        assert!(accounts.charge(client, 1));
    }

    #[test]
    fn a_client_that_is_gone_is_kept_for_as_long_as_it_holds_something() {
        let (gone, there) = (ClientId(1), ClientId(2));
        let mut accounts = Accounts::new();
        accounts.open(gone, "gone".into());
        accounts.open(there, "there".into());
        accounts.charge(gone, 3);
        accounts.charge(there, 5);
        accounts.credit(there, 5);
        accounts.close(gone);
        assert_eq!((accounts.in_use(gone), accounts.high_water(there)), (3, 5));
        accounts.credit(gone, 3);
        assert_eq!(accounts.iter().count(), 1);
        // Memory that was granted after its client had gone.
        accounts.charge(gone, 1);
        accounts.credit(gone, 1);
        accounts.close(there);
        assert_eq!(accounts.0.len(), 0);
    }
}
