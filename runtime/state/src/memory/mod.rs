//! Memory: which slice has which bytes of the device, and which streams wait for memory.
//!
//! `Memory` owns pools, accounts and the reservation wait list. It knows no slice and no task: a stream is a number
//! here, and the caller says whether a use has passed.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`pools`] | which range of which page a reservation gets, and when a freed range may be used again |
//! | `accounts` | how many bytes each client holds, and whether it is above its soft limit |
//! | `wait_list` | the order in which waiting reservations are served; which may take memory now, and whether to try one that waits |
//! | `loans` | what other reservations have taken meanwhile |
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
//!
//! **The share of the others.** While one reservation waits as the first, all others may use the memory of the device
//! that the first will not need: the bytes of the device less those of the first. Slices with handles count, and what
//! others take meanwhile counts until its last use has passed (`loans`). Dropped slices do not count, since their
//! memory returns without a further call of a user, and then the first one has its bytes (I6, I12). The share is taken
//! and given back in any order; a reservation behind the first gets memory as soon as it fits into the share. A
//! reservation above its soft limit takes nothing while one within its limit is first; one within its limit takes
//! before a first one above its own.
//!
//! **Attempts.** A reservation that found no memory is tried again only after a range became clean or a page went back
//! to the device, and only if there are as many free bytes as it needs. So a turn in which nothing of that happened
//! asks the driver for nothing and evicts no cached page.
//!
//! **Failure.** A reservation fails only if nothing that was admitted can free memory any more: the server decides that
//! (`server/reserve.rs`), since it knows the tasks.
//!
//! # Example
//!
//! A device has four pages. Slice x has three of them, and one is free. Queue q0 runs a task on x, and x is dropped.
//!
//! ```text
//!  message                   pools                                  wait list
//!  drop x                    3 pages are busy: point (q0, 1)        -
//!  B (queue q1) reserves 3   q1 does not come after (q0, 1),        B waits; the others may use 4 - 3 = 1 page,
//!                            and 1 free page is too little          and use none
//!  A (queue q0) reserves 1   A takes one page                       they use 1
//!  A reserves 1              the busy pages are covered for q0,     A waits behind B
//!                            but 1 + 1 exceeds the share
//!  (q0, 1) passes            3 pages are clean                      B gets them; A is the first
//! ```
//!
//! Without the share A could take one page after another, which its queue may use at once, and B would starve.
//!
//! # What checks it
//!
//! `tests/memory` of this crate compares the pools with an oracle of bytes and points (I4, I10).
//! `server/tests/memory.rs` has the order of waiting reservations and the end of waiting (I5, I6). The mutants
//! `server/reuse_early`, `invariants/i4_free_one_task_early`, `invariants/i4_residue_of_one_queue`,
//! `invariants/i4_other_points_are_ignored` and `invariants/i12_wait_list_is_jumped` break this module.

mod accounts;
mod loans;
pub mod pools;
mod wait_list;

use millstream_protocol::{
    AllocationMode, ClientId, Cursor, MemoryOptions, PageError, Point, QueueId,
};

use crate::points::Points;
use accounts::Accounts;
use loans::Loans;
pub use pools::{PageSource, Pools, Reservation};
use wait_list::Attempt;
pub use wait_list::Request;
use wait_list::WaitList;

/// The memory of a device: its pools, the accounts of its clients, and the reservation wait list.
///
/// The server reads the pools, the accounts and the wait list, frees empty pages, and opens and closes accounts. Ranges are
/// reserved and released, and reservations wait, by the methods of `Memory` alone, which keep the parts consistent.
pub struct Memory {
    /// Pages and ranges.
    pub pools: Pools,
    /// What each client has.
    pub accounts: Accounts,
    /// The reservations that wait.
    pub wait_list: WaitList,
    /// What others may take while a reservation waits.
    loans: Loans,
    /// The bytes of the device, if it reports them.
    device_bytes: Option<u64>,
    /// The bytes that the device had for slices when the first reservation was tried last, if it reported them. Other
    /// users of the device may have the rest.
    bytes_found: Option<u64>,
    /// The last attempts that found no memory: of the first reservation, and of another one.
    attempts: [Option<Attempt>; 2],
}

/// How a reservation is served.
#[derive(Clone, Copy)]
pub struct ReserveOptions {
    /// How its memory is allocated.
    pub mode: AllocationMode,
    /// The queue that uses it first.
    pub queue: QueueId,
    /// Whether the reservation is a retry. Then the log of its slice may have entries, so only a clean range serves it.
    pub has_waited: bool,
}

/// The memory of a reservation.
pub struct Granted {
    /// The range, or pages of its own.
    pub reservation: Reservation,
    /// The points that still use it.
    pub residue: Points,
    /// Whether this reservation took the client above its soft limit.
    pub crosses_limit: bool,
}

