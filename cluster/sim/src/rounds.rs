//! The messages of the collectives: which rank sends how much to which, and receives from which.
//!
//! | collective | up to `short_bytes` | above | messages of a rank | bytes of a rank |
//! | --- | --- | --- | --- | --- |
//! | all-reduce of `B` | recursive doubling | | `log n` | `B log n` |
//! | | | halving, then doubling (Rabenseifner) | `2 log n` | `2 B (n - 1) / n` |
//! | reduce-scatter to `B / n` each | | halving | `log n` | `B (n - 1) / n` |
//! | all-gather to `B` | | Bruck | `log n` | `B (n - 1) / n` |
//! | broadcast of `B` | binomial tree | | `log n` at most | `B log n` at most |
//! | | | scatter by a tree, then Bruck | `2 log n` at most | `2 B` at most |
//!
//! Logarithms are to the base of 2, rounded up. These are what MPI libraries use (Thakur, Rabenseifner and Gropp, 2005).
//! Rings are left out: they move as many bytes as halving and doubling, in `n` messages instead of `log n`.
//!
//! Of a number of ranks that is not a power of two, the ranks that are too many first give their data to a neighbour,
//! and receive the result from it at the end.

use millstream_cluster::Operation;

/// What a rank does next. The tag is the same number on the sender and on the receiver, below [`TAGS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Send {
        tag: u32,
        to: usize,
        bytes: u64,
    },
    /// Waits for a message, and combines these bytes of it with its own.
    Receive {
        tag: u32,
        from: usize,
        combined: u64,
    },
}

impl Action {
    /// Replaces the number of the other rank.
    fn renumber(&mut self, number: impl Fn(usize) -> usize) {
        let (Self::Send { to: peer, .. } | Self::Receive { from: peer, .. }) = self;
        *peer = number(*peer);
    }
}

/// The number of tags: messages that have arrived are bits of a word.
#[cfg(test)]
pub(crate) const TAGS: u32 = 64;
/// The tags of the first and the last round of ranks that are too many, and where those of other phases begin.
const FOLD: u32 = 0;
const UNFOLD: u32 = 1;
const FIRST: u32 = 2;
const SECOND: u32 = 32;

/// Returns what a rank does in a collective of `ranks` ranks, with buffers of `bytes` bytes: of the whole result of a gather,
/// or the whole input of a scatter.
pub(crate) fn actions(
    operation: Operation,
    (rank, ranks): (usize, usize),
    bytes: u64,
    short_bytes: u64,
) -> Vec<Action> {
    let is_short = bytes <= short_bytes;
    match operation {
        Operation::AllReduce(_) => folded(rank, ranks, bytes, bytes, |rank, power, actions| {
            if is_short {
                return double_all(rank, power, bytes, actions);
            }
            halve(rank, power, bytes, actions);
            double_back(rank, power, bytes, actions);
        }),
        Operation::ReduceScatter(_) => {
            let part = bytes / ranks as u64;
            folded(rank, ranks, bytes, part, |rank, power, actions| {
                halve(rank, power, bytes, actions);
            })
        }
        Operation::AllGather => gather(rank, ranks, bytes),
        Operation::Broadcast { root } => {
            let place = (rank + ranks - root) % ranks;
            let mut actions = tree(place, ranks, |subtree| match is_short {
                true => bytes,
                false => bytes * subtree as u64 / ranks as u64,
            });
            if !is_short {
                actions.extend(gather(place, ranks, bytes));
            }
            for action in &mut actions {
                action.renumber(|place| (place + root) % ranks);
            }
            actions
        }
        Operation::Send { .. } | Operation::Receive { .. } => Vec::new(),
    }
}

