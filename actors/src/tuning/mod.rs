//! The clock, the file store and the background thread of tuning.
//!
//! | file | contents |
//! | --- | --- |
//! | `clock` | [`HostClock`]: measures with the host's clock |
//! | `file` | [`FileStore`]: stores choices in a file |
//! | `folder` | [`stored_choices`]: summarizes the stored files |
//! | `background` | [`Background`]: a thread that tunes in the background |

mod background;
mod clock;
mod file;
mod folder;

pub use background::Background;
pub use clock::HostClock;
pub use file::FileStore;
pub use folder::{StoredChoices, stored_choices};
