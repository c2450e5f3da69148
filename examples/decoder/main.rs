//! Decodes tokens greedily with a small transformer of random weights, and draws where each token looked.
//!
//! ```sh
//! cargo run --release --example decoder -- [--tokens N] [--backend cpu|cuda|sim] [--output FOLDER] [--json]
//! ```
//! Leaves in `out/decoder` how much each token looked at those before it, for each head (`attention.png`), and the schedule of a
//! token (`token.dot`, which `millstream draw` draws).

#[allow(dead_code, reason = "the plain twin is for tests")]
mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use image::{ImageError, Rgb};

use model::{Decoded, Decoder, Sizes, Weights};
use shared::options::{Number, Options};
use shared::paper::{From, INK, PALE, Paper, RULE, on_scale, ticks};
use shared::{Failure, bar, exit};

/// Pixels of a head's square, at least.
const SIDE: usize = 380;
/// From no attention to all of it.
const COLOURS: [Rgb<u8>; 5] = [
    Rgb([250, 250, 252]),
    Rgb([180, 208, 236]),
    Rgb([70, 140, 200]),
    Rgb([24, 66, 138]),
    Rgb([10, 16, 52]),
];

fn main() -> ExitCode {
    exit(run(std::env::args().skip(1)))
}

/// Runs the example with these arguments of the command line.
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
    attention(&decoded, sizes)?.save(&options.output.join(picture))?;
    fs::write(options.output.join(dot), decoder.schedule().dot())?;

    let tasks = decoder.next().tasks();
    // Printable ASCII has as many characters as there are tokens.
    let letter = |token: &i64| char::from(b' ' + (token % 95) as u8);
    let text: String = decoded.tokens.iter().map(letter).collect();
    if options.json {
        let report = serde_json::json!({
            "example": "decoder", "tokens": decoded.tokens, "seconds": seconds, "tasks_of_a_token": tasks,
            "kernels_compiled_before": before, "kernels_compiled_after": after,
        });
        println!("{report:#}");
    } else {
        let count = decoded.tokens.len();
        println!("a token     {tasks} tasks in one message");
        println!("decoding    {count} tokens in {seconds:.3} s");
        println!("compiled    {before} kernels before the first token, {after} after it");
        println!("it says     {text}");
        println!(
            "files       {picture} and {dot} in {}",
            options.output.display()
        );
    }
    Ok(())
}

/// How much each token looked at those before it: a square for each head.
fn attention(decoded: &Decoded, sizes: Sizes) -> Result<Paper, ImageError> {
    let count = decoded.looks.len();
    let cell = (SIDE / count.max(1)).max(1);
    let (side, gap, top) = ((count * cell) as u32, 40, 120);
    let mut paper = Paper::new(60 + sizes.heads as u32 * (side + gap), top + side + 70)?;
    let line = "Last block: each row is a token, each column one that it could look at. Dark is much, on a scale of roots";
    paper.head("Where tokens look", line);
    for head in 0..sizes.heads {
        let left = 60 + head as u32 * (side + gap);
        paper.write(From::Left, (left, top - 24), &format!("head {head}"), INK);
        for (row, look) in decoded.looks.iter().enumerate() {
            for (column, weight) in look[head * (row + 1)..][..row + 1].iter().enumerate() {
                let at = (left + (column * cell) as u32, top + (row * cell) as u32);
                paper.fill(
                    at,
                    (cell as u32, cell as u32),
                    on_scale(&COLOURS, weight.sqrt()),
                );
            }
        }
        paper.frame((left - 1, top - 1), (side + 2, side + 2), 1, RULE);
        for token in ticks(count) {
            let at = (token * cell) as u32;
            let text = token.to_string();
            paper.write(From::Middle, (left + at, top + side + 6), &text, PALE);
            if head == 0 {
                paper.write(From::Right, (left - 8, top + at - 9), &text, PALE);
            }
        }
        let middle = (left + side / 2, top + side + 28);
        paper.write(From::Middle, middle, "token looked at", PALE);
    }
    Ok(paper)
}
