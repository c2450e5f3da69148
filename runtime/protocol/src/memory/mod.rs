//! Device memory as clients, the server and backends speak of it: pages, and how the pools are to keep them.

mod options;
mod page;

pub use options::{AllocationMode, MemoryOptions};
pub use page::{PageError, PageId};
