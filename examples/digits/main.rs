//! Learns handwritten digits on the device, and draws what it learnt.
//!
//! ```sh
//! cargo run --release --example digits -- [--rounds N] [--output FOLDER]
//! ```
//! Writes `digits-loss.png`, the loss over the steps, and `digits-guesses.png`, test images with those that it got wrong framed in
//! red.

mod model;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use image::{Rgb, RgbImage};
use millstream::{Cpu, Device};

use model::{Digits, Images, train};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut rounds, mut folder) = (30, PathBuf::from("."));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("`{argument}` takes a value"))?;
        match &argument[..] {
            "--rounds" => rounds = value.parse()?,
            "--output" => folder = value.into(),
            other => return Err(format!("`{other}` is no option: try --rounds or --output").into()),
        }
    }
    let device = Device::open(Cpu::default())?;
    let client = device.client();
    let stream = client.stream();
    let (images, tests) = Images::load();
    let network = Digits::new(&client, &stream, tests.len())?;
    let tasks = network.step().tasks();
    println!(
        "a step is {tasks} tasks in one message, {} bytes of temporaries",
        network.step().temporary_bytes()
    );

    let start = Instant::now();
    let losses = train(&network, &stream, &images, rounds, |_| {})?;
    let guesses = network.guess(&stream, &tests.pixels)?;
    let right = guesses
        .iter()
        .zip(&tests.digits)
        .filter(|(guess, digit)| guess == digit)
        .count();
    let share = 100.0 * right as f64 / tests.len() as f64;
    println!(
        "{} steps in {:.2} s; {right} of {} test digits right ({share:.1} %)",
        losses.len(),
        start.elapsed().as_secs_f64(),
        tests.len()
    );
    curve(&losses).save(folder.join("digits-loss.png"))?;
    sheet(&tests, &guesses).save(folder.join("digits-guesses.png"))?;
    Ok(())
}

/// The loss over the steps, on a scale of tens.
fn curve(losses: &[f32]) -> RgbImage {
    let (width, height) = (800, 300);
    let mut image = RgbImage::from_pixel(width, height, Rgb([255, 255, 255]));
    let level = |loss: f32| {
        let share = (loss.max(1e-4).log10() + 4.0) / 5.0;
        (f64::from(1.0 - share) * f64::from(height - 1)).clamp(0.0, f64::from(height - 1)) as u32
    };
    for tens in -3..=0 {
        let y = level(10_f32.powi(tens));
        (0..width).for_each(|x| image.put_pixel(x, y, Rgb([225, 225, 225])));
    }
    for (step, loss) in losses.iter().enumerate() {
        let x = (step * (width as usize - 1) / losses.len().max(1)) as u32;
        image.put_pixel(x, level(*loss), Rgb([30, 90, 170]));
    }
    image
}

/// The first test images, those that were taken for another digit in a red frame.
fn sheet(tests: &Images, guesses: &[i64]) -> RgbImage {
    let (columns, rows, cell, scale) = (24_u32, 12_u32, 28_u32, 3_u32);
    let mut image = RgbImage::from_pixel(columns * cell, rows * cell, Rgb([255, 255, 255]));
    for index in 0..(columns * rows).min(tests.len() as u32) {
        let (left, top) = (index % columns * cell, index / columns * cell);
        let wrong = guesses[index as usize] != tests.digits[index as usize];
        let frame = if wrong {
            Rgb([210, 40, 40])
        } else {
            Rgb([235, 235, 235])
        };
        for y in 0..cell - 1 {
            for x in 0..cell - 1 {
                let (px, py) = ((x.max(1) - 1) / scale, (y.max(1) - 1) / scale);
                let inside = (1..25).contains(&x) && (1..25).contains(&y);
                let shade = tests.pixels[(index * 64 + py.min(7) * 8 + px.min(7)) as usize];
                let grey = 255 - (shade * 255.0) as u8;
                let colour = if inside { Rgb([grey; 3]) } else { frame };
                image.put_pixel(left + x, top + y, colour);
            }
        }
    }
    image
}
