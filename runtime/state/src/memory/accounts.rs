//! Bytes held by each client, for reports and soft limits. Hard limits are enforced in the client crate.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use millstream_protocol::{ClientId, ClientMemory};

/// The accounts of all clients of a device.
///
/// An open client is kept from [`open`](Self::open) to [`close`](Self::close), a closed one for as long as it holds
/// bytes. So clients that come and go leave nothing here. Each reservation looks up two, which costs less in a tree than by
/// std's hash.
#[derive(Default, Debug)]
pub struct Accounts(BTreeMap<ClientId, Entry>);

#[derive(Debug)]
struct Entry {
    memory: ClientMemory,
    /// The name of the client, once it is known.
    name: Arc<str>,
    /// The number of tasks of its removed streams.
    tasks: u64,
    /// Whether the client is open.
    open: bool,
}

impl Accounts {
    fn entry(&mut self, client: ClientId) -> &mut Entry {
        self.0.entry(client).or_insert_with(|| Entry {
            memory: ClientMemory::of(client),
            name: Arc::default(),
            tasks: 0,
            open: false,
        })
    }

    /// Opens the account of `client`, which has this name.
    pub fn open(&mut self, client: ClientId, name: Arc<str>) {
        let entry = self.entry(client);
        (entry.open, entry.name) = (true, name);
    }

    /// Records that a stream of `client` was removed after it issued `tasks` tasks.
    pub fn stream_removed(&mut self, client: ClientId, tasks: u64) {
        if let Some(entry) = self.0.get_mut(&client) {
            entry.tasks += tasks;
        }
    }

    /// Sets the soft limit of `client`.
    pub(super) fn limit(&mut self, client: ClientId, soft_limit: u64) {
        self.entry(client).memory.soft_limit = Some(soft_limit);
    }

    /// Closes the account of `client`.
    pub fn close(&mut self, client: ClientId) {
        if let btree_map::Entry::Occupied(mut entry) = self.0.entry(client) {
            entry.get_mut().open = false;
            if entry.get().memory.in_use == 0 {
                entry.remove();
            }
        }
    }

    /// Adds `bytes` to what `client` holds. Returns `true` if that took it above its soft limit.
    pub(super) fn charge(&mut self, client: ClientId, bytes: u64) -> bool {
        let memory = &mut self.entry(client).memory;
        let crosses = is_above_with(memory, bytes) && !is_above_with(memory, 0);
        memory.in_use = memory.in_use.saturating_add(bytes);
        memory.high_water = memory.high_water.max(memory.in_use);
        crosses
    }

    /// Subtracts `bytes` from what `client` holds. Returns `true` if it was above its soft limit before.
    pub(super) fn credit(&mut self, client: ClientId, bytes: u64) -> bool {
        let btree_map::Entry::Occupied(mut entry) = self.0.entry(client) else {
            debug_assert!(
                bytes == 0,
                "{client:?} releases {bytes} bytes and holds none"
            );
            return false;
        };
        let memory = &mut entry.get_mut().memory;
        let was_above = is_above_with(memory, 0);
        debug_assert!(
            memory.in_use >= bytes,
            "{client:?} releases {bytes} bytes and holds {}",
            memory.in_use
        );
        memory.in_use = memory.in_use.saturating_sub(bytes);
        if memory.in_use == 0 && !entry.get().open {
            entry.remove();
        }
        was_above
    }

    /// Returns the memory of `client`.
    pub fn of(&self, client: ClientId) -> ClientMemory {
        let entry = self.0.get(&client);
        entry.map_or_else(|| ClientMemory::of(client), |entry| entry.memory)
    }

    /// Returns `true` if `client` would be above its soft limit with `more` bytes.
    pub(super) fn is_above_with(&self, client: ClientId, more: u64) -> bool {
        is_above_with(&self.of(client), more)
    }

    /// Returns the bytes that `client` may still take within its soft limit.
    pub(super) fn room(&self, client: ClientId) -> u64 {
        let memory = self.of(client);
        let room = |limit: u64| limit.saturating_sub(memory.in_use);
        memory.soft_limit.map_or(u64::MAX, room)
    }

    /// Iterates over all clients that are open or hold bytes, in their order: their names, their memory, and the
    /// number of tasks of their removed streams.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, ClientMemory, u64)> {
        let entries = self.0.values();
        entries.map(|entry| (&entry.name, entry.memory, entry.tasks))
    }

    /// Iterates over the clients that have held bytes or have a soft limit, in their order.
    pub fn iter(&self) -> impl Iterator<Item = ClientMemory> + '_ {
        let all = self.all().map(|(_, memory, _)| memory);
        all.filter(|memory| memory.high_water > 0 || memory.soft_limit.is_some())
    }
}

fn is_above_with(memory: &ClientMemory, more: u64) -> bool {
    let bytes = memory.in_use.saturating_add(more);
    memory.soft_limit.is_some_and(|limit| bytes > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_mark_stays_when_bytes_are_released() {
        let (a, b) = (ClientId(1), ClientId(2));
        let mut accounts = Accounts::default();
        accounts.charge(a, 100);
        accounts.charge(b, 7);
        accounts.credit(a, 60);
        accounts.charge(a, 10);
        let of_a = accounts.of(a);
        assert_eq!(
            (of_a.in_use, of_a.high_water, of_a.soft_limit),
            (50, 100, None)
        );
        assert_eq!(accounts.of(b).in_use, 7);
        assert_eq!(accounts.of(ClientId(3)), ClientMemory::of(ClientId(3)));
    }

    #[test]
    fn each_crossing_of_the_soft_limit_is_reported_once() {
        let client = ClientId(1);
        let mut accounts = Accounts::default();
        accounts.limit(client, 100);
        assert!(!accounts.charge(client, 100), "at the limit, not above it");
        assert!(accounts.is_above_with(client, 1));
        assert!(accounts.charge(client, 1) && !accounts.charge(client, 50));
        accounts.credit(client, 51);
        assert!(!accounts.is_above_with(client, 0));
        assert!(accounts.charge(client, 1));
    }

    #[test]
    fn closed_client_is_kept_while_it_holds_bytes() {
        let (closed, open) = (ClientId(1), ClientId(2));
        let mut accounts = Accounts::default();
        accounts.open(closed, "closed".into());
        accounts.open(open, "open".into());
        accounts.charge(closed, 3);
        accounts.charge(open, 5);
        accounts.credit(open, 5);
        accounts.close(closed);
        assert_eq!(accounts.of(closed).in_use, 3);
        assert_eq!(accounts.of(open).high_water, 5);
        accounts.credit(closed, 3);
        assert_eq!(accounts.iter().count(), 1);
        // Memory that was granted after its client was closed.
        accounts.charge(closed, 1);
        accounts.credit(closed, 1);
        accounts.close(open);
        assert_eq!(accounts.0.len(), 0);
    }
}
