//! The reservation wait list: reservations that found no memory, and the order in which they get it.
//!
//! The first reservation is served first. **Soft limits:** a reservation that would take its client above its soft limit
//! ranks behind all that would not, however early it came.
//!
//! # What a step costs
//!
//! No step visits the reservations one by one, except on the way to a failure. Reservations of one client and one size
//! cross the soft limit together, so they form a *bucket*, ordered by mailbox position; each bucket is in one of two
//! classes, within the limit or above it. A class is ordered by the first position of each bucket, to find the first
//! reservation, and by size, to find one that fits into what the first does not need. Joining and leaving costs the
//! logarithm of the list. When the bytes of a client change, only its buckets between the old and the new limit move.

use std::collections::{BTreeMap, BTreeSet};

use millstream_protocol::{ClientId, PageError};

use super::Memory;
use super::accounts::Accounts;

/// A reservation: its stream, the client that pays for it, its bytes, and its position in the mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The key of its stream.
    pub stream: u32,
    /// The client that pays for it.
    pub client: ClientId,
    /// Its length.
    pub bytes: u64,
    /// Its position in the mailbox.
    pub position: u64,
}

impl Request {
    pub(super) fn exceeds_soft_limit(&self, accounts: &Accounts) -> bool {
        accounts.is_above_with(self.client, self.bytes)
    }
}

/// The key of a bucket.
type BucketKey = (ClientId, u64);

/// The waiting reservations of one client that have the same size, by position.
#[derive(Debug)]
struct Bucket {
    /// Whether they would take their client above its soft limit.
    is_above: bool,
    streams: BTreeMap<u64, u32>,
}

impl Bucket {
    fn first(&self) -> Option<u64> {
        self.streams.keys().next().copied()
    }
}

/// The buckets of one class.
#[derive(Default, Debug)]
struct ClassOrder {
    /// By their first positions.
    by_position: BTreeSet<(u64, BucketKey)>,
    /// By size, then by first position.
    by_size: BTreeSet<(u64, u64, ClientId)>,
}

/// The waiting reservations, at most one of each stream.
#[derive(Default, Debug)]
pub struct WaitList {
    waiting: BTreeMap<u32, Request>,
    buckets: BTreeMap<BucketKey, Bucket>,
    /// The buckets within the soft limits of their clients, and those above.
    classes: [ClassOrder; 2],
}

impl WaitList {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the reservation that is served first.
    pub fn first(&self) -> Option<Request> {
        let mut heads = self
            .classes
            .iter()
            .filter_map(|class| class.by_position.first());
        let (position, key) = heads.next()?;
        self.request_at(*key, *position)
    }

    /// Returns the smallest reservation in the class of the first, apart from the first itself.
    pub(super) fn smallest_other(&self) -> Option<Request> {
        let first = self.first()?;
        let class = self
            .classes
            .iter()
            .find(|class| !class.by_position.is_empty())?;
        // The first of its bucket is the first of all at most once.
        class.by_size.iter().take(2).find_map(|(bytes, _, client)| {
            let bucket = self.buckets.get(&(*client, *bytes))?;
            let mut streams = bucket.streams.values();
            let stream = streams.find(|stream| **stream != first.stream)?;
            self.waiting.get(stream).copied()
        })
    }

    /// Iterates over the streams, in no particular order.
    pub fn streams(&self) -> impl Iterator<Item = u32> {
        let streams = self.waiting.keys().copied();
        #[cfg(test)]
        let streams = streams.inspect(|_| crate::steps::count());
        streams
    }

    /// Returns `true` if a reservation waits that would take its client above its soft limit.
    pub fn has_above(&self) -> bool {
        !self.classes[1].by_position.is_empty()
    }

    /// Returns `true` if the waiting reservation of `stream` would take its client above its soft limit.
    pub fn is_above(&self, stream: u32) -> bool {
        let bucket = self
            .waiting
            .get(&stream)
            .and_then(|request| self.buckets.get(&key_of(request)));
        bucket.is_some_and(|bucket| bucket.is_above)
    }

    /// Returns the position of the reservation of `stream`.
    pub fn position(&self, stream: u32) -> Option<u64> {
        Some(self.waiting.get(&stream)?.position)
    }

