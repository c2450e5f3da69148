//! Hotspot: the heat of a chip. A cube computes several steps in shared memory, with a halo that becomes narrower.

use millstream::prelude::*;

use crate::{Checked, near, uniform};

/// The threads of a cube along each axis.
const BLOCK: usize = 16;

/// What the heat of an element gains from two neighbours on one axis.
#[kernel]
pub fn exchange(here: f32, one: f32, other: f32, resistance: f32) -> f32 {
    (one + other - 2.0 * here) / resistance
}

/// Several steps. Of each cube's elements those nearer than `steps` to its edge are only of use to the others.
#[kernel(cube = [16, 16])]
pub fn hotspot(
    steps: usize,
    rows: usize,
    columns: usize,
    down_resistance: f32,
    across_resistance: f32,
    power: &[f32],
    from: &[f32],
    to: &mut [f32],
) {
    let heat = shared::<f32, { BLOCK * BLOCK }>();
    let [down, across] = position_in_cube();
    let [cube_row, cube_column] = cube_position();
    let inner = BLOCK - 2 * steps;
    // Wrap before the first row and column, and are then none.
    let row = cube_row * inner + down - steps;
    let column = cube_column * inner + across - steps;
    let (at, mine) = (row * columns + column, down * BLOCK + across);
    let is_on_chip = row < rows && column < columns;
    let depth = down
        .min(across)
        .min(BLOCK - 1 - down)
        .min(BLOCK - 1 - across);
    let mut watts = 0.0;
    if is_on_chip {
        heat[mine] = from[at];
        watts = power[at];
    }
    for step in 1..=steps {
        barrier();
        let changes = is_on_chip && depth >= step;
        let mut next = 0.0;
        if changes {
            // An element at an edge of the chip is its own neighbour.
            let here = heat[mine];
            let north = if row > 0 { heat[mine - BLOCK] } else { here };
            let south = if row + 1 < rows {
                heat[mine + BLOCK]
            } else {
                here
            };
            let west = if column > 0 { heat[mine - 1] } else { here };
            let east = if column + 1 < columns {
                heat[mine + 1]
            } else {
                here
            };
            next = here
                + 0.1
                    * (watts
                        + exchange(here, north, south, down_resistance)
                        + exchange(here, west, east, across_resistance)
                        + (AMBIENT - here) / 8.0);
        }
        barrier();
        if changes {
            heat[mine] = next;
        }
    }
    if is_on_chip && depth >= steps {
        to[at] = heat[mine];
    }
}

/// The temperature around the chip.
const AMBIENT: f32 = 80.0;

/// A step in ordinary Rust.
fn step([rows, columns]: [usize; 2], power: &[f32], heat: &[f64]) -> Vec<f64> {
    let of = |i: usize| {
        let (row, column, here) = (i / columns, i % columns, heat[i]);
        let at = |row: usize, column: usize| heat[row * columns + column];
        let north = at(row.saturating_sub(1), column);
        let south = at((row + 1).min(rows - 1), column);
        let west = at(row, column.saturating_sub(1));
        let east = at(row, (column + 1).min(columns - 1));
        let down = (north + south - 2.0 * here) / 1.5;
        let across = (west + east - 2.0 * here) / 2.5;
        here + 0.1 * (f64::from(power[i]) + down + across + (f64::from(AMBIENT) - here) / 8.0)
    };
    (0..rows * columns).map(of).collect()
}

/// Compares `hotspot` with plain Rust.
///
/// # Errors
/// They differ.
pub fn hotspot_matches(device: &Device) -> Checked {
    let stream = device.new_stream();
    for [rows, columns, steps] in [[1, 1, 2], [1, 40, 1], [16, 12, 2], [33, 21, 3]] {
        let len = rows * columns;
        let (mut power, heat) = (uniform(1, len), uniform(2, len));
        if rows > 30 {
            (power[7], power[len / 2]) = (f32::NAN, f32::INFINITY);
        }
        let mut expected: Vec<f64> = heat.iter().map(|it| f64::from(*it)).collect();
        for _ in 0..2 * steps {
            expected = step([rows, columns], &power, &expected);
        }
        let power = stream.create(&power)?;
        let (mut from, mut to) = (stream.create(&heat)?, stream.create(&heat)?);
        let inner = BLOCK - 2 * steps;
        let threads = [rows, columns].map(|axis| axis.div_ceil(inner) * BLOCK);
        for _ in 0..2 {
            hotspot(steps, rows, columns, 1.5, 2.5, &power, &from, &mut to)
                .launch(&stream, threads)?;
            (from, to) = (to, from);
        }
        let expected: Vec<f32> = expected.iter().map(|it| *it as f32).collect();
        near("heat", &stream.read(&from).wait()?, &expected, 1e-5)?;
    }
    Ok(())
}
