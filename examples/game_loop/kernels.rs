//! The kernels of the game: Gray and Scott's system, and its picture.

use millstream::prelude::*;

/// Returns the fields at the start: food everywhere, and some spots of the substance that consumes it.
pub(super) fn seeds(size: usize) -> (Vec<f32>, Vec<f32>) {
    let (food, mut field) = (vec![1.0; size * size], vec![0.0; size * size]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..(size * size / 4_096).max(1) {
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % below
        };
        let (x, y, radius) = (random(size), random(size), 2 + random(3));
        for at in 0..(2 * radius + 1) * (2 * radius + 1) {
            let (dx, dy) = (at % (2 * radius + 1), at / (2 * radius + 1));
            field[(y + dy) % size * size + (x + dx) % size] = 0.9;
        }
    }
    (food, field)
}

/// A cell of a square field on a torus, and its neighbours: the numbers of the first cells of rows, and columns.
#[kernel]
#[derive(Clone, Copy)]
struct Place {
    up: usize,
    here: usize,
    down: usize,
    left: usize,
    x: usize,
    right: usize,
}

#[kernel]
fn place(y: usize, x: usize, size: usize) -> Place {
    let last = size - 1;
    let (above, below) = (
        if y == 0 { last } else { y - 1 },
        if y == last { 0 } else { y + 1 },
    );
    Place {
        up: above * size,
        here: y * size,
        down: below * size,
        left: if x == 0 { last } else { x - 1 },
        x,
        right: if x == last { 0 } else { x + 1 },
    }
}

/// Computes the diffusion to a cell.
#[kernel]
fn diffusion(field: &[f32], at: Place) -> f32 {
    let sides = field[at.up + at.x]
        + field[at.down + at.x]
        + field[at.here + at.left]
        + field[at.here + at.right];
    let corners = field[at.up + at.left]
        + field[at.up + at.right]
        + field[at.down + at.left]
        + field[at.down + at.right];
    0.2 * sides + 0.05 * corners - field[at.here + at.x]
}

const FEED: f32 = 0.0545;
const KILL: f32 = 0.062;

/// Computes one step of Gray and Scott's system: feed, reaction, removal and diffusion.
#[kernel]
pub fn step(
    size: usize,
    food: &[f32],
    field: &[f32],
    #[whole] next_food: &mut [f32],
    #[whole] next_field: &mut [f32],
) {
    let [y, x] = position();
    let (i, at) = (thread(), place(y, x, size));
    let (f, v) = (food[i], field[i]);
    let reaction = f * v * v;
    next_food[i] = f + diffusion(food, at) - reaction + FEED * (1.0 - f);
    next_field[i] = v + 0.5 * diffusion(field, at) + reaction - (FEED + KILL) * v;
}

/// Draws the field as a lit relief: from deep blue over teal and gold to ivory, lit from the upper left.
#[kernel]
pub fn shade(size: usize, field: &[f32], #[whole] pixels: &mut [u32]) {
    let [y, x] = position();
    let (i, at) = (thread(), place(y, x, size));
    let slope_x = field[at.here + at.right] - field[at.here + at.left];
    let slope_y = field[at.down + x] - field[at.up + x];
    let steepness = (1.0 + 64.0 * (slope_x * slope_x + slope_y * slope_y)).sqrt();
    let light = 0.62 + 0.38 * (1.0 - 5.0 * (slope_x + slope_y)) / steepness;
    let gleam = ((1.0 - 4.0 * (slope_x + slope_y)) / steepness - 1.0).max(0.0) * 0.6;

    let reds = [0.03, 0.05, 0.11, 0.93, 1.00];
    let greens = [0.05, 0.26, 0.56, 0.70, 0.95];
    let blues = [0.13, 0.40, 0.55, 0.33, 0.84];
    let scaled = (field[i] * 2.6).clamp(0.0, 1.0) * 4.0;
    let below = (scaled as usize).min(3);
    let part = scaled - below as f32;
    let red = channel(reds[below], reds[below + 1], part, light, gleam);
    let green = channel(greens[below], greens[below + 1], part, light, gleam);
    let blue = channel(blues[below], blues[below + 1], part, light, gleam);
    pixels[i] = red | green << 8 | blue << 16 | 255 << 24;
}

/// Computes a channel of a colour between two of the palette.
#[kernel]
fn channel(below: f32, above: f32, part: f32, light: f32, gleam: f32) -> u32 {
    let plain = below * (1.0 - part) + above * part;
    ((plain * light + gleam).clamp(0.0, 1.0) * 255.0) as u32
}