    /// Adds a reservation. Returns `false` if its stream waits already.
    pub(super) fn wait(&mut self, accounts: &Accounts, request: Request) -> bool {
        if self.waiting.contains_key(&request.stream) {
            return false;
        }
        self.waiting.insert(request.stream, request);
        let key = key_of(&request);
        self.unlist(key);
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket {
            is_above: request.exceeds_soft_limit(accounts),
            streams: BTreeMap::new(),
        });
        bucket.streams.insert(request.position, request.stream);
        self.list(key);
        true
    }

    /// Removes the reservation of a stream, if it waits.
    pub(super) fn leave(&mut self, stream: u32) {
        let Some(request) = self.waiting.remove(&stream) else {
            return;
        };
        let key = key_of(&request);
        self.unlist(key);
        if let Some(bucket) = self.buckets.get_mut(&key) {
            bucket.streams.remove(&request.position);
            if bucket.streams.is_empty() {
                self.buckets.remove(&key);
            }
        }
        self.list(key);
    }

    /// Moves the reservations of a client to the other class that have crossed its soft limit, since what it holds has
    /// changed.
    pub(super) fn reclass(&mut self, accounts: &Accounts, client: ClientId) {
        // Buckets of one client are ordered by size, so those above the limit are its last. `room` is where they should
        // begin; the buckets between that and where they do begin have crossed the limit.
        let room = accounts.room(client);
        let above = room.checked_add(1).map(|least| (client, least));
        let rises = above
            .into_iter()
            .flat_map(|least| self.buckets.range(least..=(client, u64::MAX)))
            .take_while(|(_, bucket)| !bucket.is_above);
        let falls = self.buckets.range((client, 0)..=(client, room)).rev();
        let falls = falls.take_while(|(_, bucket)| bucket.is_above);
        let moved: Vec<BucketKey> = rises.chain(falls).map(|(key, _)| *key).collect();
        for key in moved {
            #[cfg(test)]
            crate::steps::count();
            self.unlist(key);
            if let Some(bucket) = self.buckets.get_mut(&key) {
                bucket.is_above = !bucket.is_above;
            }
            self.list(key);
        }
    }

    fn request_at(&self, key: BucketKey, position: u64) -> Option<Request> {
        let stream = self.buckets.get(&key)?.streams.get(&position)?;
        self.waiting.get(stream).copied()
    }

    /// Adds a bucket to the order of its class.
    fn list(&mut self, key: BucketKey) {
        if let Some((class, first)) = self.class_of(key) {
            class.by_position.insert((first, key));
            class.by_size.insert((key.1, first, key.0));
        }
    }

    /// Removes a bucket from the order of its class, before a change of the bucket.
    fn unlist(&mut self, key: BucketKey) {
        if let Some((class, first)) = self.class_of(key) {
            class.by_position.remove(&(first, key));
            class.by_size.remove(&(key.1, first, key.0));
        }
    }

    /// Returns the order of the bucket's class, and the bucket's first position.
    fn class_of(&mut self, key: BucketKey) -> Option<(&mut ClassOrder, u64)> {
        let bucket = self.buckets.get(&key)?;
        let first = bucket.first()?;
        Some((&mut self.classes[usize::from(bucket.is_above)], first))
    }
}

fn key_of(request: &Request) -> BucketKey {
    (request.client, request.bytes)
}

// Attempts: which reservation may take memory while others wait, and when a reservation that waits is tried again. The
// rules are at the head of the [module](super).

/// An attempt of a reservation that found no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attempt {
    pub(super) stream: u32,
    /// [`Pools::changes`](super::pools::Pools::changes) at that time.
    changes: u64,
}

impl Memory {
    /// Returns `true` if a reservation may take memory while others wait: it is the first, or ranks before the first by
    /// soft limits, or fits into the share of the others.
    #[cold]
    pub(super) fn may_take(&self, first: Request, request: Request, has_waited: bool) -> bool {
        if has_waited && first.stream == request.stream {
            return true;
        }
        match (
            request.exceeds_soft_limit(&self.accounts),
            first.exceeds_soft_limit(&self.accounts),
        ) {
            (false, true) => true,
            (true, false) => false,
            _ => self.fits_share(first, request.bytes),
        }
    }

    /// Returns `true` if others may take `bytes` while `first` waits: see the head of the module.
    fn fits_share(&self, first: Request, bytes: u64) -> bool {
        let Some(all) = self.device_bytes else {
            return true;
        };
        let all = self.bytes_found.map_or(all, |found| found.min(all));
        let used = self.loans.used(self.pools.usage().in_use);
        used.saturating_add(bytes) <= all.saturating_sub(first.bytes)
    }

    #[cold]
    pub(super) fn note_attempt(&mut self, stream: u32, is_first: bool, error: PageError) {
        let changes = self.pools.changes();
        self.attempts[usize::from(!is_first)] = Some(Attempt { stream, changes });
        if let PageError::OutOfMemory { free: Some(free) } = error
            && is_first
        {
            self.bytes_found = Some(self.pools.usage().reserved.saturating_add(free));
        }
    }

    /// Returns `true` if the attempt of a reservation may succeed where the last one of it did not.
    fn is_worth_an_attempt(&self, request: Request, last: Option<Attempt>) -> bool {
        let Some(last) = last.filter(|last| last.stream == request.stream) else {
            return true;
        };
        last.changes != self.pools.changes()
            && self.free_bytes().is_none_or(|free| free >= request.bytes)
    }

    /// Returns the stream of the first reservation, if an attempt may succeed.
    pub fn next_attempt(&self) -> Option<u32> {
        let first = self.wait_list.first()?;
        self.is_worth_an_attempt(first, self.attempts[0])
            .then_some(first.stream)
    }

    /// Returns the stream of another reservation that fits into the share of the others, if an attempt may succeed.
    pub fn next_other_attempt(&self) -> Option<u32> {
        let (first, other) = (self.wait_list.first()?, self.wait_list.smallest_other()?);
        let fits = self.fits_share(first, other.bytes);
        (fits && self.is_worth_an_attempt(other, self.attempts[1])).then_some(other.stream)
    }
}

#[cfg(test)]
#[path = "wait_list_tests.rs"]
mod tests;
