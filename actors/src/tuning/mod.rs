//! What tuning needs of the system: a clock, a file, a thread.
//!
//! | file | what it is |
//! | --- | --- |
//! | `clock` | [`HostClock`]: the host's clock as a measure |
//! | `file` | [`FileStore`]: choices that are kept in a file |
//! | `background` | [`Background`]: a thread that tunes behind the caller's back |

mod background;
mod clock;
mod file;

pub use background::Background;
pub use clock::HostClock;
pub use file::FileStore;