impl Memory {
    /// Creates memory without pages and clients. Slices start at multiples of `alignment`. The device has
    /// `device_bytes`, if it reports them.
    pub fn new(options: MemoryOptions, alignment: u64, device_bytes: Option<u64>) -> Self {
        Self {
            pools: Pools::new(options, alignment),
            accounts: Accounts::default(),
            wait_list: WaitList::default(),
            loans: Loans::default(),
            device_bytes,
            bytes_found: None,
            attempts: [None; 2],
        }
    }

    /// Reserves memory for a slice, if there is some that the waiting reservations do not need.
    ///
    /// `covered` returns `true` for a point that comes before the first use of the slice anyway.
    ///
    /// # Errors
    /// Returns an error if there is no memory now, or never.
    pub fn reserve(
        &mut self,
        pages: &mut dyn PageSource,
        request: Request,
        options: ReserveOptions,
        covered: &dyn Fn(Point) -> bool,
    ) -> Result<Granted, PageError> {
        let first = self.wait_list.first();
        if let Some(first) = first
            && !self.may_take(first, request, options.has_waited)
        {
            return Err(PageError::OutOfMemory { free: None });
        }
        let found = self
            .pools
            .reserve(pages, request.bytes, options.mode, options.queue, covered);
        let (reservation, residue) = match found {
            Ok(found) => found,
            Err(error) => {
                if let Some(first) = first.filter(|_| options.has_waited) {
                    self.note_attempt(request.stream, first.stream == request.stream, error);
                }
                return Err(error);
            }
        };
        if first.is_some_and(|first| first.stream != request.stream) {
            self.loans.lend(&reservation);
        }
        let crosses_limit = self.accounts.charge(request.client, reservation.bytes);
        self.account_changed(request.client);
        Ok(Granted {
            reservation,
            residue,
            crosses_limit,
        })
    }

    /// Releases the range of a removed slice. It may be used again once the points `busy` have passed.
    pub fn release(&mut self, client: ClientId, reservation: Reservation, busy: Points) {
        if self.accounts.credit(client, reservation.bytes) {
            self.pools.evict_first(&reservation);
        }
        self.account_changed(client);
        let is_busy = self.pools.release(reservation, busy);
        self.loans.freed(&reservation, is_busy);
    }

    /// Records that a slice was dropped and that held tasks name it.
    pub fn slice_dropped(&mut self, reservation: &Reservation) {
        self.loans.dropped(reservation);
    }

    /// Records that the last held task that names a dropped slice was issued.
    pub fn slice_not_held(&mut self, reservation: &Reservation) {
        self.loans.not_held(reservation);
    }

    /// Records that everything on `queue` up to `cursor` has passed.
    pub fn passed(&mut self, queue: QueueId, cursor: Cursor) {
        let loans = &mut self.loans;
        let clean = |reservation: &Reservation| loans.clean(reservation);
        self.pools.passed(queue, cursor, clean);
    }

    /// Returns the bytes of the device that no slice uses, if the device reports its bytes.
    pub fn free_bytes(&self) -> Option<u64> {
        let usage = self.pools.usage();
        let all = self.device_bytes?;
        Some(all.saturating_sub(usage.in_use + usage.waiting))
    }

    /// Sets the soft limit of a client.
    pub fn set_soft_limit(&mut self, client: ClientId, bytes: u64) {
        self.accounts.limit(client, bytes);
        self.account_changed(client);
    }

    /// Ranks the waiting reservations of a client again, since its account has changed.
    #[inline]
    fn account_changed(&mut self, client: ClientId) {
        if !self.wait_list.is_empty() {
            let first = self.wait_list.first();
            self.wait_list.reclass(&self.accounts, client);
            self.first_may_have_changed(first);
        }
    }

    /// Adds a reservation. Returns `false` if its stream waits already.
    pub fn wait(&mut self, request: Request) -> bool {
        let first = self.wait_list.first();
        let waits = self.wait_list.wait(&self.accounts, request);
        self.first_may_have_changed(first);
        waits
    }

    /// Removes a reservation that was served, was given up or has failed.
    pub fn leave_wait_list(&mut self, stream: u32) {
        let first = self.wait_list.first();
        self.wait_list.leave(stream);
        // The next reservation of the stream is another one.
        for last in &mut self.attempts {
            last.take_if(|last| last.stream == stream);
        }
        self.first_may_have_changed(first);
    }

    /// Removes all reservations.
    pub fn clear_wait_list(&mut self) {
        self.wait_list = WaitList::default();
        self.first_may_have_changed(None);
    }

    fn first_may_have_changed(&mut self, before: Option<Request>) {
        if self.wait_list.first() != before {
            self.loans.forget();
            self.bytes_found = None;
        }
    }
}
