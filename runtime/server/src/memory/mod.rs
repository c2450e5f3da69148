//! Memory: which slice has which bytes of the device, and which streams wait for memory.
//!
//! `Memory` owns pools, accounts and the reservation wait list. It knows no slice and no task: a stream is a number
//! here, and the caller says whether a use has passed.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`pools`] | which range of which page a reservation gets, and when a freed range may be used again |
//! | [`accounts`] | how many bytes each client holds, and whether it is above its soft limit |
//! | `wait_list` | which waiting reservation is served next, and what other reservations may take meanwhile |
//!
//! # Protocol
//!
//! **Reservation.** `Memory::reserve` asks the wait list whether the reservation may take memory now, then the pools
//! for a range, then charges the account of the client. If it fails with `OutOfMemory`, the server parks the stream and
//! `Memory::wait` puts the reservation on the wait list.
//!
//! **Reuse with points.** A freed range returns to the pools with the *points* that still use it, and is *busy* until
//! they have passed. A reservation may take a busy range before that, if its queue comes after all of these points
//! anyway: it is the queue of the point, its clock covers the point, or the point has passed. The points that are still
//! open come with the range as its *residue*, and `Hazards::give` enters them in the new slice's log, so that another
//! queue that touches the slice waits for them (I4). A reservation that has waited gets only clean ranges, since the
//! log of its slice has entries already.
//!
//! **The wait list** is ordered by rank: reservations that keep their client within its soft limit come first, then
//! those that take it above; within each class the earlier mailbox position comes first. The first one is served first.
//! Another reservation of the same class may take only the *budget*: the free bytes that the first one does not need
//! beside the busy bytes, which will return. The budget is computed when a reservation becomes the first, and only
//! shrinks afterwards, so memory that returns meanwhile is kept for the first one (I6). A reservation above its soft
//! limit takes nothing while one within its limit is first; one within its limit takes before a first one above its own.
//!
//! **Failure.** A reservation fails only if nothing that was admitted can free memory any more: the server decides that
//! (`server/memory_waiters.rs`), since it knows the tasks.
//!
//! # Example
//!
//! A device has four pages. Slice x has three of them, and one is free. Queue q0 runs a task on x, and x is dropped.
//!
//! ```text
//!  message                   pools                                  wait list
//!  drop x                    3 pages are busy: point (q0, 1)        -
//!  B (queue q1) reserves 3   q1 does not come after (q0, 1),        B waits; 3 pages return and it needs 3,
//!                            and 1 free page is too little          so the budget is the 1 free page
//!  A (queue q0) reserves 1   A takes one page                       B waits, budget 0
//!  A reserves 1              the busy pages are covered for q0,     A waits behind B
//!                            but 1 exceeds the budget
//!  (q0, 1) passes            3 pages are clean                      B gets them; A is the first
//! ```
//!
//! Without the budget A could take one page after another, which its queue may use at once, and B would starve.
//!
//! # What checks it
//!
//! `tests/memory` of this crate compares the pools with an oracle of bytes and points (I4, I10).
//! `server/tests/memory.rs` has the order of waiting reservations and the end of waiting (I5, I6). The mutants
//! `server/reuse_early`, `invariants/i4_free_one_task_early`, `invariants/i4_residue_of_one_queue`,
//! `invariants/i4_other_points_are_ignored` and `invariants/i12_wait_list_is_jumped` break this module.

pub mod accounts;
pub mod pools;
mod wait_list;

use millstream_protocol::id::{ClientId, Cursor, Point, QueueId};
use millstream_protocol::memory::{AllocationMode, MemoryOptions};

use crate::points::Points;
pub use accounts::{Account, Accounts};
pub use pools::{PageSource, PoolUsage, Pools, Reservation, ReserveError};
pub(crate) use wait_list::Request;
use wait_list::WaitList;

/// The memory of a device: its pools, the accounts of its clients, and the reservation wait list.
pub(crate) struct Memory {
    pools: Pools,
    accounts: Accounts,
    wait_list: WaitList,
    /// The bytes of the device, if it reports them.
    device_bytes: Option<u64>,
}

/// How a reservation is served.
#[derive(Clone, Copy)]
pub(crate) struct ReserveOptions {
    pub(crate) mode: AllocationMode,
    /// The queue that uses it first.
    pub(crate) queue: QueueId,
    /// Whether the reservation is a retry. Then the log of its slice may have entries, so only a clean range serves it.
    pub(crate) has_waited: bool,
}

/// The memory of a reservation.
pub(crate) struct Granted {
    pub(crate) reservation: Reservation,
    /// The points that still use it.
    pub(crate) residue: Points,
    /// Whether this reservation took the client above its soft limit.
    pub(crate) crosses_limit: bool,
}

impl Memory {
    /// Creates memory without pages and clients. Slices start at multiples of `alignment`. The device has
    /// `device_bytes`, if it reports them.
    pub(crate) fn new(options: MemoryOptions, alignment: u64, device_bytes: Option<u64>) -> Self {
        Self {
            pools: Pools::new(options, alignment),
            accounts: Accounts::default(),
            wait_list: WaitList::default(),
            device_bytes,
        }
    }

