//! Profiles begin and end: which streams they cover, and when they are complete.

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::Backend;
use millstream_protocol::error::{Error, ProfileError};
use millstream_protocol::id::{ClientId, Cursor, Point};
use millstream_protocol::message::Scope;
use millstream_protocol::profile::Profile;
use millstream_sync::reply::ReplySender;

use super::Server;
use crate::observers::profiles::{Ended, Tokens};

impl<B: Backend> Server<B> {
    /// What the streams of `scope` are sent from here on is the profile's.
    pub(super) fn start_profile(&mut self, number: u64, scope: Scope) {
        if let Some(token) = self.observers.profiles().surplus() {
            self.uncover(token);
            self.observers.profiles_mut().forget(token);
        }
        for stream in self.streams_of(&scope) {
            self.scheduler.cover(stream, number);
        }
        self.observers.profiles_mut().start(number, scope);
        self.record_spans_if_needed();
    }

    /// A new stream is in the profiles of its client, and of the device.
    pub(super) fn cover_new(&mut self, stream: u32, client: ClientId) {
        for token in self.observers.profiles().of_new_stream(client) {
            self.scheduler.cover(stream, token);
        }
    }

    /// What is sent from here on is not the profile's. It is told once what was sent before is over.
    pub(super) fn end_profile(
        &mut self,
        number: u64,
        calls: Duration,
        reply: ReplySender<Result<Profile, Error>>,
    ) {
        let profiles = self.observers.profiles();
        let can_end = profiles.can_end(number);
        let Some(scope) = profiles.scope(number).filter(|_| can_end) else {
            return reply.send(Err(ProfileError::Unknown.into()));
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
        self.observers.profiles_mut().end(number, ended);
        self.flush_keys(&streams);
        self.progress();
    }

    /// The tokens that cover the task that a stream issues next.
    pub(super) fn tokens_of_next(&mut self, stream: u32, tasks: u64) -> Tokens {
        let mut tokens: Tokens = self.scheduler.tokens_of_next(stream).collect();
        for index in (0..tokens.len()).rev() {
            if self.observers.profiles().is_full_for(tokens[index], tasks) {
                let token = tokens.remove(index);
                self.observers.profiles_mut().cut(token);
                self.uncover(token);
            }
        }
        tokens
    }

    /// No stream has anything of this token any more.
    fn uncover(&mut self, token: u64) {
        let Some(scope) = self.observers.profiles().scope(token) else {
            return;
        };
        for stream in self.streams_of(&scope) {
            self.scheduler.uncover(stream, token);
        }
    }

    /// The task at `point` is of these profiles.
    pub(super) fn note_profiled(&mut self, point: Point, name: &Arc<str>, tokens: &Tokens) {
        self.observers.profiles_mut().note(point, name, tokens);
    }

    /// Takes up the times of what is over, and tells the profiles that are complete.
    pub(super) fn progress_profiles(&mut self, moved: bool) {
        let asked = self.observers.profiles().are_asked();
        if !moved && !asked {
            return;
        }
        let spans = self.device.take_spans();
        self.observers.take_up(spans);
        for (id, queue) in self.scheduler.numbered_queues() {
            let idle = queue.in_flight() == 0;
            let until = if idle { Cursor::MAX } else { queue.completed() };
            self.observers.profiles_mut().passed(id.index(), until);
        }
        if asked {
            for token in self.observers.profiles().asked() {
                self.tell_if_complete(token);
            }
        }
        self.record_spans_if_needed();
    }

    /// Tells a profile that was asked for, if its tasks are all over.
    fn tell_if_complete(&mut self, token: u64) {
        let (objects, scheduler) = (&self.objects, &self.scheduler);
        let holds = |id, until| {
            let stream = objects.stream(id);
            stream.is_some_and(|key| scheduler.is_held(key, until - 1))
        };
        let passed = |point: Point| scheduler.is_over(point);
        let profiles = self.observers.profiles_mut();
        if profiles.is_complete(token, holds, passed) {
            self.uncover(token);
            let clock = self.device.backend().clock();
            self.observers.profiles_mut().tell(token, clock);
        }
    }

    /// The backend records spans while profiles need them.
    fn record_spans_if_needed(&mut self) {
        if let Some(records) = self.observers.change_of_records() {
            let room = match records {
                true => self.observers.profile_spans(),
                false => 0,
            };
            let depth = self.device.record_spans(room);
            self.scheduler.limit_depth(depth);
        }
    }
}
