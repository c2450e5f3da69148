//! Which lane each stream is drawn on. Streams that do not overlap in time share one, once they have ended: a program that makes a
//! stream for each request has as many lanes as requests at a time, not as requests.
//!
//! A stream that is still there keeps its lane to itself, however little it did. Lanes belong to one client.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use crate::TraceSpan;

/// A stream of a client. Where a device was opened anew, numbers begin anew.
type Key = (u32, u64);

/// The lanes of all streams.
pub(super) struct Lanes {
    of: HashMap<Key, u32>,
    lanes: Vec<StreamLane>,
}

/// A lane, by its number less one.
pub(super) struct StreamLane {
    /// The stream that is on it first.
    pub(super) first: u64,
    /// How many are on it.
    pub(super) streams: usize,
}

/// From its first span to its last.
struct Life {
    start_ns: u64,
    end_ns: u64,
    has_ended: bool,
}

impl Lanes {
    /// The lanes of these spans.
    pub(super) fn of(spans: &[&TraceSpan]) -> Self {
        let mut lives: HashMap<Key, Life> = HashMap::new();
        for span in spans {
            let life = lives
                .entry((span.client, span.stream))
                .or_insert_with(|| Life {
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    has_ended: false,
                });
            life.start_ns = life.start_ns.min(span.start_ns);
            life.end_ns = life.end_ns.max(span.end_ns);
            life.has_ended |= span.stream_ended;
        }
        // By client, and then as they began. An order of their own, so that a file is the same each time.
        let mut clients: BTreeMap<u32, BTreeMap<(u64, u64), Life>> = BTreeMap::new();
        for ((client, stream), life) in lives {
            let streams = clients.entry(client).or_default();
            streams.insert((life.start_ns, stream), life);
        }
        let mut all = Self {
            of: HashMap::new(),
            lanes: Vec::new(),
        };
        for (client, streams) in clients {
            all.place(client, streams);
        }
        all
    }

    fn place(&mut self, client: u32, streams: BTreeMap<(u64, u64), Life>) {
        let mut free: BTreeSet<u32> = BTreeSet::new();
        // Lanes by when their stream ends.
        let mut busy: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        for ((start_ns, stream), life) in streams {
            while let Some(Reverse((end_ns, lane))) = busy.peek().copied() {
                if end_ns > start_ns {
                    break;
                }
                busy.pop();
                free.insert(lane);
            }
            let lane = free.pop_first().unwrap_or_else(|| {
                self.lanes.push(StreamLane {
                    first: stream,
                    streams: 0,
                });
                self.lanes.len() as u32
            });
            self.lanes[lane as usize - 1].streams += 1;
            self.of.insert((client, stream), lane);
            if life.has_ended {
                busy.push(Reverse((life.end_ns, lane)));
            }
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// The number of the lane of the stream of a span, which is one of those that these are of. A lane's number is not the stream's: viewers keep 32 bits of it.
    pub(super) fn number(&self, span: &TraceSpan) -> u32 {
        self.of[&(span.client, span.stream)]
    }

    /// The lane of this number.
    pub(super) fn lane(&self, number: u32) -> &StreamLane {
        &self.lanes[number as usize - 1]
    }
}
