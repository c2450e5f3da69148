//! A step of a fluid in a box: speeds and dye move along (Stam, 1999), Jacobi's iteration finds the pressure, and its
//! gradient makes the speeds free of divergence.

use millstream::prelude::*;

use crate::{Checked, near, uniform};

/// A field between its elements; beyond the walls as at them.
#[kernel]
pub fn sample(rows: usize, columns: usize, field: &[f32], row: f32, column: f32) -> f32 {
    let row = row.clamp(0.0, (rows - 1) as f32);
    let column = column.clamp(0.0, (columns - 1) as f32);
    let (top, left) = (row as usize, column as usize);
    let (bottom, right) = ((top + 1).min(rows - 1), (left + 1).min(columns - 1));
    let (down, across) = (row - top as f32, column - left as f32);
    let above =
        field[top * columns + left] * (1.0 - across) + field[top * columns + right] * across;
    let below =
        field[bottom * columns + left] * (1.0 - across) + field[bottom * columns + right] * across;
    above * (1.0 - down) + below * down
}

/// Moves a field: each element gets what was where its speed comes from.
#[kernel]
pub fn advect(
    rows: usize,
    columns: usize,
    dt: f32,
    down: &[f32],
    across: &[f32],
    from: &[f32],
    #[whole] to: &mut [f32],
) {
    let [row, column] = position();
    let at = thread();
    let (row, column) = (row as f32 - dt * down[at], column as f32 - dt * across[at]);
    to[at] = sample(rows, columns, from, row, column);
}

/// The element of a field, beyond the walls another value.
#[kernel]
pub fn element(
    rows: usize,
    columns: usize,
    field: &[f32],
    row: usize,
    column: usize,
    beyond: f32,
) -> f32 {
    if row < rows && column < columns {
        field[row * columns + column]
    } else {
        beyond
    }
}

/// How much more flows out of each element than into it. Nothing flows through the walls.
#[kernel]
pub fn divergence(
    rows: usize,
    columns: usize,
    down: &[f32],
    across: &[f32],
    #[whole] flows: &mut [f32],
) {
    let [row, column] = position();
    let vertical = element(rows, columns, down, row + 1, column, 0.0)
        - element(rows, columns, down, row - 1, column, 0.0);
    let horizontal = element(rows, columns, across, row, column + 1, 0.0)
        - element(rows, columns, across, row, column - 1, 0.0);
    flows[thread()] = 0.5 * (vertical + horizontal);
}

/// An iteration of Jacobi. Beyond the walls the pressure is as at them.
#[kernel]
pub fn jacobi(rows: usize, columns: usize, flows: &[f32], from: &[f32], #[whole] to: &mut [f32]) {
    let [row, column] = position();
    let at = thread();
    let own = from[at];
    let around = element(rows, columns, from, row - 1, column, own)
        + element(rows, columns, from, row + 1, column, own)
        + element(rows, columns, from, row, column - 1, own)
        + element(rows, columns, from, row, column + 1, own);
    to[at] = (around - flows[at]) / 4.0;
}

/// Subtracts the gradient of the pressure from the speeds.
#[kernel]
pub fn project(
    rows: usize,
    columns: usize,
    pressure: &[f32],
    down: &mut [f32],
    across: &mut [f32],
) {
    let [row, column] = position();
    let at = thread();
    let own = pressure[at];
    down[at] -= 0.5
        * (element(rows, columns, pressure, row + 1, column, own)
            - element(rows, columns, pressure, row - 1, column, own));
    across[at] -= 0.5
        * (element(rows, columns, pressure, row, column + 1, own)
            - element(rows, columns, pressure, row, column - 1, own));
}

const DT: f32 = 1.5;
const ITERATIONS: usize = 8;

/// A step on a device. Returns the speeds down and across, and the dye.
fn step(
    stream: &Stream,
    [rows, columns]: [usize; 2],
    fields: &[Vec<f32>; 3],
) -> Result<[Vec<f32>; 3], millstream::Error> {
    let (size, len) = ([rows, columns], rows * columns);
    let down = stream.create(&fields[0])?;
    let across = stream.create(&fields[1])?;
    let dye = stream.create(&fields[2])?;
    let (mut moved_down, mut moved_across) = (stream.empty(len)?, stream.empty(len)?);
    let (mut flows, mut moved_dye) = (stream.empty(len)?, stream.empty(len)?);
    advect(rows, columns, DT, &down, &across, &down, &mut moved_down).launch(stream, size)?;
    advect(
        rows,
        columns,
        DT,
        &down,
        &across,
        &across,
        &mut moved_across,
    )
    .launch(stream, size)?;
    divergence(rows, columns, &moved_down, &moved_across, &mut flows).launch(stream, size)?;
    let (mut from, mut to) = (stream.create(&vec![0.0; len])?, stream.empty(len)?);
    for _ in 0..ITERATIONS {
        jacobi(rows, columns, &flows, &from, &mut to).launch(stream, size)?;
        (from, to) = (to, from);
    }
    project(rows, columns, &from, &mut moved_down, &mut moved_across).launch(stream, size)?;
    advect(
        rows,
        columns,
        DT,
        &moved_down,
        &moved_across,
        &dye,
        &mut moved_dye,
    )
    .launch(stream, size)?;
    Ok([
        stream.read(&moved_down).wait()?,
        stream.read(&moved_across).wait()?,
        stream.read(&moved_dye).wait()?,
    ])
}

