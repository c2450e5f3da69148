//! Decodes tokens greedily with a small transformer of random weights, and draws where each token looked.
//!
//! ```sh
//! cargo run --release --example decoder -- [--tokens N] [--output FOLDER]
//! ```
//! Writes `decoder-attention.png`: a row for each token, a column for each that it could look at, the heads side by side.

#[allow(dead_code, reason = "the plain twin is for tests")]
mod model;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use image::{Rgb, RgbImage};
use millstream::{Cpu, Device};

use model::{Decoded, Decoder, Sizes, Weights};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut tokens, mut folder) = (128, PathBuf::from("."));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("`{argument}` takes a value"))?;
        match &argument[..] {
            "--tokens" => tokens = value.parse()?,
            "--output" => folder = value.into(),
            other => return Err(format!("`{other}` is no option: try --tokens or --output").into()),
        }
    }
    let sizes = Sizes {
        tokens: 96,
        width: 128,
        heads: 4,
        blocks: 2,
        room: tokens.max(8),
    };
    let device = Device::open(Cpu::default())?;
    let client = device.client();
    let stream = client.stream();
    let decoder = Decoder::new(&client, &stream, sizes, &Weights::new(sizes, 7))?;
    let before = decoder.kernels_compiled();
    let start = Instant::now();
    let decoded = decoder.decode(&stream, &[1, 2, 3], tokens)?;
    let seconds = start.elapsed().as_secs_f64();
    let text: String = decoded
        .tokens
        .iter()
        .map(|token| (b' ' + (token % 95) as u8) as char)
        .collect();
    println!("{text}");
    println!(
        "{} tokens in {seconds:.3} s, each {} tasks in one message; {before} kernels compiled before the first, {} after",
        decoded.tokens.len(),
        decoder.schedule().tasks(),
        decoder.kernels_compiled() - before
    );
    attention(&decoded, sizes).save(folder.join("decoder-attention.png"))?;
    Ok(())
}

/// How much each token looked at those before it.
fn attention(decoded: &Decoded, sizes: Sizes) -> RgbImage {
    let (rows, cell) = (
        decoded.looks.len(),
        (512 / decoded.looks.len().max(1)).max(2),
    );
    let side = rows * cell + 8;
    let mut image = RgbImage::from_pixel((side * sizes.heads) as u32, side as u32, Rgb([255; 3]));
    for (row, look) in decoded.looks.iter().enumerate() {
        for (place, weight) in look.iter().enumerate() {
            let (head, column) = (place / (row + 1), place % (row + 1));
            let shade = 255 - (weight.sqrt() * 255.0) as u8;
            for y in 0..cell {
                for x in 0..cell {
                    let left = head * side + column * cell + x;
                    image.put_pixel(
                        left as u32,
                        (row * cell + y) as u32,
                        Rgb([shade, shade, 255]),
                    );
                }
            }
        }
    }
    image
}
