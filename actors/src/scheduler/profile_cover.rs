//! The tasks of a stream that the token of a profile covers.

use millstream_protocol::id::StreamId;

use super::Scheduler;
use crate::stream_actor::{Cover, StreamActor};

impl Scheduler {
    /// Starts to cover: `token` covers the tasks that `stream` receives from here on.
    pub(crate) fn cover(&mut self, stream: u32, token: u64) {
        let actor = self.stream_mut(stream);
        // Tokens come nearly in the order of their numbers, so this is nearly always the end.
        let at = actor.covers.partition_point(|covers| covers.token < token);
        let covers = Cover {
            token,
            from: actor.next_sequence(),
            until: u64::MAX,
        };
        actor.covers.insert(at, covers);
    }

    /// Ends the cover: `token` does not cover the tasks that `stream` receives from here on. Returns the id of the
    /// stream and the first sequence that is not covered, if the token covers any.
    pub(crate) fn end_cover(&mut self, stream: u32, token: u64) -> Option<(StreamId, u64)> {
        let actor = self.stream_mut(stream);
        let until = actor.next_sequence();
        let at = cover_index(actor, token)?;
        actor.covers[at].until = until;
        Some((actor.id, until))
    }

    /// Removes the cover of `token` from `stream`.
    pub(crate) fn uncover(&mut self, stream: u32, token: u64) {
        let actor = self.stream_mut(stream);
        if let Some(at) = cover_index(actor, token) {
            actor.covers.remove(at);
        }
    }

    /// Returns `true` if any token covers tasks of `stream`.
    pub(crate) fn is_covered(&self, stream: u32) -> bool {
        !self.stream(stream).covers.is_empty()
    }

    /// Iterates over the tokens that cover the next task that `stream` issues.
    pub(crate) fn tokens_of_next(&self, stream: u32) -> impl Iterator<Item = u64> {
        let actor = self.stream(stream);
        let next = actor.issued + 1;
        let covering = actor.covers.iter();
        covering
            .filter(move |covers| (covers.from..covers.until).contains(&next))
            .map(|covers| covers.token)
    }
}

/// Returns the index of the cover of `token`.
fn cover_index(actor: &StreamActor, token: u64) -> Option<usize> {
    let covers = &actor.covers;
    covers
        .binary_search_by_key(&token, |covers| covers.token)
        .ok()
}
