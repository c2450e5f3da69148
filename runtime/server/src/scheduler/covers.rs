//! Covers: which tasks of a stream the token of a profile covers.

use millstream_protocol::id::StreamId;

use super::Scheduler;
use super::actor::{Covers, StreamActor};

impl Scheduler {
    /// `token` covers the tasks that `stream` is given from here on.
    pub(crate) fn cover(&mut self, stream: u32, token: u64) {
        let actor = self.stream_mut(stream);
        // Tokens come in about the order of their numbers: nearly always this is the end.
        let at = actor.covered.partition_point(|covers| covers.token < token);
        let covers = Covers {
            token,
            from: actor.next_sequence(),
            until: u64::MAX,
        };
        actor.covered.insert(at, covers);
    }

    /// `token` does not cover the tasks that `stream` is given from here on. Returns the id of the stream with the first sequence
    /// that is not covered, if the token covers any.
    pub(crate) fn end_cover(&mut self, stream: u32, token: u64) -> Option<(StreamId, u64)> {
        let actor = self.stream_mut(stream);
        let until = actor.next_sequence();
        let at = covers_at(actor, token)?;
        actor.covered[at].until = until;
        Some((actor.id, until))
    }

    /// `token` covers no task of `stream` any more.
    pub(crate) fn uncover(&mut self, stream: u32, token: u64) {
        let actor = self.stream_mut(stream);
        if let Some(at) = covers_at(actor, token) {
            actor.covered.remove(at);
        }
    }

    /// Does any token cover tasks of `stream`?
    pub(crate) fn is_covered(&self, stream: u32) -> bool {
        !self.stream(stream).covered.is_empty()
    }

    /// The tokens that cover the task that `stream` issues next.
    pub(crate) fn tokens_of_next(&self, stream: u32) -> impl Iterator<Item = u64> {
        let actor = self.stream(stream);
        let next = actor.issued + 1;
        let covering = actor.covered.iter();
        covering
            .filter(move |covers| (covers.from..covers.until).contains(&next))
            .map(|covers| covers.token)
    }
}

/// Where a stream has the tasks that `token` covers.
fn covers_at(actor: &StreamActor, token: u64) -> Option<usize> {
    let covered = &actor.covered;
    covered
        .binary_search_by_key(&token, |covers| covers.token)
        .ok()
}
