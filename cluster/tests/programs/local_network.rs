//! A network whose ranks are in this process, for sends and receives: each rank has a fleet and a group of its own, of
//! one device, as in a process of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use millstream::FailureRef;
use millstream_cluster::{Announcement, Network, NetworkPart, Operation};

/// A message by its sender, its receiver and its number among theirs.
type Message = (usize, usize, u64);

/// The half of a message that came first.
enum Half {
    Sent(Result<Vec<u8>, FailureRef>),
    Receiving(NetworkPart),
}

type Wires = Mutex<HashMap<Message, Half>>;

/// A rank of the network.
pub(crate) struct LocalNetwork {
    rank: usize,
    size: usize,
    wires: Arc<Wires>,
    calls: Mutex<Calls>,
}

/// The calls of a rank.
#[derive(Default)]
struct Calls {
    /// The numbers of messages by sender and receiver.
    counts: HashMap<(usize, usize), u64>,
    messages: Vec<Message>,
}

impl LocalNetwork {
    /// Returns all ranks of a network.
    pub(crate) fn ranks(size: usize) -> Vec<Arc<dyn Network>> {
        let wires = Arc::<Wires>::default();
        let rank = |rank| -> Arc<dyn Network> {
            Arc::new(Self {
                rank,
                size,
                wires: wires.clone(),
                calls: Mutex::default(),
            })
        };
        (0..size).map(rank).collect()
    }

    /// Adds a half of a message. The second one moves the bytes.
    fn meet(&self, message: Message, half: Half) {
        let mut wires = self.wires.lock().unwrap();
        let Some(other) = wires.remove(&message) else {
            wires.insert(message, half);
            return;
        };
        drop(wires);
        match (half, other) {
            (Half::Sent(sent), Half::Receiving(part))
            | (Half::Receiving(part), Half::Sent(sent)) => deliver(sent, part),
            _ => panic!("message {message:?} has two halves of one kind"),
        }
    }
}

fn deliver(sent: Result<Vec<u8>, FailureRef>, mut part: NetworkPart) {
    match sent {
        Ok(bytes) => {
            let output = part.memory().unwrap().output.unwrap();
            output.copy_from_slice(&bytes);
            part.complete();
        }
        Err(cause) => part.fail_by(cause),
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
        let (from, to) = match call.operation {
            Operation::Send { to } => (self.rank, to),
            Operation::Receive { from } => (from, self.rank),
            other => panic!("{other:?} is not a part of this network"),
        };
        let mut calls = self.calls.lock().unwrap();
        let count = calls.counts.entry((from, to)).or_default();
        let message = (from, to, *count);
        *count += 1;
        calls.messages.push(message);
        calls.messages.len() as u64 - 1
    }

    fn begin(&self, ticket: u64, part: Result<NetworkPart, FailureRef>) {
        let message = self.calls.lock().unwrap().messages[ticket as usize];
        let is_sender = message.0 == self.rank;
        match (is_sender, part) {
            (true, Ok(mut part)) => {
                let bytes = part.memory().unwrap().input.unwrap().to_vec();
                part.complete();
                self.meet(message, Half::Sent(Ok(bytes)));
            }
            (true, Err(cause)) => self.meet(message, Half::Sent(Err(cause))),
            (false, Ok(part)) => self.meet(message, Half::Receiving(part)),
            // Its sender has ended or will end by itself.
            (false, Err(_)) => {}
        }
    }

    fn end(&self) {
        let mut wires = self.wires.lock().unwrap();
        let receiving = wires
            .extract_if(|(_, to, _), half| *to == self.rank && matches!(half, Half::Receiving(_)));
        let receiving: Vec<_> = receiving.collect();
        drop(wires);
        // The drop of a part fails it.
        drop(receiving);
    }
}