    /// Reserves memory for a slice, if there is some that the waiting reservations do not need.
    ///
    /// `covered` returns `true` for a point that comes before the first use of the slice anyway.
    ///
    /// # Errors
    /// Returns an error if there is no memory now, or never.
    pub(crate) fn reserve(
        &mut self,
        pages: &mut dyn PageSource,
        request: Request,
        options: ReserveOptions,
        covered: &dyn Fn(Point) -> bool,
    ) -> Result<Granted, ReserveError> {
        let others_wait = !self.wait_list.is_empty();
        if others_wait
            && !self
                .wait_list
                .may_take(&self.accounts, request, options.has_waited)
        {
            return Err(ReserveError::OutOfMemory {
                requested: request.bytes,
                reserved: 0,
                free: None,
                waiting: 0,
            });
        }
        let (reservation, residue) =
            self.pools
                .reserve(pages, request.bytes, options.mode, options.queue, covered)?;
        if others_wait {
            self.wait_list.take_from_budget(reservation.bytes);
        }
        let crosses_limit = self.accounts.charge(request.client, reservation.bytes);
        Ok(Granted {
            reservation,
            residue,
            crosses_limit,
        })
    }

    /// Releases the range of a removed slice. It may be used again once the points `busy` have passed.
    pub(crate) fn release(&mut self, client: ClientId, reservation: Reservation, busy: Points) {
        if self.accounts.credit(client, reservation.bytes) {
            self.pools.evict_first(&reservation);
        }
        self.pools.release(reservation, busy);
    }

    /// Returns `true` if a freed range waits for its last use.
    #[inline]
    pub(crate) fn has_busy(&self) -> bool {
        self.pools.has_busy()
    }

    /// Returns the least cursor of a queue that a freed range waits for.
    pub(crate) fn oldest_busy(&self, queue: QueueId) -> Option<Cursor> {
        self.pools.oldest_busy(queue)
    }

    /// Records that everything on `queue` up to `cursor` has passed.
    pub(crate) fn passed(&mut self, queue: QueueId, cursor: Cursor) {
        self.pools.passed(queue, cursor);
    }

    /// Returns `true` if there are pages for [`trim`](Self::trim) to free.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        self.pools.has_due()
    }

    /// Frees empty pages beyond those that are cached, and dedicated pages that are free.
    pub(crate) fn trim(&mut self, pages: &mut dyn PageSource) {
        self.pools.trim(pages);
    }

    /// Frees every empty page. Returns their bytes.
    pub(crate) fn cleanup(&mut self, pages: &mut dyn PageSource) -> u64 {
        self.pools.cleanup(pages)
    }

    /// Returns what the pools hold.
    pub(crate) fn usage(&self) -> PoolUsage {
        self.pools.usage()
    }

    /// Returns the bytes of the device that no slice uses, if the device reports its bytes.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let usage = self.pools.usage();
        let all = self.device_bytes?;
        Some(all.saturating_sub(usage.in_use + usage.busy))
    }

    /// Returns the accounts of the clients.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns the accounts of the clients, mutable.
    pub(crate) fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// Returns `true` if no reservation waits.
    #[inline]
    pub(crate) fn is_wait_list_empty(&self) -> bool {
        self.wait_list.is_empty()
    }

    /// Returns the stream whose reservation is served next.
    pub(crate) fn first_waiting(&self) -> Option<u32> {
        self.wait_list.first()
    }

    /// Iterates over the streams whose reservations wait, in the order in which they are served.
    pub(crate) fn waiting_streams(&self) -> impl Iterator<Item = u32> {
        self.wait_list.streams()
    }

    /// Returns `true` if the waiting reservation of `stream` would take its client above its soft limit.
    pub(crate) fn exceeds_soft_limit(&self, stream: u32) -> bool {
        self.wait_list.exceeds_soft_limit(&self.accounts, stream)
    }

    /// Adds a reservation at its rank; `position` is its position in the mailbox. Returns `false` if its stream waits
    /// already.
    pub(crate) fn wait(&mut self, request: Request, position: u64) -> bool {
        let waits = self.wait_list.wait(&self.accounts, request, position);
        if waits && self.wait_list.first() == Some(request.stream) {
            self.update_budget();
        }
        waits
    }

    /// Sorts the wait list again, since what clients hold has changed, and removes streams that do not exist any more.
    pub(crate) fn sort_wait_list(&mut self, lives: impl Fn(u32) -> bool) {
        let first = self.wait_list.retain(lives);
        self.wait_list.sort(&self.accounts);
        if self.wait_list.first() != first {
            self.update_budget();
        }
    }

    /// Removes a reservation that was served or has failed.
    pub(crate) fn leave_wait_list(&mut self, stream: u32) {
        self.give_up(stream);
        self.wait_list.sort(&self.accounts);
        self.update_budget();
    }

    /// Removes a reservation that is given up so that others are served.
    pub(crate) fn give_up(&mut self, stream: u32) {
        self.wait_list.retain(|other| other != stream);
    }

    /// Removes all reservations.
    pub(crate) fn clear_wait_list(&mut self) {
        self.wait_list = WaitList::default();
    }

    fn update_budget(&mut self) {
        let usage = self.pools.usage();
        let all = self.device_bytes.unwrap_or(u64::MAX);
        let free = all.saturating_sub(usage.in_use).saturating_sub(usage.busy);
        self.wait_list.update_budget(free, usage.busy);
    }
}
