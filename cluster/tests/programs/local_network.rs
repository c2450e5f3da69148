//! A network whose ranks are in this process, for sends and receives: each rank has a fleet and a group of its own, as in
//! a process of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use millstream::FailureRef;
use millstream_cluster::{Announcement, Network, NetworkPart, Operation};

/// A message by the members that send and receive it and its number among theirs.
type Message = (usize, usize, u64);

/// The half of a message that came first.
enum Half {
    Sent(Result<Vec<u8>, FailureRef>),
    /// The receiver's part, and its rank.
    Receiving(NetworkPart, usize),
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
    /// By ticket: the messages, and whether this rank sends them.
    messages: Vec<(Message, bool)>,
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
            (Half::Sent(sent), Half::Receiving(part, _))
            | (Half::Receiving(part, _), Half::Sent(sent)) => deliver(sent, part),
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
        let (from, to, is_sender) = match call.operation {
            Operation::Send { from, to } => (from, to, true),
            Operation::Receive { from, to } => (from, to, false),
            other => panic!("{other:?} is not a part of this network"),
        };
        let mut calls = self.calls.lock().unwrap();
        let own = if is_sender { from } else { to };
        assert_eq!(
            own / call.devices,
            self.rank,
            "the member is another rank's"
        );
        let count = calls.counts.entry((from, to)).or_default();
        let message = (from, to, *count);
        *count += 1;
        calls.messages.push((message, is_sender));
        calls.messages.len() as u64 - 1
    }

    fn begin(&self, ticket: u64, part: Result<NetworkPart, FailureRef>) {
        let (message, is_sender) = self.calls.lock().unwrap().messages[ticket as usize];
        match (is_sender, part) {
            (true, Ok(mut part)) => {
                let bytes = part.memory().unwrap().input.unwrap().to_vec();
                part.complete();
                self.meet(message, Half::Sent(Ok(bytes)));
            }
            (true, Err(cause)) => self.meet(message, Half::Sent(Err(cause))),
            (false, Ok(part)) => self.meet(message, Half::Receiving(part, self.rank)),
            // Its sender has ended or will end by itself.
            (false, Err(_)) => {}
        }
    }

    fn end(&self) {
        let mut wires = self.wires.lock().unwrap();
        let receives =
            |half: &mut Half| matches!(half, Half::Receiving(_, rank) if *rank == self.rank);
        let receiving = wires.extract_if(|_, half| receives(half));
        let receiving: Vec<_> = receiving.collect();
        drop(wires);
        // The drop of a part fails it.
        drop(receiving);
    }
}
