//! Answers about the device itself.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_sync::facade::{Mutex, lock};

use crate::backend::Backend;
use crate::error::Error;
use crate::id::{Point, QueueId};
use crate::memory::Account;
use crate::message::{Op, Reply, Task, Ticket};
use crate::report::{Ask, ClientMemory, MemoryReport, MemoryUsage, QueueStats, Scope};

use super::Server;
use super::admit::Why;
use super::progress::Pages;

impl<B: Backend> Server<B> {
    /// Answers an ask. Answers to askers who are gone are dropped.
    pub(super) fn ask(&mut self, ask: Ask) {
        // Who dropped something and then asks sees it dropped.
        self.honour_drops();
        match ask {
            Ask::Sync { scope, reply } => self.sync(&scope, reply),
            Ask::Flush { scope } => {
                let streams = self.streams_of(&scope);
                self.flush_keys(&streams);
            }
            Ask::Stats(reply) => {
                self.progress();
                reply.send(Ok(self.stats()));
            }
            Ask::Metrics {
                mailbox_depth,
                reply,
            } => {
                self.progress();
                reply.send(Ok(self.metrics(mailbox_depth)));
            }
            Ask::Memory(reply) => {
                self.progress();
                let told = |(client, account): (_, Account)| ClientMemory {
                    client,
                    in_use: account.in_use,
                    high_water: account.high_water,
                    soft_limit: account.soft_limit,
                };
                let mut clients: Vec<_> = self.accounts.iter().map(told).collect();
                clients.sort_unstable_by_key(|memory| memory.client);
                let report = MemoryReport {
                    device: self.memory_usage(),
                    clients,
                    staging: self.table.sink().staging.bytes_kept(),
                };
                reply.send(Ok(report));
            }
            Ask::Cleanup(reply) => {
                self.progress();
                let mut pages = Pages(&mut self.backend, &mut self.loss);
                let bytes = self.pools.cleanup(&mut pages);
                self.table.sink().staging.clear();
                reply.send(Ok(bytes));
            }
            Ask::Lost(reply) => {
                let why = "a compilation met a lost device";
                self.loss.notice(&mut self.backend, why);
                reply.send(Err(self.loss.gone.error()));
            }
            Ask::Log(reply) => {
                let log = self.loss.journal.as_mut().map(|journal| journal.take());
                reply.send(log.ok_or(Error::NoLog));
            }
            Ask::Trace(reply) => reply.send(Ok(self.take_trace())),
            Ask::StartProfile { number, scope } => self.start_profile(number, scope),
            Ask::EndProfile {
                number,
                calls,
                reply,
            } => self.end_profile(number, calls, reply),
        }
    }

    /// Answers once all streams of the scope have issued what they hold now. Each stream that holds
    /// something carries a part of the answer in its own order; the last part gives the answer.
    fn sync(&mut self, scope: &Scope, reply: Reply) {
        let streams = self.streams_of(scope);
        let mut ticket = Ticket {
            points: self.points_of(scope, &streams),
        };
        let holding: Vec<u32> = streams
            .into_iter()
            .filter(|key| !self.streams[*key as usize].held.is_empty())
            .collect();
        if holding.is_empty() {
            reply.send(Ok(ticket));
            return;
        }
        self.flush_keys(&holding);
        let still: Vec<u32> = holding
            .iter()
            .copied()
            .filter(|key| {
                self.streams
                    .get(*key as usize)
                    .is_some_and(|stream| !stream.held.is_empty())
            })
            .collect();
        if still.is_empty() {
            ticket.points = self.points_of(&Scope::Device, &[]);
            reply.send(Ok(ticket));
            return;
        }
        ticket.points = self.points_of(&Scope::Device, &[]);
        let shared = Arc::new(SyncParts {
            reply: Mutex::new(Some((reply, ticket, still.len()))),
        });
        for stream in still {
            let mut part = Task::new(Some(self.streams[stream as usize].id), Op::Taken);
            part.op = Op::Host(Box::new(crate::message::HostWork {
                name: self.names.other.clone(),
                resources: false,
                run: part_of(shared.clone()),
                told: Some(told_of(shared.clone())),
            }));
            self.admit_unpaid(&mut part);
        }
    }

