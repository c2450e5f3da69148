//! Attempts: which reservation may take memory while others wait, and when a reservation that waits is tried again. The
//! rules are at the head of the [module](super).

use super::Memory;
use super::wait_list::Request;
use millstream_protocol::PageError;

/// An attempt of a reservation that found no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attempt {
    pub(super) stream: u32,
    /// [`Pools::changes`] at that time.
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