/// Returns the actions of an exchange among a power of two of the ranks, which the other ranks join before it, with
/// `before` bytes, and leave after it, with `after` bytes. `exchange` adds the actions of a rank of the power, counted
/// without the others.
fn folded(
    rank: usize,
    ranks: usize,
    before: u64,
    after: u64,
    exchange: impl FnOnce(usize, usize, &mut Vec<Action>),
) -> Vec<Action> {
    let power = 1 << ranks.ilog2();
    // The first ranks form this many pairs, each with a rank too many: the even one.
    let pairs = ranks - power;
    let is_paired = rank < 2 * pairs;
    if is_paired && rank.is_multiple_of(2) {
        let peer = rank + 1;
        return vec![send(FOLD, peer, before), receive(UNFOLD, peer, 0)];
    }
    let place = match is_paired {
        true => rank / 2,
        false => rank - pairs,
    };
    let mut actions = Vec::new();
    exchange(place, power, &mut actions);
    for action in &mut actions {
        action.renumber(|place| match place < pairs {
            true => 2 * place + 1,
            false => place + pairs,
        });
    }
    if is_paired {
        actions.insert(0, receive(FOLD, rank - 1, before));
        actions.push(send(UNFOLD, rank - 1, after));
    }
    actions
}

pub(crate) fn send(tag: u32, to: usize, bytes: u64) -> Action {
    Action::Send { tag, to, bytes }
}

pub(crate) fn receive(tag: u32, from: usize, combined: u64) -> Action {
    Action::Receive {
        tag,
        from,
        combined,
    }
}

/// Two ranks exchange `bytes` bytes.
fn exchange(actions: &mut Vec<Action>, tag: u32, peer: usize, bytes: u64, combined: u64) {
    actions.extend([send(tag, peer, bytes), receive(tag, peer, combined)]);
}

/// Each round doubles the number of ranks whose whole buffers are combined.
fn double_all(rank: usize, power: usize, bytes: u64, actions: &mut Vec<Action>) {
    for bit in 0..power.ilog2() {
        exchange(actions, FIRST + bit, rank ^ (1 << bit), bytes, bytes);
    }
}

/// Each round halves the part of the buffer that a rank combines.
fn halve(rank: usize, power: usize, bytes: u64, actions: &mut Vec<Action>) {
    for (bit, half) in (0..power.ilog2()).rev().zip(1..) {
        let part = bytes >> half;
        exchange(actions, FIRST + bit, rank ^ (1 << bit), part, part);
    }
}

/// Each round doubles the part of the result that a rank has.
fn double_back(rank: usize, power: usize, bytes: u64, actions: &mut Vec<Action>) {
    let bits = power.ilog2();
    for bit in 0..bits {
        let part = bytes >> (bits - bit);
        exchange(actions, SECOND + bit, rank ^ (1 << bit), part, 0);
    }
}

/// Each round doubles the blocks that a rank has: it sends those it has to a rank below, and receives from above.
fn gather(rank: usize, ranks: usize, bytes: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut blocks = 1;
    while blocks < ranks {
        let (tag, sent) = (SECOND + blocks.ilog2(), blocks.min(ranks - blocks));
        let bytes = bytes * sent as u64 / ranks as u64;
        actions.push(send(tag, (rank + ranks - blocks) % ranks, bytes));
        actions.push(receive(tag, (rank + blocks) % ranks, 0));
        blocks *= 2;
    }
    actions
}

