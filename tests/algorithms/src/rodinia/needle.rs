//! The alignment of two sequences by Needleman and Wunsch. Blocks on one diagonal run together, and so do the elements of
//! one diagonal within a block.

use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// The rows and columns of a block.
const BLOCK: usize = 16;
/// Those of the scores that a block needs: with the row above it and the column left of it.
const EDGED: usize = BLOCK + 1;
const KINDS: usize = 24;

/// The scores of the blocks on a diagonal: `first` is the row of the first of them.
#[kernel(cube = 16)]
pub fn align(
    diagonal: usize,
    first: usize,
    penalty: i32,
    similar: &[i32],
    down: &[u8],
    across: &[u8],
    scores: &mut [i32],
) {
    let part = shared::<i32, { EDGED * EDGED }>();
    let mine = thread_in_cube();
    let block_row = first + cube();
    // The edges of the block; its own elements begin at 1.
    let (row, column) = (block_row * BLOCK, (diagonal - block_row) * BLOCK);
    let (rows, columns) = (
        down.len().min(row + BLOCK),
        across.len().min(column + BLOCK),
    );
    let width = across.len() + 1;
    if mine == 0 {
        part[0] = scores[row * width + column];
    }
    if column + mine < columns {
        part[mine + 1] = scores[row * width + column + mine + 1];
    }
    if row + mine < rows {
        part[(mine + 1) * EDGED] = scores[(row + mine + 1) * width + column];
    }
    for step in 0..2 * BLOCK - 1 {
        barrier();
        // Wraps below the diagonal, and is then no row.
        let at = step - mine;
        if at < BLOCK && row + at < rows && column + mine < columns {
            let pair = down[row + at] as usize * KINDS + across[column + mine] as usize;
            let here = at * EDGED + mine;
            let both = part[here] + similar[pair];
            let gap = part[here + 1].max(part[here + EDGED]) - penalty;
            part[here + EDGED + 1] = both.max(gap);
        }
    }
    barrier();
    for at in 0..BLOCK {
        if row + at < rows && column + mine < columns {
            scores[(row + at + 1) * width + column + mine + 1] = part[(at + 1) * EDGED + mine + 1];
        }
    }
}

/// Returns the scores before an alignment: those of gaps alone, in the first row and column.
fn gaps(penalty: i32, rows: usize, columns: usize) -> Vec<i32> {
    let width = columns + 1;
    let of = |i: usize| match (i / width, i % width) {
        (0, gap) | (gap, 0) => -penalty * gap as i32,
        _ => 0,
    };
    (0..(rows + 1) * width).map(of).collect()
}

/// Compares `align` with plain Rust.
///
/// # Errors
/// They differ.
pub fn needle_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    let bytes = |seed, len| -> Vec<u8> {
        let of = |it: &f32| (it * KINDS as f32) as u8;
        uniform(seed, len).iter().map(of).collect()
    };
    let similar = uniform(3, KINDS * KINDS);
    let similar: Vec<i32> = similar.iter().map(|it| (it * 20.0) as i32 - 10).collect();
    let similar_of = stream.create(&similar)?;
    let inputs = [
        (bytes(1, 1), bytes(2, 1), 10),
        (bytes(1, 16), bytes(1, 16), 0),
        (bytes(1, 40), bytes(2, 53), 10),
        (bytes(1, 50), bytes(1, 3), 1_000_000),
    ];
    for (down, across, penalty) in inputs {
        let mut expected = gaps(penalty, down.len(), across.len());
        let mut scores = stream.create(&expected)?;
        let width = across.len() + 1;
        for (row, a) in down.iter().enumerate() {
            for (column, b) in across.iter().enumerate() {
                let here = row * width + column;
                let both = expected[here] + similar[usize::from(*a) * KINDS + usize::from(*b)];
                let gap = expected[here + 1].max(expected[here + width]) - penalty;
                expected[here + width + 1] = both.max(gap);
            }
        }
        let [rows, columns] = [&down, &across].map(|it| it.len().div_ceil(BLOCK));
        let (down, across) = (stream.create(&down)?, stream.create(&across)?);
        for diagonal in 0..rows + columns - 1 {
            let first = (diagonal + 1).saturating_sub(columns);
            let blocks = rows.min(diagonal + 1) - first;
            align(
                diagonal,
                first,
                penalty,
                &similar_of,
                &down,
                &across,
                &mut scores,
            )
            .launch(&stream, blocks * BLOCK)?;
        }
        equal("scores", &stream.read(&scores).wait()?, &expected)?;
    }
    Ok(())
}
