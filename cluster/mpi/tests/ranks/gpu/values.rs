//! What the calls of ranks with CUDA devices compute, and by which way their bytes move.

use millstream::{Element, Handle, bf16};
use millstream_cluster::{Reducible, Reduction};
use millstream_mpi::World;

use super::double;
use super::driver::{self, Copies};
use super::{PIECE, Rig};

/// The elements of a piece.
const PIECE_LEN: usize = PIECE / size_of::<u32>();

fn value(rank: usize, index: usize) -> u32 {
    (index * 7 + rank * 1_000_003 + 1) as u32
}

fn values(rank: usize, len: usize) -> Vec<u32> {
    (0..len).map(|index| value(rank, index)).collect()
}

/// Calls everything with this number of elements, and compares the results.
fn every_call(rig: &Rig, len: usize) {
    let rank = &rig.rank;
    let (own, size) = (rank.rank, rank.size);
    let sum =
        |index: usize| (0..size).fold(0_u32, |sum, rank| sum.wrapping_add(value(rank, index)));

    let buffer = rank.create(&values(own, len));
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    // Tasks after it wait for it.
    rank.group.all_reduce(Reduction::Max, &[&buffer]).unwrap();
    same(&rank.read(&buffer), &(0..len).map(sum).collect::<Vec<_>>());

    for root in [0, size - 1] {
        let buffer = rank.create(&values(own, len));
        rank.group.broadcast(root, &[&buffer]).unwrap();
        same(&rank.read(&buffer), &values(root, len));
    }

    let (part, whole) = (rank.create(&values(own, len)), empty(rig, len * size));
    rank.group.all_gather(&[&part], &[&whole]).unwrap();
    let all: Vec<u32> = (0..size).flat_map(|rank| values(rank, len)).collect();
    same(&rank.read(&whole), &all);
    rank.group
        .reduce_scatter(Reduction::Sum, &[&whole], &[&part])
        .unwrap();
    let scaled = values(own, len)
        .into_iter()
        .map(|value| value.wrapping_mul(size as u32));
    same(&rank.read(&part), &scaled.collect::<Vec<_>>());

    let (to, from) = ((own + 1) % size, (own + size - 1) % size);
    let (sent, received) = (rank.create(&values(own, len)), empty(rig, len));
    rank.group.send(to, &sent).unwrap();
    rank.group.receive(from, &received).unwrap();
    same(&rank.read(&received), &values(from, len));
    // A write comes after the send, which has ended then: its calls are not counted later.
    rank.stream().fill(&sent, 0).unwrap();
    rank.read(&sent);
}

/// Compares the elements, of which a failure shows the first that differ.
fn same<T: PartialEq + std::fmt::Debug>(actual: &[T], expected: &[T]) {
    assert_eq!(actual.len(), expected.len());
    let mut pairs = actual.iter().zip(expected);
    if let Some(at) = pairs.position(|(actual, expected)| actual != expected) {
        panic!(
            "element {at} is {:?}, expected {:?}",
            actual[at], expected[at]
        );
    }
}

fn empty(rig: &Rig, len: usize) -> Handle<u32> {
    rig.rank.stream().empty(len).unwrap()
}

/// Runs calls, and returns the copies of the device meanwhile.
fn copies_of(rig: &Rig, calls: impl FnOnce()) -> Copies {
    rig.rank.stream().sync().wait().unwrap();
    let before = driver::copies();
    calls();
    rig.rank.stream().sync().wait().unwrap();
    let after = driver::copies();
    Copies {
        to_host: after.to_host - before.to_host,
        to_gpu: after.to_gpu - before.to_gpu,
    }
}

const NONE: Copies = Copies {
    to_host: 0,
    to_gpu: 0,
};

/// An MPI that is not CUDA-aware: calls of more than a piece are cut, and the copies of some pieces and the calls of MPI for
/// others are on their way at the same time.
pub(crate) fn pieces(world: World) {
    let rig = Rig::new(world, &[]);
    for len in [1, 1000, PIECE_LEN, PIECE_LEN + 1, 3 * PIECE_LEN - 5] {
        every_call(&rig, len);
    }
    let rank = &rig.rank;
    let buffer = rank.create(&vec![1_u32; 8 * PIECE_LEN]);
    for round in 1..3 {
        rank.stream().sync().wait().unwrap();
        let before = driver::copies();
        double::take_log();
        let copied = copies_of(&rig, || {
            rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        });
        let log = double::take_log();
        assert_eq!(
            copied,
            Copies {
                to_host: 8,
                to_gpu: 8
            }
        );
        assert_eq!(log.len(), 8);
        // The first call of MPI began with copies of later pieces behind it, and the last one with earlier pieces already on
        // their way back.
        let first = (
            log[0].to_host - before.to_host,
            log[0].to_gpu - before.to_gpu,
        );
        assert_eq!(first, (4, 0));
        let last = (
            log[7].to_host - before.to_host,
            log[7].to_gpu - before.to_gpu,
        );
        assert!(last.0 == 8 && (4..8).contains(&last.1), "{last:?}");
        same(&rank.read(&buffer), &vec![1 << round; 8 * PIECE_LEN]);
    }
    assert_eq!(double::device_calls(), 0);
    drop(buffer);
    rig.close();
}

