//! Bytes held by each client, for reports and soft limits. Hard limits are enforced in the client crate.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;

use millstream_protocol::id::ClientId;
use millstream_protocol::report::ClientMemory;

/// The bytes that one client holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// The bytes that it holds now.
    pub in_use: u64,
    /// The most bytes that it has held.
    pub high_water: u64,
    /// The bytes above which other clients' reservations are served first.
    pub soft_limit: Option<u64>,
}

impl Account {
    /// Returns the account as a report of `client`.
    pub fn memory_of(&self, client: ClientId) -> ClientMemory {
        let mut memory = ClientMemory::of(client);
        memory.in_use = self.in_use;
        memory.high_water = self.high_water;
        memory.soft_limit = self.soft_limit;
        memory
    }
}

impl Account {
    /// Returns `true` if it would be above its soft limit with `more` bytes.
    pub fn is_above_with(&self, more: u64) -> bool {
        let bytes = self.in_use.saturating_add(more);
        self.soft_limit.is_some_and(|limit| bytes > limit)
    }

    /// Returns the bytes that it may still take within its soft limit.
    pub(super) fn room(&self) -> u64 {
        self.soft_limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(self.in_use))
    }
}

/// The accounts of all clients of a device.
///
/// An open client is kept from [`open`](Self::open) to [`close`](Self::close), a closed one for as long as it holds
/// bytes. So clients that come and go leave nothing here.
#[derive(Default, Debug)]
pub struct Accounts(HashMap<ClientId, Entry>);

#[derive(Default, Debug)]
struct Entry {
    account: Account,
    /// The name of the client, once it is known.
    name: Arc<str>,
    /// The number of tasks of its removed streams.
    tasks: u64,
    /// Whether the client is open.
    open: bool,
}

impl Accounts {
    /// Creates accounts without clients.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the account of `client`, which has this name.
    pub fn open(&mut self, client: ClientId, name: Arc<str>) {
        let entry = self.0.entry(client).or_default();
        (entry.open, entry.name) = (true, name);
    }

    /// Records that a stream of `client` was removed after it issued `tasks` tasks.
    pub fn stream_removed(&mut self, client: ClientId, tasks: u64) {
        if let Some(entry) = self.0.get_mut(&client) {
            entry.tasks += tasks;
        }
    }

    /// Sets the soft limit of `client`.
    pub fn limit(&mut self, client: ClientId, soft_limit: u64) {
        let account = &mut self.0.entry(client).or_default().account;
        account.soft_limit = Some(soft_limit);
    }

    /// Closes the account of `client`.
    pub fn close(&mut self, client: ClientId) {
        if let hash_map::Entry::Occupied(mut entry) = self.0.entry(client) {
            entry.get_mut().open = false;
            if entry.get().account.in_use == 0 {
                entry.remove();
            }
        }
    }

    /// Adds `bytes` to what `client` holds. Returns `true` if that took it above its soft limit.
    pub fn charge(&mut self, client: ClientId, bytes: u64) -> bool {
        let account = &mut self.0.entry(client).or_default().account;
        let crosses = account.is_above_with(bytes) && !account.is_above_with(0);
        account.in_use = account.in_use.saturating_add(bytes);
        account.high_water = account.high_water.max(account.in_use);
        crosses
    }

    /// Subtracts `bytes` from what `client` holds. Returns `true` if it was above its soft limit before.
    pub fn credit(&mut self, client: ClientId, bytes: u64) -> bool {
        let hash_map::Entry::Occupied(mut entry) = self.0.entry(client) else {
            debug_assert!(
                bytes == 0,
                "{client:?} releases {bytes} bytes and holds none"
            );
            return false;
        };
        let account = &mut entry.get_mut().account;
        let was_above = account.is_above_with(0);
        debug_assert!(
            account.in_use >= bytes,
            "{client:?} releases {bytes} bytes and holds {}",
            account.in_use
        );
        account.in_use = account.in_use.saturating_sub(bytes);
        if account.in_use == 0 && !entry.get().open {
            entry.remove();
        }
        was_above
    }

    /// Returns the bytes that `client` holds.
    pub fn in_use(&self, client: ClientId) -> u64 {
        self.of(client).in_use
    }

    /// Returns the most bytes that `client` has held.
    pub fn high_water(&self, client: ClientId) -> u64 {
        self.of(client).high_water
    }

    /// Returns the account of `client`.
    pub fn of(&self, client: ClientId) -> Account {
        self.0
            .get(&client)
            .map(|entry| entry.account)
            .unwrap_or_default()
    }

    /// Iterates over all clients that are open or hold bytes, in no particular order: their names, their accounts, and
    /// the number of tasks of their removed streams.
    pub fn all(&self) -> impl Iterator<Item = (ClientId, &Arc<str>, Account, u64)> {
        self.0
            .iter()
            .map(|(client, entry)| (*client, &entry.name, entry.account, entry.tasks))
    }

    /// Iterates over the clients that have held bytes or have a soft limit, in no particular order.
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
    fn high_water_mark_stays_when_bytes_are_released() {
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
    fn each_crossing_of_the_soft_limit_is_reported_once() {
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
    fn closed_client_is_kept_while_it_holds_bytes() {
        let (closed, open) = (ClientId(1), ClientId(2));
        let mut accounts = Accounts::new();
        accounts.open(closed, "closed".into());
        accounts.open(open, "open".into());
        accounts.charge(closed, 3);
        accounts.charge(open, 5);
        accounts.credit(open, 5);
        accounts.close(closed);
        assert_eq!((accounts.in_use(closed), accounts.high_water(open)), (3, 5));
        accounts.credit(closed, 3);
        assert_eq!(accounts.iter().count(), 1);
        // Memory that was granted after its client was closed.
        accounts.charge(closed, 1);
        accounts.credit(closed, 1);
        accounts.close(open);
        assert_eq!(accounts.0.len(), 0);
    }
}
