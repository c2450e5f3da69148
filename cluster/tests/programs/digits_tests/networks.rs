//! Networks whose ranks are in this process: each rank has a fleet and a group of its own, of one device, as in a process
//! of its own.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use millstream::{DType, FailureRef};
use millstream_cluster::{Announcement, Network, NetworkPart, Operation, Reduction};

/// What `begin` gets.
pub(crate) type Begun = Result<NetworkPart, FailureRef>;

/// The calls that have begun on some ranks.
#[derive(Default)]
struct Meeting {
    /// The parts of each call, with their ranks.
    parts: HashMap<u64, Vec<(usize, Begun)>>,
    /// Whether the fleet of a rank was dropped: no later call has all its parts.
    ended: bool,
}

/// A rank of a network that broadcasts and sums.
struct Rank {
    rank: usize,
    size: usize,
    meeting: Arc<Mutex<Meeting>>,
    calls: Mutex<Vec<Announcement>>,
}

/// Returns all ranks of a network.
pub(crate) fn ranks(size: usize) -> Vec<Arc<dyn Network>> {
    let meeting = Arc::<Mutex<Meeting>>::default();
    let rank = |rank| -> Arc<dyn Network> {
        Arc::new(Rank {
            rank,
            size,
            meeting: meeting.clone(),
            calls: Mutex::default(),
        })
    };
    (0..size).map(rank).collect()
}

impl Network for Rank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn announce(&self, call: Announcement) -> u64 {
        let mut calls = self.calls.lock().unwrap();
        calls.push(call);
        calls.len() as u64 - 1
    }

    /// The last rank moves the bytes of all.
    fn begin(&self, ticket: u64, part: Begun) {
        let call = self.calls.lock().unwrap()[ticket as usize];
        let mut meeting = self.meeting.lock().unwrap();
        if meeting.ended {
            return;
        }
        let parts = meeting.parts.entry(ticket).or_default();
        parts.push((self.rank, part));
        if parts.len() < self.size {
            return;
        }
        let Some(mut parts) = meeting.parts.remove(&ticket) else {
            return;
        };
        drop(meeting);
        parts.sort_by_key(|(rank, _)| *rank);
        finish(call, parts.into_iter().map(|(_, part)| part).collect());
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

/// Ends the parts of a call, in the order of the ranks.
fn finish(call: Announcement, parts: Vec<Begun>) {
    let cause = parts.iter().find_map(|part| part.as_ref().err().cloned());
    let mut parts: Vec<_> = parts.into_iter().flatten().collect();
    if let Some(cause) = cause {
        for part in parts {
            part.fail_by(cause.clone());
        }
        return;
    }
    let result = match call.operation {
        Operation::Broadcast { root } => parts[root].memory().unwrap().input.unwrap().to_vec(),
        Operation::AllReduce(Reduction::Sum) => match call.dtype {
            DType::F32 => sum(&mut parts, f32::from_ne_bytes, f32::to_ne_bytes),
            DType::I64 => sum(&mut parts, i64::from_ne_bytes, i64::to_ne_bytes),
            other => panic!("{other:?} is not an element of this network"),
        },
        other => panic!("{other:?} is not a call of this network"),
    };
    for mut part in parts {
        // The root of a broadcast has no output.
        if let Some(output) = part.memory().unwrap().output {
            output.copy_from_slice(&result);
        }
        part.complete();
    }
}

/// Adds the outputs of all parts, which are their inputs as well.
fn sum<T: Copy + std::ops::Add<Output = T>, const N: usize>(
    parts: &mut [NetworkPart],
    from: impl Fn([u8; N]) -> T,
    to: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    let mut sums: Option<Vec<T>> = None;
    for part in parts {
        let bytes = part.memory().unwrap().output.unwrap();
        let terms = bytes.as_chunks().0.iter().map(|bytes| from(*bytes));
        sums = Some(match sums {
            None => terms.collect(),
            Some(sums) => sums.into_iter().zip(terms).map(|(a, b)| a + b).collect(),
        });
    }
    sums.unwrap().into_iter().flat_map(to).collect()
}

/// A network of one rank that ends no part: its test does.
pub(crate) struct Held(Mutex<Sender<Begun>>);

impl Held {
    pub(crate) fn channel() -> (Arc<dyn Network>, Receiver<Begun>) {
        let (sender, begun) = mpsc::channel();
        (Arc::new(Self(Mutex::new(sender))), begun)
    }
}

impl Network for Held {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn announce(&self, _: Announcement) -> u64 {
        0
    }

    fn begin(&self, _: u64, part: Begun) {
        // After the test has failed there is no receiver. The drop of the part ends it.
        drop(self.0.lock().unwrap().send(part));
    }

    /// The parts are with the test.
    fn end(&self) {}
}
