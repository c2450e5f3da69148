//! One step of Gray and Scott's equations for some rows, as a native kernel.
//!
//! The arithmetic of a cell does not depend on where its row was cut off from others, so the result has the same bits
//! for any number of strips.

use millstream::{Cube, Kernel, NativeArgs};

/// The diffusion rates of the two substances. With the rates below, spots grow and divide.
const DIFFUSION: [f32; 2] = [0.16, 0.08];
/// The rate at which the first substance is fed.
const FEED: f32 = 0.035;
/// The rate at which the second substance is removed, the feed rate included.
const REMOVAL: f32 = 0.1;

/// Less of the second substance than this is none. Otherwise it would decay to subnormal numbers wherever no spot is
/// near, and processors compute with these ten times more slowly.
const NEGLIGIBLE: f32 = 1e-15;

/// The name of the kernel.
pub const NAME: &str = "react";

/// Returns the kernel that computes `next` from the same rows and one more at each end. A launch has one cube for each
/// row of `next`.
pub(crate) fn kernel() -> Kernel {
    Kernel::new(NAME)
        .reads::<f32>("now")
        .writes::<f32>("next")
        .scalar::<u64>("columns")
        .native(react)
}

fn react(_: &Cube, args: &NativeArgs<'_>) {
    let columns = args.scalar::<u64>(0) as usize;
    let row_len = 2 * columns;
    let above = args.chunk_start(1);
    let now = &args.read::<f32>(0)[above..above + 3 * row_len];
    let next = args.chunk::<f32>(1);
    let (u_next, v_next) = next.split_at_mut(columns);
    let rows: Three<Fields<'_>> = [0, 1, 2].map(|row| {
        let row = &now[row * row_len..][..row_len];
        let (u, v) = row.split_at(columns);
        Fields { u, v }
    });
    row(rows, u_next, v_next);
}

/// Above, here and below.
type Three<T> = [T; 3];

/// A row of both fields.
#[derive(Clone, Copy)]
struct Fields<'a> {
    u: &'a [f32],
    v: &'a [f32],
}

/// Computes a row from itself and its neighbours above and below.
fn row([above, here, below]: Three<Fields<'_>>, u_next: &mut [f32], v_next: &mut [f32]) {
    let last = u_next.len() - 1;
    let at = |x: Three<&[f32]>, column: usize| Cell {
        here: x[1][column],
        above: x[0][column],
        below: x[2][column],
        left: x[1][column.checked_sub(1).unwrap_or(last)],
        right: x[1][if column == last { 0 } else { column + 1 }],
    };
    let (u, v) = ([above.u, here.u, below.u], [above.v, here.v, below.v]);
    // The ends of the row have neighbours at its other end.
    for column in [0, last] {
        (u_next[column], v_next[column]) = step(at(u, column), at(v, column));
    }
    if last > 1 {
        middle(u, v, &mut u_next[1..last], &mut v_next[1..last]);
    }
}

/// Computes the cells that have both neighbours in the row. The slices have one length, which the compiler sees, and
/// the outputs are arguments, which it knows to be apart from all else: so the loop becomes vector instructions.
#[inline(never)]
fn middle(u: Three<&[f32]>, v: Three<&[f32]>, u_next: &mut [f32], v_next: &mut [f32]) {
    let len = u_next.len();
    let v_next = &mut v_next[..len];
    let (u, v) = (Shifted::new(u, len), Shifted::new(v, len));
    for column in 0..len {
        (u_next[column], v_next[column]) = step(u.cell(column), v.cell(column));
    }
}

/// A field around the cells without the ends of their row: each slice holds one neighbour of each.
struct Shifted<'a> {
    here: &'a [f32],
    above: &'a [f32],
    below: &'a [f32],
    left: &'a [f32],
    right: &'a [f32],
}

impl<'a> Shifted<'a> {
    fn new([above, here, below]: Three<&'a [f32]>, len: usize) -> Self {
        Self {
            here: &here[1..][..len],
            above: &above[1..][..len],
            below: &below[1..][..len],
            left: &here[..len],
            right: &here[2..][..len],
        }
    }

    #[inline(always)]
    fn cell(&self, column: usize) -> Cell {
        Cell {
            here: self.here[column],
            above: self.above[column],
            below: self.below[column],
            left: self.left[column],
            right: self.right[column],
        }
    }
}

/// A cell of one field, and its neighbours.
#[derive(Clone, Copy)]
struct Cell {
    here: f32,
    above: f32,
    below: f32,
    left: f32,
    right: f32,
}

impl Cell {
    #[inline(always)]
    fn laplacian(self) -> f32 {
        let sides = self.above + self.below;
        sides + self.left + self.right - self.here * 4.0
    }
}

/// Returns both fields of a cell after a step.
#[inline(always)]
fn step(u: Cell, v: Cell) -> (f32, f32) {
    let (a, b) = (u.here, v.here);
    let reaction = a * b * b;
    let first = a + u.laplacian() * DIFFUSION[0] - reaction + (1.0 - a) * FEED;
    let second = b + v.laplacian() * DIFFUSION[1] + reaction - b * REMOVAL;
    // Not the other way round: a cell that is not a number must stay visible.
    let is_negligible = second < NEGLIGIBLE;
    (first, if is_negligible { 0.0 } else { second })
}
