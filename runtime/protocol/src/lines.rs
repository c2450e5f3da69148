//! The lines that the threads of one launch print.

use std::collections::BTreeMap;

use millstream_ir::ssa::ThreadPosition;
use millstream_sync::facade::{Mutex, lock};

/// The most lines of one launch that are kept, those of the first threads: as many as a person reads.
pub const PRINTED_LINES_MAX: usize = 1000;

/// The lines of one launch, whose threads may run on several threads of the host.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Kept>);

/// The first lines by thread, and among those of a thread by time.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) lines: BTreeMap<(ThreadPosition, u64), (u32, String)>,
    /// The number of all lines.
    pub(crate) said: u64,
}

impl Lines {
    /// Adds a line of a thread. `text` is not called if the line is not kept.
    pub fn say(&self, thread: ThreadPosition, line: u32, text: impl FnOnce() -> String) {
        let mut kept = lock(&self.0);
        kept.said += 1;
        let key = (thread, kept.said);
        if kept.lines.len() >= PRINTED_LINES_MAX {
            match kept.lines.last_key_value() {
                Some((last, _)) if key > *last => return,
                _ => drop(kept.lines.pop_last()),
            }
        }
        kept.lines.insert(key, (line, text()));
    }

    /// Returns the lines, at the end of the launch.
    pub(crate) fn kept(self) -> Kept {
        std::mem::take(&mut lock(&self.0))
    }
}