/// The same in ordinary Rust.
fn expected([rows, columns]: [usize; 2], fields: &[Vec<f32>; 3]) -> [Vec<f32>; 3] {
    type Field = Vec<f64>;
    let each = |of: &dyn Fn(usize, usize) -> f64| -> Field {
        (0..rows * columns)
            .map(|i| of(i / columns, i % columns))
            .collect()
    };
    let moved = |field: &Field, down: &Field, across: &Field| {
        each(&|row, column| {
            let at = row * columns + column;
            let row = (row as f64 - f64::from(DT) * down[at]).clamp(0.0, (rows - 1) as f64);
            let column =
                (column as f64 - f64::from(DT) * across[at]).clamp(0.0, (columns - 1) as f64);
            let at = |row: f64, column: f64| field[row as usize * columns + column as usize];
            let (below, right) = (row.ceil(), column.ceil());
            let between = |row: f64| {
                at(row, column) * (1.0 - column.fract()) + at(row, right) * column.fract()
            };
            between(row) * (1.0 - row.fract()) + between(below) * row.fract()
        })
    };
    // The element before and the one behind on each axis.
    let around = |field: &Field, row: usize, column: usize, beyond: Option<f64>| {
        let beyond = beyond.unwrap_or(field[row * columns + column]);
        let of = |at: Option<usize>, is_inside: bool| match at {
            Some(at) if is_inside => field[at],
            _ => beyond,
        };
        let at = row * columns + column;
        [
            [
                of(at.checked_sub(columns), row > 0),
                of(Some(at + columns), row + 1 < rows),
            ],
            [
                of(at.checked_sub(1), column > 0),
                of(Some(at + 1), column + 1 < columns),
            ],
        ]
    };
    let [down, across, dye] =
        [0, 1, 2].map(|i| -> Field { fields[i].iter().map(|it| f64::from(*it)).collect() });
    let [mut new_down, mut new_across] = [&down, &across].map(|field| moved(field, &down, &across));
    let flows = each(&|row, column| {
        let [above, below] = around(&new_down, row, column, Some(0.0))[0];
        let [left, right] = around(&new_across, row, column, Some(0.0))[1];
        0.5 * (below - above + right - left)
    });
    let mut pressure = vec![0.0; rows * columns];
    for _ in 0..ITERATIONS {
        pressure = each(&|row, column| {
            let sum: f64 = around(&pressure, row, column, None).iter().flatten().sum();
            (sum - flows[row * columns + column]) / 4.0
        });
    }
    for at in 0..rows * columns {
        let [[above, below], [left, right]] = around(&pressure, at / columns, at % columns, None);
        new_down[at] -= 0.5 * (below - above);
        new_across[at] -= 0.5 * (right - left);
    }
    let dye = moved(&dye, &new_down, &new_across);
    [new_down, new_across, dye].map(|it| it.iter().map(|it| *it as f32).collect())
}

/// Compares a step with plain Rust.
///
/// # Errors
/// They differ.
pub fn fluid_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for [rows, columns] in [[1, 1], [1, 9], [17, 21]] {
        let len = rows * columns;
        let mut fields = [1, 2, 3].map(|seed| {
            let values = uniform(seed, len).into_iter();
            values.map(|it| 4.0 * it - 2.0).collect::<Vec<_>>()
        });
        // Faster than the box is wide.
        fields[0][len / 3] = 1e3;
        fields[2][len / 2] = f32::INFINITY;
        let (given, expected) = (
            step(&stream, [rows, columns], &fields)?,
            expected([rows, columns], &fields),
        );
        for (name, given, expected) in [
            ("down", &given[0], &expected[0]),
            ("across", &given[1], &expected[1]),
            ("dye", &given[2], &expected[2]),
        ] {
            near(name, given, expected, 1e-3)?;
        }
    }
    Ok(())
}
