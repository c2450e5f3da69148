//! The reservation wait list: reservations that found no memory, and the order in which they get it.
//!
//! The first reservation is served first. Other reservations may take only the budget: bytes that were free when the
//! first became the first, and that it does not need. They never take memory that has returned since.
//!
//! **Soft limits.** A reservation that would take its client above its soft limit ranks behind all that would not,
//! however early it came.

use std::collections::VecDeque;

use millstream_protocol::id::ClientId;

use super::accounts::Accounts;

/// A reservation: its stream, the client that pays for it, and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) stream: u32,
    pub(crate) client: ClientId,
    pub(crate) bytes: u64,
}

impl Request {
    fn exceeds_soft_limit(&self, accounts: &Accounts) -> bool {
        accounts.of(self.client).is_above_with(self.bytes)
    }
}

/// A reservation that waits, and its position in the mailbox.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    position: u64,
}

impl Waiting {
    /// Returns the rank: first whether it exceeds the soft limit, then the position. The least rank is served first.
    fn rank(&self, accounts: &Accounts) -> (bool, u64) {
        (self.request.exceeds_soft_limit(accounts), self.position)
    }
}

/// The waiting reservations, at most one of each stream.
#[derive(Default, Debug)]
pub(super) struct WaitList {
    waiting: VecDeque<Waiting>,
    /// The free bytes that other reservations may still take.
    budget: u64,
}

impl WaitList {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.streams().next()
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().map(|waiting| waiting.request.stream)
    }

    pub(super) fn exceeds_soft_limit(&self, accounts: &Accounts, stream: u32) -> bool {
        let mut waiting = self.waiting.iter();
        let found = waiting.find(|waiting| waiting.request.stream == stream);
        found.is_some_and(|waiting| waiting.request.exceeds_soft_limit(accounts))
    }

    /// Returns `true` if this reservation may take memory while others wait: it is the first, or ranks before the first
    /// by soft limits, or the budget leaves the first what it needs.
    #[cold]
    pub(super) fn may_take(&self, accounts: &Accounts, request: Request, has_waited: bool) -> bool {
        let Some(first) = self.waiting.front() else {
            return true;
        };
        if has_waited && first.request.stream == request.stream {
            return true;
        }
        match (
            request.exceeds_soft_limit(accounts),
            first.request.exceeds_soft_limit(accounts),
        ) {
            (false, true) => true,
            (true, false) => false,
            _ => request.bytes <= self.budget,
        }
    }

    /// Takes the bytes of a granted reservation from the budget.
    pub(super) fn take_from_budget(&mut self, bytes: u64) {
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// Sets the budget to the `free` bytes that the first reservation does not need. The `busy` bytes will return first
    /// and count towards its need; the rest of its need comes from the free bytes.
    pub(super) fn update_budget(&mut self, free: u64, busy: u64) {
        self.budget = self.waiting.front().map_or(0, |first| {
            free.saturating_sub(first.request.bytes.saturating_sub(busy))
        });
    }

    /// Adds a reservation behind those of a lower rank, whenever they began to wait. Returns `false` if its stream
    /// waits already.
    pub(super) fn wait(&mut self, accounts: &Accounts, request: Request, position: u64) -> bool {
        if self.streams().any(|stream| stream == request.stream) {
            return false;
        }
        let new = Waiting { request, position };
        let rank = new.rank(accounts);
        let before = self.waiting.iter();
        let place = before
            .take_while(|other| other.rank(accounts) < rank)
            .count();
        self.waiting.insert(place, new);
        true
    }

    /// Keeps the reservations of streams for which `keep` returns `true`. Returns the stream that was first before.
    pub(super) fn retain(&mut self, keep: impl Fn(u32) -> bool) -> Option<u32> {
        let first = self.first();
        self.waiting.retain(|waiting| keep(waiting.request.stream));
        first
    }

    pub(super) fn sort(&mut self, accounts: &Accounts) {
        let waiting = self.waiting.make_contiguous();
        waiting.sort_by_key(|waiting| waiting.rank(accounts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: ClientId = ClientId(1);
    const FREE: ClientId = ClientId(2);

    fn request(stream: u32, client: ClientId, bytes: u64) -> Request {
        Request {
            stream,
            client,
            bytes,
        }
    }

    fn accounts(soft_limit: u64) -> Accounts {
        let mut accounts = Accounts::new();
        accounts.open(LIMITED, "limited".into());
        accounts.limit(LIMITED, soft_limit);
        accounts
    }

    fn order(list: &WaitList) -> Vec<u32> {
        list.streams().collect()
    }

    #[test]
    fn reservations_rank_by_soft_limit_then_by_mailbox_position() {
        let accounts = accounts(100);
        let mut list = WaitList::default();
        assert!(list.wait(&accounts, request(1, LIMITED, 101), 1));
        assert!(list.wait(&accounts, request(2, FREE, 1 << 40), 9));
        assert!(list.wait(&accounts, request(3, LIMITED, 100), 5));
        assert!(
            !list.wait(&accounts, request(3, LIMITED, 100), 5),
            "its stream waits already"
        );
        assert_eq!(order(&list), [3, 2, 1]);
        assert!(list.exceeds_soft_limit(&accounts, 1) && !list.exceeds_soft_limit(&accounts, 3));
    }

    #[test]
    fn sort_follows_what_clients_hold() {
        let mut accounts = accounts(100);
        let mut list = WaitList::default();
        list.wait(&accounts, request(1, LIMITED, 60), 1);
        list.wait(&accounts, request(2, FREE, 60), 2);
        assert_eq!(order(&list), [1, 2]);
        accounts.charge(LIMITED, 60);
        list.sort(&accounts);
        assert_eq!(order(&list), [2, 1]);
        assert_eq!(list.retain(|stream| stream != 2), Some(2));
        assert_eq!(order(&list), [1]);
    }

    /// I6: other reservations do not take what the first needs, however much returns meanwhile.
    #[test]
    fn other_reservations_take_only_the_budget_i6() {
        let accounts = accounts(100);
        let mut list = WaitList::default();
        list.wait(&accounts, request(1, FREE, 50), 1);
        // 30 busy bytes return, so the first needs 20 of the free ones.
        list.update_budget(40, 30);
        assert!(list.may_take(&accounts, request(2, FREE, 20), false));
        assert!(!list.may_take(&accounts, request(2, FREE, 21), false));
        list.take_from_budget(15);
        assert!(!list.may_take(&accounts, request(2, FREE, 6), false));
        assert!(
            list.may_take(&accounts, request(1, FREE, 50), true),
            "it is the first one"
        );
        assert!(
            !list.may_take(&accounts, request(3, LIMITED, 101), false),
            "it exceeds its soft limit"
        );
    }

    #[test]
    fn reservation_within_its_limit_takes_before_a_first_above_its_limit() {
        let accounts = accounts(10);
        let mut list = WaitList::default();
        list.wait(&accounts, request(1, LIMITED, 11), 1);
        list.update_budget(0, 0);
        assert!(list.may_take(&accounts, request(2, FREE, 1 << 40), false));
        assert!(!list.may_take(&accounts, request(3, LIMITED, 12), false));
    }
}