    pub(super) fn flush_keys(&mut self, streams: &[u32]) {
        for stream in streams {
            if let Some(actor) = self.streams.get(*stream as usize) {
                let last = actor.next_sequence() - 1;
                self.flush_prefix(*stream, last, Why::Asked);
            }
        }
    }

    pub(super) fn streams_of(&self, scope: &Scope) -> Vec<u32> {
        match scope {
            Scope::Streams(ids) => ids.iter().filter_map(|id| self.links.stream(*id)).collect(),
            Scope::Client(client) => self
                .streams
                .iter()
                .filter(|(_, stream)| stream.client == *client)
                .map(|(key, _)| key as u32)
                .collect(),
            Scope::Device => self.streams.iter().map(|(key, _)| key as u32).collect(),
        }
    }

    /// Where the issued work of a scope ends. For clients that is where their queues are: work of
    /// their dropped streams is there too.
    fn points_of(&self, scope: &Scope, streams: &[u32]) -> SmallVec<[Point; 2]> {
        let mut points = SmallVec::<[Point; 2]>::new();
        match scope {
            Scope::Streams(_) => {
                for stream in streams.iter().map(|key| &self.streams[*key as usize]) {
                    match points.iter_mut().find(|point| point.queue == stream.queue) {
                        Some(point) => point.cursor = point.cursor.max(stream.last),
                        None => points.push(Point::new(stream.queue, stream.last)),
                    }
                }
            }
            Scope::Client(_) | Scope::Device => {
                points.extend(
                    self.queues
                        .iter()
                        .enumerate()
                        .map(|(index, queue)| Point::new(QueueId(index as u8), queue.issued)),
                );
            }
        }
        points.retain(|point| point.cursor > 0);
        points
    }

    /// Memory, whole.
    pub(super) fn memory_usage(&self) -> MemoryUsage {
        let usage = self.pools.usage();
        MemoryUsage {
            in_use: usage.in_use,
            reserved: usage.reserved,
            padding: usage.padding,
            waiting: usage.busy,
            high_water: usage.high_water,
            live_slices: usage.live,
        }
    }

    pub(super) fn queue_stats(&self) -> Vec<QueueStats> {
        let stats = |(index, queue): (usize, &crate::stream::queue::QueueState)| QueueStats {
            tasks: queue.issued,
            completed: queue.timeline.completed().min(queue.issued),
            in_flight_max: self.options.max_in_flight as u64,
            held: queue.held,
            streams: u64::from(queue.streams),
            busy_ns: self.backend.busy_ns(QueueId(index as u8)),
        };
        self.queues.iter().enumerate().map(stats).collect()
    }
}

/// The answer to a sync over several streams that could not all go at once.
struct SyncParts {
    reply: Mutex<Option<(Reply, Ticket, usize)>>,
}

/// No part will come any more.
fn told_of(shared: Arc<SyncParts>) -> crate::message::FailFn {
    Box::new(move |error| {
        let parts = lock(&shared.reply).take();
        if let Some((reply, ..)) = parts {
            reply.send(Err(error));
        }
    })
}

/// One stream's part: when everything before it has completed, one part less is missing.
fn part_of(shared: Arc<SyncParts>) -> crate::message::HostFn {
    Box::new(move |_done, _resources| {
        let mut parts = lock(&shared.reply);
        if let Some((reply, ticket, missing)) = parts.take() {
            match missing {
                0 | 1 => reply.send(Ok(ticket)),
                more => *parts = Some((reply, ticket, more - 1)),
            }
        }
    })
}
