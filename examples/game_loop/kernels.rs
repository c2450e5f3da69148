//! The kernels of the game, in Rust, in CUDA C and in GLSL: Gray and Scott's system, and its picture.

use millstream::{Kernel, NativeArgs, Read, Source, Write};

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

/// Returns the rows above, at and below `y` of a square field on a torus.
fn rows(field: &[f32], y: usize) -> [&[f32]; 3] {
    let size = field.len().isqrt();
    [y + size - 1, y, y + 1].map(|row| &field[row % size * size..][..size])
}

/// Adds the GPU sources of a kernel: CUDA C, the PTX compiled from it for machines without NVRTC, and the SPIR-V compiled
/// from GLSL.
macro_rules! with_gpu_sources {
    ($kernel:expr, $name:literal) => {
        $kernel
            .cuda(include_str!(concat!("../kernels/", $name, ".cu")))
            .source(Source::Ptx(
                include_str!(concat!("../kernels/", $name, ".ptx")).into(),
            ))
            .spirv(words(include_bytes!(concat!("../kernels/", $name, ".spv"))))
    };
}

/// Returns the words of a SPIR-V file.
fn words(file: &[u8]) -> Vec<u32> {
    let (words, _) = file.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The arguments of [`step`]: food, field, next food and next field.
pub(super) type Step = (Read<f32>, Read<f32>, Write<f32>, Write<f32>);

/// Returns the kernel of one step of Gray and Scott's system. A cube computes one row.
pub fn step() -> Kernel {
    let kernel = Kernel::new("step")
        .reads::<f32>("food")
        .reads::<f32>("field");
    let kernel = kernel
        .writes::<f32>("next food")
        .writes::<f32>("next field");
    with_gpu_sources!(kernel, "step").native(|cube, args: &NativeArgs<'_>| {
        let y = cube.index() as usize;
        let (food, field) = (rows(args.read(0), y), rows(args.read(1), y));
        let (next_food, next_field) = (args.chunk::<f32>(2), args.chunk::<f32>(3));
        let last = next_food.len() - 1;
        // The edges are separate, so that the loop over the other cells has no branches.
        for (left, x, right) in [(last, 0, 1), (last - 1, last, 0)] {
            let neighbours = |[up, here, down]: [&[f32]; 3]| {
                let sides = up[x] + down[x] + here[left] + here[right];
                let corners = up[left] + up[right] + down[left] + down[right];
                (here[x], diffusion(here[x], sides, corners))
            };
            (next_food[x], next_field[x]) = react(neighbours(food), neighbours(field));
        }
        let inner = last - 1;
        let (food, field) = (Neighbours::new(food, inner), Neighbours::new(field, inner));
        let next_food = &mut next_food[1..][..inner];
        let next_field = &mut next_field[1..][..inner];
        for x in 0..inner {
            (next_food[x], next_field[x]) = react(food.at(x), field.at(x));
        }
    })
}

/// The cells of a row without its ends, and their neighbours: nine slices of one length, so that a loop over them needs
/// no bounds checks.
struct Neighbours<'a> {
    up: (&'a [f32], &'a [f32], &'a [f32]),
    here: (&'a [f32], &'a [f32], &'a [f32]),
    down: (&'a [f32], &'a [f32], &'a [f32]),
}

impl<'a> Neighbours<'a> {
    #[inline(always)]
    fn new([up, here, down]: [&'a [f32]; 3], inner: usize) -> Self {
        let shifted = |row: &'a [f32]| (&row[..inner], &row[1..][..inner], &row[2..][..inner]);
        Self {
            up: shifted(up),
            here: shifted(here),
            down: shifted(down),
        }
    }

    /// Returns the cell at `x`, and the diffusion to it.
    #[inline(always)]
    fn at(&self, x: usize) -> (f32, f32) {
        let Self { up, here, down } = self;
        let sides = up.1[x] + down.1[x] + here.0[x] + here.2[x];
        let corners = up.0[x] + up.2[x] + down.0[x] + down.2[x];
        (here.1[x], diffusion(here.1[x], sides, corners))
    }
}

/// Computes the diffusion to a cell from those at its sides and corners.
#[inline(always)]
fn diffusion(here: f32, sides: f32, corners: f32) -> f32 {
    0.2 * sides + 0.05 * corners - here
}

/// Computes the next values of a cell from feed, reaction, removal and diffusion.
#[inline(always)]
fn react((food, food_diffusion): (f32, f32), (field, field_diffusion): (f32, f32)) -> (f32, f32) {
    const FEED: f32 = 0.0545;
    const KILL: f32 = 0.062;
    let reaction = food * field * field;
    (
        food + food_diffusion - reaction + FEED * (1.0 - food),
        field + 0.5 * field_diffusion + reaction - (FEED + KILL) * field,
    )
}

/// Returns the kernel that draws the field as a lit relief.
pub fn shade() -> Kernel {
    let kernel = Kernel::new("shade")
        .reads::<f32>("field")
        .writes::<u32>("pixels");
    with_gpu_sources!(kernel, "shade").native(|cube, args: &NativeArgs<'_>| {
        let [up, here, down] = rows(args.read(0), cube.index() as usize);
        let pixels = args.chunk::<u32>(1);
        let size = pixels.len();
        for (x, pixel) in pixels.iter_mut().enumerate() {
            let slope_x = here[(x + 1) % size] - here[(x + size - 1) % size];
            let slope_y = down[x] - up[x];
            *pixel = colour(here[x], slope_x, slope_y);
        }
    })
}

/// Computes a colour from deep blue over teal and gold to ivory, lit from the upper left.
fn colour(height: f32, slope_x: f32, slope_y: f32) -> u32 {
    const PALETTE: [[f32; 3]; 5] = [
        [0.03, 0.05, 0.13],
        [0.05, 0.26, 0.40],
        [0.11, 0.56, 0.55],
        [0.93, 0.70, 0.33],
        [1.00, 0.95, 0.84],
    ];
    let place = (height * 2.6).clamp(0.0, 1.0) * (PALETTE.len() - 1) as f32;
    let (below, part) = ((place as usize).min(PALETTE.len() - 2), place.fract());
    let part = if place as usize > below { 1.0 } else { part };
    let steepness = (1.0 + 64.0 * (slope_x * slope_x + slope_y * slope_y)).sqrt();
    let light = 0.62 + 0.38 * (1.0 - 5.0 * (slope_x + slope_y)) / steepness;
    let gleam = ((1.0 - 4.0 * (slope_x + slope_y)) / steepness - 1.0).max(0.0) * 0.6;
    let channel = |index: usize| {
        let plain = PALETTE[below][index] * (1.0 - part) + PALETTE[below + 1][index] * part;
        ((plain * light + gleam).clamp(0.0, 1.0) * 255.0) as u8
    };
    u32::from_le_bytes([channel(0), channel(1), channel(2), 255])
}
