//! Loans: memory that others have taken while a reservation waits as the first.
//!
//! Others may use the memory of the device that the first reservation will not need once everything that is dropped now
//! has returned: the bytes of the device less those of the first. What they *use* is
//!
//! ```text
//!   slices with handles  +  loans that are dropped and whose last use has not passed
//! ```
//! A slice that was dropped, and was not a loan, returns once and for all: its memory counts as free before its last
//! use has passed. A loan counts until then. Otherwise a loop of another client, with many tasks in flight, could use
//! all that returns again and again. So everything that is dropped and no loan only becomes less, and in the end the
//! first reservation has its bytes, unless the free memory is in pieces (I6, I12).
//!
//! A budget that only shrinks, of the bytes that were free when the first one came, leaves other clients nothing after
//! a few small buffers. A promise to serve the first one within some number of turns bounds turns, not bytes. A slice
//! that a value to be dropped owns counts as live, since the server does not know what a value owns.

use std::collections::HashMap;

use millstream_protocol::PageId;

use super::pools::Reservation;

/// A range of a page: the page, and its first byte.
type Range = (PageId, u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loan {
    /// Its slice has a handle.
    Live,
    /// Its slice is dropped, and held tasks name it.
    Dropped,
    /// It was freed, and some point still uses it.
    Busy,
}

/// The loans of the first reservation, and the bytes of dropped slices.
#[derive(Default, Debug)]
pub(super) struct Loans {
    ranges: HashMap<Range, Loan>,
    /// The bytes of loans that are busy.
    busy: u64,
    /// The bytes of loans that are dropped.
    dropped: u64,
    /// The bytes of all dropped slices that held tasks name.
    all_dropped: u64,
}

impl Loans {
    /// Returns the bytes that others use, given the bytes of all slices.
    pub(super) fn used(&self, in_use: u64) -> u64 {
        let returning = self.all_dropped - self.dropped;
        debug_assert!(
            returning <= in_use,
            "{returning} dropped bytes of {in_use} in use"
        );
        in_use.saturating_sub(returning) + self.busy
    }

    /// Records that a range was granted while another reservation waits as the first.
    pub(super) fn lend(&mut self, reservation: &Reservation) {
        let before = self.ranges.insert(range(reservation), Loan::Live);
        if before == Some(Loan::Busy) {
            self.busy -= reservation.bytes;
        }
    }

    /// Records that a slice was dropped and that held tasks name it.
    pub(super) fn dropped(&mut self, reservation: &Reservation) {
        self.all_dropped += reservation.bytes;
        if let Some(loan) = self.ranges.get_mut(&range(reservation)) {
            *loan = Loan::Dropped;
            self.dropped += reservation.bytes;
        }
    }

    /// Records that the last held task that names a dropped slice was issued.
    pub(super) fn not_held(&mut self, reservation: &Reservation) {
        self.all_dropped -= reservation.bytes;
        if let Some(loan) = self.ranges.get_mut(&range(reservation))
            && *loan == Loan::Dropped
        {
            *loan = Loan::Live;
            self.dropped -= reservation.bytes;
        }
    }

    /// Records that a range was freed; some point still uses it if `is_busy`.
    #[inline]
    pub(super) fn freed(&mut self, reservation: &Reservation, is_busy: bool) {
        if self.ranges.is_empty() {
            return;
        }
        match (self.ranges.get_mut(&range(reservation)), is_busy) {
            (Some(loan), true) => {
                *loan = Loan::Busy;
                self.busy += reservation.bytes;
            }
            (Some(_), false) => _ = self.ranges.remove(&range(reservation)),
            (None, _) => {}
        }
    }

    /// Records that no point uses a freed range any more.
    #[inline]
    pub(super) fn clean(&mut self, reservation: &Reservation) {
        if !self.ranges.is_empty() && self.ranges.remove(&range(reservation)).is_some() {
            self.busy -= reservation.bytes;
        }
    }

    /// Forgets all loans, since another reservation is the first now: what is dropped returns once for that one.
    pub(super) fn forget(&mut self) {
        self.ranges.clear();
        (self.busy, self.dropped) = (0, 0);
    }
}

fn range(reservation: &Reservation) -> Range {
    (reservation.page, reservation.offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pools::test_reservation;

    #[test]
    fn dropped_memory_counts_as_free_and_a_loan_only_when_it_is_clean_i6() {
        let (old, new) = (test_reservation(1, 0, 100), test_reservation(1, 100, 40));
        let mut loans = Loans::default();
        loans.dropped(&old);
        assert_eq!(loans.used(100), 0);
        loans.lend(&new);
        assert_eq!(loans.used(140), 40);
        loans.dropped(&new);
        assert_eq!(loans.used(140), 40);
        loans.not_held(&new);
        loans.freed(&new, true);
        assert_eq!(loans.used(100), 40);
        // A queue that comes after its last use takes it again.
        loans.lend(&new);
        assert_eq!(loans.used(140), 40);
        loans.freed(&new, true);
        loans.not_held(&old);
        loans.freed(&old, true);
        assert_eq!(loans.used(0), 40);
        loans.clean(&old);
        loans.clean(&new);
        assert_eq!(loans.used(0), 0);
    }

    #[test]
    fn next_reservation_begins_without_loans() {
        let (dropped, busy) = (test_reservation(1, 0, 10), test_reservation(1, 10, 20));
        let mut loans = Loans::default();
        loans.lend(&dropped);
        loans.lend(&busy);
        loans.dropped(&dropped);
        loans.freed(&busy, true);
        assert_eq!(loans.used(10), 30);
        loans.forget();
        assert_eq!(loans.used(10), 0);
        loans.clean(&busy);
        loans.not_held(&dropped);
        loans.freed(&dropped, false);
        assert_eq!(loans.used(0), 0);
    }
}
