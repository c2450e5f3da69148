//! Profiles: which streams a profile covers, and when it is complete.

use std::time::Duration;

use millstream_protocol::{Backend, ClientId, Error, Point, Profile, Scope};
use millstream_sync::reply::ReplySender;

use super::Server;
use millstream_state::observers::profiles::{Ended, Tokens};

impl<B: Backend> Server<B> {
    /// Starts a profile of the tasks that the streams of `scope` receive from here on.
    pub(super) fn start_profile(&mut self, number: u64, scope: Scope) {
        if let Some(token) = self.observers.profiles.to_evict() {
            self.uncover(token);
            self.observers.profiles.evict(token);
        }
        for stream in self.streams_of(&scope) {
            self.scheduler.cover(stream, number);
        }
        self.observers.profiles.start(number, scope);
        self.record_spans_if_needed();
    }

    /// Covers a new stream by the profiles of its client and of the device.
    pub(super) fn cover_new(&mut self, stream: u32, client: ClientId) {
        for token in self.observers.profiles.covering_new_stream(client) {
            self.scheduler.cover(stream, token);
        }
    }

    /// Ends a profile: it covers no task that is sent from here on. Its caller is answered once all covered tasks have
    /// completed.
    pub(super) fn end_profile(
        &mut self,
        number: u64,
        calls: Duration,
        reply: ReplySender<Result<Profile, Error>>,
    ) {
        let Some(scope) = self.observers.profiles.scope_to_end(number) else {
            return reply.send(Err(Error::NoProfile { number }));
        };
        let streams = self.streams_of(&scope);
        let scheduler = &mut self.scheduler;
        let holding = streams.iter();
        let holding = holding.filter_map(|stream| scheduler.end_cover(*stream, number));
        let ended = Ended {
            calls,
            reply,
            holding: holding.collect(),
        };
        self.observers.profiles.end(number, ended);
        self.flush_keys(&streams);
        self.progress();
    }

    /// Returns the tokens that cover task `sequence` of a stream. Cuts profiles that have no room for it.
    pub(super) fn tokens_of(&mut self, stream: u32, sequence: u64, tasks: u64) -> Tokens {
        let mut tokens: Tokens = self.scheduler.tokens_of(stream, sequence).collect();
        for index in (0..tokens.len()).rev() {
            if self.observers.profiles.is_full_for(tokens[index], tasks) {
                let token = tokens.remove(index);
                self.observers.profiles.cut(token);
                self.uncover(token);
            }
        }
        tokens
    }

    /// Removes the cover of this token from all streams.
    fn uncover(&mut self, token: u64) {
        let Some(scope) = self.observers.profiles.scope(token) else {
            return;
        };
        for stream in self.streams_of(&scope) {
            self.scheduler.uncover(stream, token);
        }
    }

    /// Adds the spans of completed tasks, and answers the profiles that are complete.
    pub(super) fn progress_profiles(&mut self, moved: bool) {
        let has_ending = self.observers.profiles.has_ending();
        if !moved && !has_ending {
            return;
        }
        let spans = self.device.backend.take_spans();
        self.observers.add_spans(spans);
        for (id, queue) in self.scheduler.numbered_queues() {
            self.observers.passed(id.index(), queue.over());
        }
        if has_ending {
            for token in self.observers.profiles.ending() {
                self.answer_if_complete(token);
            }
        }
        self.record_spans_if_needed();
    }

    /// Answers the caller of an ended profile, if its tasks have all completed.
    fn answer_if_complete(&mut self, token: u64) {
        let (objects, scheduler) = (&self.objects, &self.scheduler);
        let holds = |id, until| {
            let stream = objects.stream(id);
            stream.is_some_and(|key| scheduler.is_held(key, until - 1))
        };
        let passed = |point: Point| scheduler.is_over(point);
        let profiles = &mut self.observers.profiles;
        if profiles.is_complete(token, holds, passed) {
            self.uncover(token);
            let clock = self.device.backend.clock();
            self.observers.profiles.answer(token, clock);
        }
    }

    /// Makes the backend record spans while profiles need them.
    fn record_spans_if_needed(&mut self) {
        if let Some(is_recording) = self.observers.recording_change() {
            let spans = match is_recording {
                true => self.observers.profile_spans,
                false => 0,
            };
            let depth = self.device.backend.record_spans(spans);
            self.scheduler.limit_depth(depth);
        }
    }
}
