//! Resources that are left at the end of a session.

use crate::state::State;

impl State {
    /// Returns a report for each kind of leaked resource. A destroyed context frees everything.
    pub(crate) fn leaks(&self) -> Vec<String> {
        if self.sticky.is_some() {
            return Vec::new();
        }
        let mut leaks = self.memory.leaks();
        let streams = self.streams.live.values();
        let counts = [
            (
                streams.filter(|stream| !stream.destroyed).count(),
                "streams were never destroyed",
            ),
            (self.events.len(), "events were never destroyed"),
            (self.pools.len(), "pools were never destroyed"),
            (self.graphs.graphs.len(), "graphs were never destroyed"),
            (
                self.graphs.executables.len(),
                "executable graphs were never destroyed",
            ),
            (self.modules.len(), "modules were never unloaded"),
            (
                self.primaries
                    .iter()
                    .map(|primary| primary.retained)
                    .sum::<u64>() as usize,
                "retains of the primary context were never released",
            ),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        leaks.extend(counts.map(|(count, what)| format!("leak: {count} {what}")));
        leaks
    }
}
