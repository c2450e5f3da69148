//! Assigns streams to lanes. Streams that have ended and do not overlap in time share one, so a program that makes a
//! stream for each request has as many lanes as concurrent requests.
//!
//! A stream that is still alive has a lane to itself. A lane belongs to one client.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use crate::report::TraceSpan;

/// The client and number of a stream. A reopened device numbers streams from the start.
type Key = (u32, u64);

/// The lanes of all streams.
pub(super) struct Lanes {
    of: HashMap<Key, u32>,
    lanes: Vec<StreamLane>,
}

/// A lane; its number is its index plus 1.
pub(super) struct StreamLane {
    /// The first stream on the lane.
    pub(super) first: u64,
    /// The number of streams on the lane.
    pub(super) streams: usize,
}

/// The time from a stream's first span to its last.
struct Life {
    start_ns: u64,
    end_ns: u64,
    has_ended: bool,
}

impl Lanes {
    /// Assigns the streams of these spans to lanes.
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
        // Sorted by client and start, so that the same spans always give the same file.
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
        // Lanes in use, by the end of their stream.
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

    /// Returns the number of lanes.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the lane number of a span's stream; the span must be one that `of` received. Lane numbers are not stream
    /// numbers, since viewers keep 32 bits.
    pub(super) fn number(&self, span: &TraceSpan) -> u32 {
        self.of[&(span.client, span.stream)]
    }

    /// Returns the lane with this number.
    pub(super) fn lane(&self, number: u32) -> &StreamLane {
        &self.lanes[number as usize - 1]
    }
}
