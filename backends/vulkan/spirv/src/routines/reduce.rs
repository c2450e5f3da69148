//! Reductions of the threads of a cube or subgroup: a tree in shared memory, whose order is always the same. Shuffles, by
//! way of the same memory.
//!
//! ```text
//!  threads   0   1   2   3   4   5        each thread stores its value; barrier
//!  step 4    0+4 1+5 2   3                the lower half adds the upper one
//!  step 2    0+2 1+3
//!  step 1    0+1                          all threads load the first value; barrier
//! ```
//! A round is [`STEPS_MAX`] steps: fewer threads load more values each, so that only a round ends with a barrier. The
//! tree is the same for any number of steps in a round. It needs no subgroups, so it is correct for every width of
//! them. With subgroups a cube of 256 threads would have three barriers instead of five; a tree of one round, which has
//! as many, took 0 to 12% less processor time on lavapipe.

use millstream_ir::ssa::{Axis, Builder, MemoryRef, Position, Scope, Shuffle, Val};
use millstream_ir::{BinaryOp, DType};

/// Steps of a round. On lavapipe kernels with three or four take 12 to 32% less processor time than with one.
const STEPS_MAX: u32 = 3;

/// Returns the index of the thread in the cube.
fn thread<'k>(k: &'k Builder, [width, height, _]: [u32; 3]) -> Val<'k> {
    let [x, y, z] = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    (z * i64::from(height) + y) * i64::from(width) + x
}

/// Returns the array in which each of `all` threads stores its value, and the type of its elements.
fn places(k: &Builder, dtype: DType, all: u32) -> (MemoryRef<'_>, DType) {
    // A bool has 32 bits, which every device supports in shared memory.
    let stored = match dtype {
        DType::Bool => DType::U32,
        dtype => dtype,
    };
    (k.shared("reduced", stored, all), stored)
}

/// Returns the place from which a thread at a place of a subgroup takes a value, and whether there is one.
pub(super) fn source<'k>(
    from: Shuffle,
    width: u32,
    [place, by]: [Val<'k>; 2],
) -> (Val<'k>, Val<'k>) {
    let width = i64::from(width);
    // Unsigned, so that a negative number is a large one.
    let within = |of: Val<'k>| of.bits(DType::U64).lt(width);
    match from {
        Shuffle::Lane => (by, within(by)),
        // Within the subgroup, as its width is a power of two.
        Shuffle::Xor => (place ^ by, within(by)),
        Shuffle::Down => (place + by, within(by) & within(place + by)),
        Shuffle::Up => (place - by, within(by) & within(place - by)),
    }
}

/// Returns the value of another thread of a subgroup of this many threads.
pub(super) fn shuffle<'k>(
    k: &'k Builder,
    from: Shuffle,
    width: u32,
    [value, by]: [Val<'k>; 2],
    threads: [u32; 3],
) -> Val<'k> {
    let dtype = value.of().dtype;
    let (shared, stored) = places(k, dtype, threads.iter().product());
    let thread = thread(k, threads);
    // Subgroups begin at multiples of their width.
    let place = thread & (i64::from(width) - 1);
    shared.set(thread, value.cast(stored));
    k.barrier();
    let (source, exists) = source(from, width, [place, by]);
    let found = shared
        .get(thread - place + exists.select(source, place))
        .cast(dtype);
    // All threads have loaded it before a later shuffle or reduction overwrites it.
    k.barrier();
    found
}

/// Returns the combination of the values of all threads of a cube or subgroup, which all of them get.
pub(super) fn reduce<'k>(
    k: &'k Builder,
    scope: Scope,
    by: BinaryOp,
    value: Val<'k>,
    threads: [u32; 3],
) -> Val<'k> {
    let dtype = value.of().dtype;
    let (thread, all) = (thread(k, threads), threads.iter().product());
    let (rank, len) = match scope {
        Scope::Cube => (thread, all),
        // Subgroups begin at multiples of their width.
        Scope::Subgroup(width) => (thread & (i64::from(width) - 1), width),
    };
    let (shared, stored) = places(k, dtype, all);
    let load = |at: Val<'k>| shared.get(at).cast(dtype);
    shared.set(thread, value.cast(stored));
    k.barrier();
    let mut left = len;
    while left > 1 {
        let whole_tree = left.next_power_of_two();
        let fewer = whole_tree >> STEPS_MAX.min(whole_tree.ilog2());
        k.when(rank.lt(fewer), || {
            // The values at the thread's own place and at each multiple of `fewer` after it; `None` if all threads have it.
            let parts = (0..left).step_by(fewer as usize).map(|start| {
                let exists = (left - start < fewer).then(|| rank.lt(left - start));
                let place = thread + start;
                // A place within the array for the threads without the value.
                let place = exists.map_or(place, |exists| exists.select(place, thread));
                (load(place), exists)
            });
            let combined = combined(by, parts.collect());
            shared.set(thread, combined.cast(stored));
        });
        k.barrier();
        left = fewer;
    }
    let found = load(thread - rank);
    // All threads have loaded the result before a later reduction overwrites it.
    k.barrier();
    found
}

/// Combines the values of one thread, and whether it has them, by a tree: in each step the lower half takes the upper one.
fn combined<'k>(by: BinaryOp, mut parts: Vec<(Val<'k>, Option<Val<'k>>)>) -> Val<'k> {
    while parts.len() > 1 {
        let upper = parts.split_off(parts.len().next_power_of_two() / 2);
        for ((mine, _), (theirs, exists)) in parts.iter_mut().zip(upper) {
            let both = mine.binary(by, theirs);
            *mine = exists.map_or(both, |exists| exists.select(both, *mine));
        }
    }
    // The first value exists for every thread of the round.
    parts[0].0
}
