//! Decodes tokens greedily with a small transformer of random weights, and draws the attention of each token.
//!
//! ```sh
//! cargo run --release --example decoder -- [--tokens N] [--backend cpu|cuda|vulkan|sim] [--output FOLDER] [--json]
//! ```
//! Writes to `out/decoder` the attention of the last block (`attention.png`: a square for each head, a row for each token, a
//! column for each earlier token), and the schedule of a token (`token.dot`, for Graphviz).

#[allow(dead_code, reason = "only tests use the reference")]
mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use millstream_picture::{Picture, Rgb};

use model::{Decoded, Decoder, Sizes, Weights};
use shared::colours::scale_colour;
use shared::options::{Number, Options};
use shared::{Failure, bar, exit};

/// The side of a head's square, in pixels.
const SIDE: usize = 380;
/// The colours from no attention to full attention.
const COLOURS: [Rgb; 5] = [
    Rgb([250, 250, 252]),
    Rgb([180, 208, 236]),
    Rgb([70, 140, 200]),
    Rgb([24, 66, 138]),
    Rgb([10, 16, 52]),
];

fn main() -> ExitCode {
    exit(run(std::env::args().skip(1)))
}

/// Runs the example with the arguments of the command line.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut tokens = 128;
    let mut numbers = [Number {
        option: "--tokens",
        value: &mut tokens,
        range: 4..=8192,
    }];
    let options = Options::parse("decoder", arguments, &mut numbers)?;
    let sizes = Sizes {
        tokens: 95,
        width: 128,
        heads: 4,
        blocks: 2,
        room: tokens,
    };
    let device = options.open()?;
    let client = device.new_client();
    let stream = client.new_stream();
    let decoder = Decoder::new(&client, &stream, sizes, &Weights::new(sizes, 7))?;
    let before = decoder.kernels_compiled();
    let start = Instant::now();
    let bar = bar(tokens, "decoding", options.json);
    let decoded = decoder.decode(&stream, &[33, 73, 76], tokens, || bar.inc(1))?;
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    let after = decoder.kernels_compiled() - before;

    let [picture, dot] = ["attention.png", "token.dot"];
    attention(&decoded, sizes).save(options.output.join(picture))?;
    fs::write(options.output.join(dot), decoder.schedule().dot())?;

    let tasks = decoder.next().tasks();
    // The 95 tokens are shown as the 95 printable characters of ASCII.
    let character = |token: &i64| char::from(b' ' + (token % 95) as u8);
    let text: String = decoded.tokens.iter().map(character).collect();
    if options.json {
        let report = serde_json::json!({
            "example": "decoder", "tokens": decoded.tokens, "seconds": seconds, "tasks_of_a_token": tasks,
            "kernels_compiled_before": before, "kernels_compiled_after": after,
        });
        println!("{report:#}");
    } else {
        let count = decoded.tokens.len();
        println!("token       {tasks} tasks in one message");
        println!("decoding    {count} tokens in {seconds:.3} s");
        println!("kernels     {before} compiled before the first token, {after} after it");
        println!("output      {text}");
        println!(
            "files       {picture} and {dot} in {}",
            options.output.display()
        );
    }
    Ok(())
}

/// Draws the attention of each token to earlier ones, a square for each head. Dark is high; the scale is a square root.
fn attention(decoded: &Decoded, sizes: Sizes) -> Picture {
    let count = decoded.looks.len();
    let cell = (SIDE / count.max(1)).max(1);
    let (side, step) = (count * cell, count * cell + 40);
    Picture::from_fn((sizes.heads * step) as u32, side as u32, |x, y| {
        let (head, column) = (x as usize / step, x as usize % step / cell);
        let row = y as usize / cell;
        match column <= row {
            true => {
                let weight = decoded.looks[row][head * (row + 1) + column];
                scale_colour(&COLOURS, weight.sqrt())
            }
            false => Rgb([255; 3]),
        }
    })
}
