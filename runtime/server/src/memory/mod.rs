//! Memory: who has which bytes of the device, and who waits for some.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`pools`] | which range of which page a reservation gets, and when a freed range may be used again |
//! | [`accounts`] | what each client holds, and whether that is above its soft limit |
//! | `wait_list` | which of the reservations that wait is the next, and what others may take meanwhile |
//!
//! `Memory` owns the three. It knows nothing of slices and of tasks: a stream is a number here, and whether a use has
//! passed is asked of the caller.

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

/// The memory of a device: its pools, its clients' accounts, and the line of those that wait.
pub(crate) struct Memory {
    pools: Pools,
    accounts: Accounts,
    wait_list: WaitList,
    /// What the device has, where it says so.
    device_bytes: Option<u64>,
}

/// How a reservation is to be served.
#[derive(Clone, Copy)]
pub(crate) struct ReserveOptions {
    pub(crate) mode: AllocationMode,
    /// Where it will be used first.
    pub(crate) queue: QueueId,
    /// It was in the line, or may have been: tasks of other streams may wait for it.
    pub(crate) has_waited: bool,
}

/// Memory for a reservation.
pub(crate) struct Granted {
    pub(crate) reservation: Reservation,
    /// What still uses it.
    pub(crate) residue: Points,
    /// The client has gone above its soft limit by it.
    pub(crate) crosses_limit: bool,
}

impl Memory {
    /// No pages, no clients. Slices start at multiples of `alignment`; the device has `device_bytes`, where it says so.
    pub(crate) fn new(options: MemoryOptions, alignment: u64, device_bytes: Option<u64>) -> Self {
        Self {
            pools: Pools::new(options, alignment),
            accounts: Accounts::default(),
            wait_list: WaitList::default(),
            device_bytes,
        }
    }

    /// Memory for a slice, if there is some that those in the line do not need.
    ///
    /// `covered` says of a use whether it comes before this slice's first anyway: then its range may be taken already.
    ///
    /// # Errors
    /// There is none now, or never.
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

    /// A slice is gone. Its range may be used again once the points `busy` have passed.
    pub(crate) fn release(&mut self, client: ClientId, reservation: Reservation, busy: Points) {
        if self.accounts.credit(client, reservation.bytes) {
            self.pools.evict_first(&reservation);
        }
        self.pools.release(reservation, busy);
    }

    /// Does a freed range wait for its last use?
    #[inline]
    pub(crate) fn has_busy(&self) -> bool {
        self.pools.has_busy()
    }

    /// The first point of a queue that a freed range waits for.
    pub(crate) fn oldest_busy(&self, queue: QueueId) -> Option<Cursor> {
        self.pools.oldest_busy(queue)
    }

    /// Everything on `queue` up to `cursor` has passed.
    pub(crate) fn passed(&mut self, queue: QueueId, cursor: Cursor) {
        self.pools.passed(queue, cursor);
    }

    /// Are there more free pages than are to be kept?
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        self.pools.has_due()
    }

    /// Gives those back.
    pub(crate) fn trim(&mut self, pages: &mut dyn PageSource) {
        self.pools.trim(pages);
    }

    /// Gives every free page back, and tells their bytes.
    pub(crate) fn cleanup(&mut self, pages: &mut dyn PageSource) -> u64 {
        self.pools.cleanup(pages)
    }

    /// What the pools have.
    pub(crate) fn usage(&self) -> PoolUsage {
        self.pools.usage()
    }

    /// Bytes of the device that no slice has, where it says how many it has.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let usage = self.pools.usage();
        let all = self.device_bytes?;
        Some(all.saturating_sub(usage.in_use + usage.busy))
    }

    /// The clients' accounts.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The same, for clients that come and go.
    pub(crate) fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// Does no reservation wait?
    #[inline]
    pub(crate) fn is_wait_list_empty(&self) -> bool {
        self.wait_list.is_empty()
    }

    /// The stream whose reservation is the next to be served.
    pub(crate) fn first_waiting(&self) -> Option<u32> {
        self.wait_list.first()
    }

    /// The streams whose reservations wait, in the order in which they are served.
    pub(crate) fn waiting_streams(&self) -> impl Iterator<Item = u32> {
        self.wait_list.streams()
    }

    /// Would this one's reservation take its client above its soft limit?
    pub(crate) fn exceeds_soft_limit(&self, stream: u32) -> bool {
        self.wait_list.exceeds_soft_limit(&self.accounts, stream)
    }

    /// A reservation that was asked for at this position of the mailbox waits, behind those that go first. Says no where it does so
    /// already.
    pub(crate) fn wait(&mut self, request: Request, position: u64) -> bool {
        let waits = self.wait_list.wait(&self.accounts, request, position);
        if waits && self.wait_list.first() == Some(request.stream) {
            self.update_budget();
        }
        waits
    }

    /// Puts the line in order again, as what clients hold has changed, without the streams that are gone.
    pub(crate) fn sort_wait_list(&mut self, lives: impl Fn(u32) -> bool) {
        let first = self.wait_list.retain(lives);
        self.wait_list.sort(&self.accounts);
        if self.wait_list.first() != first {
            self.update_budget();
        }
    }

    /// A reservation has been served, or has failed.
    pub(crate) fn leave_wait_list(&mut self, stream: u32) {
        self.give_up(stream);
        self.wait_list.sort(&self.accounts);
        self.update_budget();
    }

    /// A reservation fails, so that others need not.
    pub(crate) fn give_up(&mut self, stream: u32) {
        self.wait_list.retain(|other| other != stream);
    }

    /// Nobody waits any more.
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
