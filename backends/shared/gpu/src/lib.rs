//! Parts that backends of GPUs share. None of them calls a driver.
//!
//! | module | contents |
//! | --- | --- |
//! | `cache_file` | files of caches on disk |
//! | `environment` | environment variables that choose a library; the errors of opening what is not available |
//! | `completer` | the thread of a queue, which waits for the batches of the queue in order; the protocol of completion |
//! | `copies` | what copies within a device must satisfy, and the memory that the copies of a batch use |
//! | `pages` | the table of pages, and their limits |
//! | `program` | lowers programs of the IR, and selects the function of a launch |
//! | `readback` | copies the bytes of a finished copy from staging blocks to their landing |
//! | `staging` | blocks of memory that host and GPU access, for copies between them |
//! | `segments` | cuts strided copies into the copies that a driver performs |
//! | `spans` | the times of tasks until the server takes them |

/// Defines setters of options: each with its documentation, its argument, and the field that it sets.
#[macro_export]
macro_rules! setters {
    ($options:ident: $(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $type:ty)?) => $field:ident = $value:expr;
    )*) => {
        impl $options {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self $(, $argument: $type)?) -> Self {
                self.$field = $value;
                self
            }
        )*}
    };
}

mod cache_file;
mod completer;
mod copies;
mod environment;
mod pages;
mod program;
mod readback;
mod segments;
mod spans;
mod staging;

pub use cache_file::{CacheContents, CacheFile, CacheFolder, cache_folder, hex};
pub use completer::Completer;
pub use copies::{BatchMemory, check_copy, host_len};
pub use environment::{library_folder, select, unavailable};
pub use pages::{Pages, Place};
pub use program::{Variants, compile_error};
pub use readback::Readback;
pub use segments::{Segment, readback_segments, segments};
pub use spans::Spans;
pub use staging::{BLOCK_BYTES, Staged, Staging, StagingBlock};
