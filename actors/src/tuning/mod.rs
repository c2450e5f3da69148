//! What tuning needs of the system: a clock, a file, a thread.
//!
//! | file | what it is |
//! | --- | --- |
//! | `clock` | [`HostClock`]: the host's clock as a measure |
//! | `file` | [`FileStore`]: choices that are kept in a file |
//! | `folder` | [`kept_choices`]: what such files there are |
//! | `background` | [`Background`]: a thread that tunes behind the caller's back |

mod background;
mod clock;
mod file;
mod folder;

pub use background::Background;
pub use clock::HostClock;
pub use file::FileStore;
pub use folder::{KeptChoices, kept_choices};
