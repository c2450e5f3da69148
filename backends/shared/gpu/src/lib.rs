//! Parts that backends of GPUs share. None of them calls a driver.
//!
//! | module | contents |
//! | --- | --- |
//! | `cache_file` | files of caches on disk |
//! | `environment` | environment variables that choose a library |
//! | `completer` | the thread of a queue, which waits for the batches of the queue in order; the protocol of completion |
//! | `readback` | copies the bytes of a finished copy from staging blocks to their landing |
//! | `staging` | blocks of memory that host and GPU access, for copies between them |
//! | `segments` | cuts strided copies into the copies that a driver performs |

mod cache_file;
mod completer;
mod environment;
mod readback;
mod segments;
mod staging;

pub use cache_file::{CacheContents, CacheFile, cache_folder, hex};
pub use completer::Completer;
pub use environment::library_folder;
pub use readback::Readback;
pub use segments::{Segment, segments};
pub use staging::{BLOCK_BYTES, Staged, Staging, StagingBlock};