/// A binomial tree from place 0: a rank receives from the place without its lowest bit, and then sends to those with one
/// lower bit more, each of which is the root of a subtree. `bytes` returns what such a subtree of some ranks receives.
fn tree(place: usize, ranks: usize, bytes: impl Fn(usize) -> u64) -> Vec<Action> {
    let mut actions = Vec::new();
    let lowest = match place {
        0 => ranks.next_power_of_two().ilog2(),
        _ => place.trailing_zeros(),
    };
    if place > 0 {
        actions.push(receive(FIRST + lowest, place - (1 << lowest), 0));
    }
    for bit in (0..lowest).rev() {
        let child = place + (1 << bit);
        if child < ranks {
            let subtree = (1 << bit).min(ranks - child);
            actions.push(send(FIRST + bit, child, bytes(subtree)));
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use millstream_cluster::Reduction;
    use rstest::rstest;

    use super::*;

    const BYTES: u64 = 1 << 20;

    /// Runs the actions of all ranks, and returns whose data each of them knows in the end, and the bytes that each has
    /// sent. Fails if a rank waits for a message that is never sent, or gets one that it does not receive.
    fn run(operation: Operation, ranks: usize, short_bytes: u64) -> Vec<(HashSet<usize>, u64)> {
        let all: Vec<_> = (0..ranks)
            .map(|rank| actions(operation, (rank, ranks), BYTES, short_bytes))
            .collect();
        let mut knows: Vec<_> = (0..ranks).map(|rank| HashSet::from([rank])).collect();
        let (mut at, mut sent) = (vec![0; ranks], vec![0; ranks]);
        let mut messages = HashMap::new();
        loop {
            let mut moved = false;
            for rank in 0..ranks {
                match all[rank].get(at[rank]).copied() {
                    None => continue,
                    Some(Action::Send { tag, to, bytes }) => {
                        assert!(tag < TAGS);
                        sent[rank] += bytes;
                        let old = messages.insert((rank, to, tag), knows[rank].clone());
                        assert!(old.is_none(), "rank {rank} sends tag {tag} twice");
                    }
                    Some(Action::Receive { tag, from, .. }) => {
                        let Some(message) = messages.remove(&(from, rank, tag)) else {
                            continue;
                        };
                        knows[rank].extend(message);
                    }
                }
                (at[rank], moved) = (at[rank] + 1, true);
            }
            if !moved {
                break;
            }
        }
        assert!(
            messages.is_empty(),
            "messages without receiver: {messages:?}"
        );
        for rank in 0..ranks {
            assert_eq!(at[rank], all[rank].len(), "rank {rank} waits");
        }
        knows.into_iter().zip(sent).collect()
    }

    #[rstest]
    fn every_rank_gets_the_data_of_all(
        #[values(1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 31, 33, 64)] ranks: usize,
        #[values(0, BYTES)] short_bytes: u64,
        #[values(
            Operation::AllReduce(Reduction::Sum),
            Operation::ReduceScatter(Reduction::Max),
            Operation::AllGather
        )]
        operation: Operation,
    ) {
        let everyone: HashSet<usize> = (0..ranks).collect();
        for (rank, (knows, _)) in run(operation, ranks, short_bytes).into_iter().enumerate() {
            assert_eq!(knows, everyone, "rank {rank}");
        }
    }

    #[rstest]
    fn every_rank_gets_the_data_of_the_root(
        #[values(1, 2, 3, 5, 8, 13, 64)] ranks: usize,
        #[values(0, BYTES)] short_bytes: u64,
        #[values(0, 1, 4)] root: usize,
    ) {
        let root = root % ranks;
        let found = run(Operation::Broadcast { root }, ranks, short_bytes);
        for (rank, (knows, _)) in found.iter().enumerate() {
            assert!(knows.contains(&root), "rank {rank}");
        }
    }

    /// The bytes of the module's table.
    #[rstest]
    #[case(Operation::AllReduce(Reduction::Sum), 0, 2 * BYTES * 15 / 16)]
    #[case(Operation::AllReduce(Reduction::Sum), BYTES, 4 * BYTES)]
    #[case(Operation::ReduceScatter(Reduction::Sum), 0, BYTES * 15 / 16)]
    #[case(Operation::AllGather, 0, BYTES * 15 / 16)]
    fn a_rank_sends_the_bytes_of_the_table(
        #[case] operation: Operation,
        #[case] short_bytes: u64,
        #[case] bytes: u64,
    ) {
        for (_, sent) in run(operation, 16, short_bytes) {
            assert_eq!(sent, bytes);
        }
    }
}
