//! Pages of device memory, and the options of the pools that divide them.

mod options;
mod page;

pub use options::{AllocationMode, MemoryOptions};
pub use page::{PageError, PageId};
