//! Networks for tests: one whose ranks are in this process, each with a fleet and a group of its own, as in a process of
//! its own; and one that hands the parts of its only rank to the test.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use millstream::FailureRef;
use millstream_cluster::{Announcement, Network, NetworkPart, Operation};

/// A part that begins, or why it cannot.
pub type Begun = Result<NetworkPart, FailureRef>;

/// What the parts of a call have in common: the sender and the receiver of a message, and the number of the message or
/// the collective.
type Key = (Option<(usize, usize)>, u64);

/// What a rank adds to a call that has begun there, or why it cannot.
type Added = Result<Half, FailureRef>;

enum Half {
    Part(NetworkPart),
    /// The bytes of a send whose part has ended: it does not wait for its receive.
    Buffered(Vec<u8>),
}

/// The parts of calls that have begun on some ranks, with their places in the movement of the bytes.
#[derive(Default)]
struct Meeting {
    parts: HashMap<Key, Vec<(usize, Announcement, Added)>>,
    /// Whether the fleet of a rank was dropped: no later call has all its parts.
    ended: bool,
}

/// A rank of a network whose ranks are in this process. The last rank to begin a call carries it out. Of the sends from a
/// member to another each second one waits for its receive; the others are buffered, as short ones are on real networks.
pub struct LocalNetwork {
    rank: usize,
    size: usize,
    meeting: Arc<Mutex<Meeting>>,
    calls: Mutex<Calls>,
}

/// The calls of a rank.
#[derive(Default)]
struct Calls {
    counts: HashMap<Counted, u64>,
    /// By ticket.
    made: Vec<(Key, usize, Announcement)>,
}

/// What is counted: collectives, or messages by both members and by whether this rank receives them.
type Counted = Option<((usize, usize), usize)>;

impl LocalNetwork {
    /// Returns all ranks of a network.
    pub fn ranks(size: usize) -> Vec<Arc<dyn Network>> {
        let meeting = Arc::<Mutex<Meeting>>::default();
        let rank = |rank| -> Arc<dyn Network> {
            Arc::new(Self {
                rank,
                size,
                meeting: meeting.clone(),
                calls: Mutex::default(),
            })
        };
        (0..size).map(rank).collect()
    }
}

impl Network for LocalNetwork {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn announce(&self, call: Announcement) -> u64 {
        let (pair, place) = match call.operation {
            Operation::Send { from, to } => (Some((from, to)), 0),
            Operation::Receive { from, to } => (Some((from, to)), 1),
            Operation::Broadcast { root } if root == self.rank => (None, 0),
            _ => (None, self.rank + 1),
        };
        if let Some((from, to)) = pair {
            let own = [from, to][place] / call.devices;
            assert_eq!(own, self.rank, "the member is another rank's");
        }
        let mut calls = self.calls.lock().unwrap();
        let count = calls.counts.entry(pair.map(|pair| (pair, place)));
        let count = count.or_default();
        let key = (pair, *count);
        *count += 1;
        calls.made.push((key, place, call));
        calls.made.len() as u64 - 1
    }

    fn begin(&self, ticket: u64, part: Begun) {
        let (key, place, call) = self.calls.lock().unwrap().made[ticket as usize];
        let is_buffered = matches!(call.operation, Operation::Send { .. }) && key.1 % 2 == 0;
        let half = part.map(|mut part| match is_buffered {
            false => Half::Part(part),
            true => {
                let bytes = part.memory().unwrap().input.unwrap().to_vec();
                part.complete();
                Half::Buffered(bytes)
            }
        });
        let mut meeting = self.meeting.lock().unwrap();
        if meeting.ended {
            return;
        }
        let halves = meeting.parts.entry(key).or_default();
        halves.push((place, call, half));
        if halves.len() < key.0.map_or(self.size, |_| 2) {
            return;
        }
        let mut halves = meeting.parts.remove(&key).unwrap();
        drop(meeting);
        halves.sort_by_key(|(place, ..)| *place);
        let texts = halves.iter().map(|(_, call, _)| call.to_string());
        assert!(
            texts.clone().all(|text| text == call.to_string()),
            "all ranks call the same: {:?}",
            texts.collect::<Vec<_>>()
        );
        let (mut parts, mut buffered, mut cause) = (Vec::new(), None, None);
        for (.., half) in halves {
            match half {
                Ok(Half::Part(part)) => parts.push(part),
                Ok(Half::Buffered(bytes)) => buffered = Some(bytes),
                Err(why) => cause = cause.or(Some(why)),
            }
        }
        match (cause, buffered) {
            (Some(cause), _) => parts.into_iter().for_each(|it| it.fail_by(cause.clone())),
            (None, Some(bytes)) => {
                let mut receiver = parts.remove(0);
                let output = receiver.memory().unwrap().output.unwrap();
                output.copy_from_slice(&bytes);
                receiver.complete();
            }
            (None, None) => {
                call.carry_out(parts.iter_mut()).unwrap();
                parts.into_iter().for_each(NetworkPart::complete);
            }
        }
    }

    /// Drops the parts that wait for a rank, which fails them.
    fn end(&self) {
        let mut meeting = self.meeting.lock().unwrap();
        meeting.ended = true;
        let parts = std::mem::take(&mut meeting.parts);
        drop(meeting);
        drop(parts);
    }
}

/// A network of one rank that hands its parts to the test, which ends them.
pub struct Handover {
    takes_device_memory: bool,
    calls: Mutex<Vec<Announcement>>,
    begun: Sender<(Announcement, Begun)>,
}

impl Handover {
    pub fn channel(
        takes_device_memory: bool,
    ) -> (Arc<dyn Network>, Receiver<(Announcement, Begun)>) {
        let (begun, parts) = channel();
        let network = Self {
            takes_device_memory,
            calls: Mutex::default(),
            begun,
        };
        (Arc::new(network), parts)
    }
}

impl Network for Handover {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn takes_device_memory(&self, _: &Announcement) -> bool {
        self.takes_device_memory
    }

    fn announce(&self, call: Announcement) -> u64 {
        let mut calls = self.calls.lock().unwrap();
        calls.push(call);
        calls.len() as u64 - 1
    }

    fn begin(&self, ticket: u64, part: Begun) {
        let call = self.calls.lock().unwrap()[ticket as usize];
        // After the test has failed there is no receiver. The drop of the part ends it.
        let _ = self.begun.send((call, part));
    }

    /// The parts are with the test.
    fn end(&self) {}
}