/// Ranks with CUDA devices and one with a CPU agree on how a call is cut.
pub(crate) fn mixed(world: World) {
    let rig = Rig::new(world, &[1]);
    for len in [0, 1, 1000, PIECE_LEN + 1, 6 * PIECE_LEN] {
        every_call(&rig, len);
    }
    rig.close();
}

/// In a group of more ranks than exchange records, the only one with a CUDA device makes all cut their calls.
pub(crate) fn one_among_many(world: World) {
    let cpus: Vec<usize> = (0..world.size() - 1).collect();
    let rig = Rig::new(world, &cpus);
    let (rank, len) = (&rig.rank, PIECE_LEN + 1);
    let buffer = rank.create(&vec![rank.rank as u32; len]);
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let sum = (0..rank.size as u32).sum();
    same(&rank.read(&buffer), &vec![sum; len]);
    drop(buffer);
    rig.close();
}

/// An MPI that accepts memory of devices in transfers, as Open MPI does.
pub(crate) fn transfers_by_address(world: World) {
    let rig = Rig::new(world, &[]);
    for len in [0, 1, 1000, 2 * PIECE_LEN + 1] {
        every_call(&rig, len);
    }
    let rank = &rig.rank;
    let (sent, received) = (
        rank.create(&values(rank.rank, 3 * PIECE_LEN)),
        empty(&rig, 3 * PIECE_LEN),
    );
    let calls = double::device_calls();
    let copied = copies_of(&rig, || {
        rank.group.send(1 - rank.rank, &sent).unwrap();
        rank.group.receive(1 - rank.rank, &received).unwrap();
        rank.stream().copy(&received, &sent).unwrap();
    });
    assert_eq!(copied, NONE);
    assert_eq!(double::device_calls(), calls + 2);
    same(&rank.read(&sent), &values(1 - rank.rank, 3 * PIECE_LEN));
    drop((sent, received));
    rig.close();
}

/// An MPI that accepts memory of devices in all calls: no byte is copied to the host, except those of small calls and of
/// reductions that are functions of ours. Rank 1 has a CPU.
pub(crate) fn all_by_address(world: World) {
    let rig = Rig::new(world, &[1]);
    for len in [0, 1, 1000, 2 * PIECE_LEN + 1] {
        every_call(&rig, len);
    }
    let (rank, len) = (&rig.rank, 2 * PIECE_LEN);
    let size = rank.size;
    let (buffer, whole) = (rank.create(&vec![1_u32; len]), empty(&rig, len * size));
    let calls = double::device_calls();
    let copied = copies_of(&rig, || {
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        rank.group.all_gather(&[&buffer], &[&whole]).unwrap();
        rank.group.broadcast(2, &[&buffer]).unwrap();
        rank.group
            .reduce_scatter(Reduction::Sum, &[&whole], &[&buffer])
            .unwrap();
    });
    assert_eq!(copied, NONE);
    // Rank 1 has a CPU, so the all-reduce is cut into two pieces.
    let expected = if rank.rank == 1 { 0 } else { 5 };
    assert_eq!(double::device_calls(), calls + expected);
    same(&rank.read(&buffer), &vec![9; len]);
    drop((buffer, whole));
    own_operations(&rig, 250_u8, 238);
    own_operations(&rig, -3_i16, -9);
    own_operations(&rig, bf16::from_f32(1.5), bf16::from_f32(4.5));
    rig.close();
}

/// Sums that are functions of the host: in pieces, and whole.
fn own_operations<T: Reducible + Element + PartialEq + std::fmt::Debug>(rig: &Rig, one: T, sum: T) {
    let (rank, calls) = (&rig.rank, double::device_calls());
    for len in [3000, 3 * PIECE / size_of::<T>()] {
        let buffer = rank.create(&vec![one; len]);
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        same(&rank.read(&buffer), &vec![sum; len]);
    }
    assert_eq!(double::device_calls(), calls);
}
