//! The tasks of a stream that the token of a profile covers.

use millstream_protocol::StreamId;

use super::Scheduler;

impl Scheduler {
    /// Starts to cover: `token` covers the tasks that `stream` receives from here on.
    pub(crate) fn cover(&mut self, stream: u32, token: u64) {
        let actor = self.stream_mut(stream);
        actor.covers.insert(token, actor.next_sequence()..u64::MAX);
    }

    /// Ends the cover: `token` does not cover the tasks that `stream` receives from here on. Returns the id of the
    /// stream and the first sequence that is not covered, if the token covers any.
    pub(crate) fn end_cover(&mut self, stream: u32, token: u64) -> Option<(StreamId, u64)> {
        let actor = self.stream_mut(stream);
        let until = actor.next_sequence();
        actor.covers.get_mut(&token)?.end = until;
        Some((actor.id, until))
    }

    /// Removes the cover of `token` from `stream`.
    pub(crate) fn uncover(&mut self, stream: u32, token: u64) {
        self.stream_mut(stream).covers.remove(&token);
    }

    /// Returns `true` if any token covers tasks of `stream`.
    pub(crate) fn is_covered(&self, stream: u32) -> bool {
        !self.stream(stream).covers.is_empty()
    }

    /// Iterates over the tokens that cover task `sequence` of `stream`.
    pub(crate) fn tokens_of(&self, stream: u32, sequence: u64) -> impl Iterator<Item = u64> {
        let covers = self.stream(stream).covers.iter();
        let covering = covers.filter(move |(_, tasks)| tasks.contains(&sequence));
        covering.map(|(token, _)| *token)
    }
}
