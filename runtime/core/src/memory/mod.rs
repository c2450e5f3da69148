//! Memory pools: which range of which page a slice gets, and when a freed range may be used again.
//!
//! Plain state machines of the device thread: no thread, no clock, no atomics, no I/O. Pages come
//! from a [`PageSource`], the backend. The pools know nothing of slices, handles or streams; they
//! deal in [`Reservation`]s and in the [points](crate::hazard::points) that still use a freed range.
//!
//! ```text
//! asked bytes     where (Automatic)                               reuse before its points passed
//! 0               nowhere                                         -
//! ..= small_max   block of a chunk: one bit          blocks       same class, covered points
//! ..= page / 4    range of a shared page             shared       same class, covered points
//! more            a page of its own, cached          large        up to 1/8 larger, covered points
//! Persistent      exact fit in pages of its own      persistent   never
//! Dedicated       a page of its own, not cached      large        never
//! ```
//!
//! The life of a range (I4: never handed out while a point of it is neither covered nor passed):
//! ```text
//!            reserve                release, no points left
//!   clean ------------> in use ------------------------------> clean
//!                        ^  |  release, points left
//!     reserve, all points|  v                       passed
//!     covered            +- busy -----------------------------> clean -> coalesced, page freed
//! ```

mod accounting;
mod blocks;
mod busy;
mod class;
mod large;
mod options;
mod page;
mod persistent;
mod pools;
mod reservation;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod waiting;

pub use accounting::{Account, Accounts};
pub use options::{AllocationMode, MemoryOptions};
pub use page::{PageError, PageId, PageSource};
pub use pools::Pools;
pub use reservation::{PoolUsage, Reservation, ReserveError};
