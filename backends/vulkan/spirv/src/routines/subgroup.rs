//! Reductions and shuffles of subgroups that are parts of the device's: by shuffles among all of its threads.

use millstream_ir::ssa::{Axis, Builder, Position, Shuffle, Val};
use millstream_ir::{BinaryOp, DType};

use super::reduce::source;

/// Returns the value of another thread of a subgroup of `width` threads, where those of the device have `whole`.
pub(super) fn shuffle<'k>(
    k: &'k Builder,
    from: Shuffle,
    (width, whole): (u32, u32),
    [value, by]: [Val<'k>; 2],
) -> Val<'k> {
    let (own, place) = places(k, (width, whole));
    let (source, exists) = source(from, width, [place, by]);
    let at = own - place + exists.select(source, place);
    value.shuffle(Shuffle::Lane, whole, at)
}

/// Returns the combination of the values of a subgroup, which all of its threads get: those of the tree, in its order.
pub(super) fn reduce<'k>(
    k: &'k Builder,
    (width, whole): (u32, u32),
    by: BinaryOp,
    value: Val<'k>,
) -> Val<'k> {
    let (own, place) = places(k, (width, whole));
    let (mut combined, mut step) = (value, width / 2);
    while step > 0 {
        let other = combined.shuffle(Shuffle::Lane, whole, own ^ i64::from(step));
        combined = combined.binary(by, other);
        step /= 2;
    }
    // The first thread has combined lower values with upper ones. Which is the first matters for the zeros of floats.
    let is_ordered = matches!(by, BinaryOp::Min | BinaryOp::Max);
    match is_ordered && matches!(value.of().dtype, DType::F32 | DType::F64) {
        true => combined.shuffle(Shuffle::Lane, whole, own - place),
        false => combined,
    }
}

/// Returns the place of the thread in the device's subgroup and in its own.
fn places(k: &Builder, (width, whole): (u32, u32)) -> (Val<'_>, Val<'_>) {
    let thread = k.position(Position::Thread, Axis::X);
    let [own, place] = [whole, width].map(|width| thread & (i64::from(width) - 1));
    (own, place)
}
