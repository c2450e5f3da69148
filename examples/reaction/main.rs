//! Two substances that react and spread, and the picture that they make.
//!
//! ```sh
//! cargo run --release --example reaction -- [--size N] [--steps N] [--output FOLDER]
//! ```
//! Writes `reaction.png`.

#[allow(dead_code, reason = "the plain twin is for tests")]
mod model;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use image::{Rgb, RgbImage};
use millstream::{Cpu, Device};

use model::Reaction;

/// Steps of one run: one message to the device.
const UNROLLED: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut size, mut steps, mut folder) = (256, 8000, PathBuf::from("."));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("`{argument}` takes a value"))?;
        match &argument[..] {
            "--size" => size = value.parse()?,
            "--steps" => steps = value.parse()?,
            "--output" => folder = value.into(),
            other => {
                return Err(
                    format!("`{other}` is no option: try --size, --steps or --output").into(),
                );
            }
        }
    }
    let device = Device::open(Cpu::default())?;
    let client = device.client();
    let stream = client.stream();
    let reaction = Reaction::new(&client, &stream, size, UNROLLED)?;
    println!(
        "a run of {UNROLLED} steps is {} tasks in one message",
        reaction.steps().tasks()
    );
    let start = Instant::now();
    reaction.run(&stream, steps / UNROLLED)?;
    let second = reaction.second(&stream)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{steps} steps of {size} x {size} cells in {seconds:.2} s");
    let side = reaction.size() as u32;
    let image = RgbImage::from_fn(side, side, |x, y| {
        let share = (second[(y * side + x) as usize] * 2.6).clamp(0.0, 1.0);
        let mix = |from: f32, to: f32| (from + (to - from) * share) as u8;
        Rgb([mix(12.0, 250.0), mix(20.0, 190.0), mix(60.0, 80.0)])
    });
    image.save(folder.join("reaction.png"))?;
    Ok(())
}
