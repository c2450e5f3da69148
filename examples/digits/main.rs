//! Learns handwritten digits on the device, and draws what it learnt.
//!
//! ```sh
//! cargo run --release --example digits -- [--rounds N] [--backend cpu|cuda|sim] [--output FOLDER] [--json]
//! ```
//! Leaves in `out/digits` the loss over the steps (`loss.png`), the test images with those framed that it took for another digit
//! (`guesses.png`), and the schedule of a step (`step.dot`, which `millstream draw` draws).

mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use image::{ImageError, Rgb};

use model::{Digits, Images, train};
use shared::options::{Number, Options};
use shared::paper::{From, INK, PALE, Paper, RULE, mix, ticks};
use shared::{Failure, bar, exit};

const BLUE: Rgb<u8> = Rgb([38, 96, 178]);
const RED: Rgb<u8> = Rgb([206, 48, 48]);

fn main() -> ExitCode {
    exit(run(std::env::args().skip(1)))
}

/// Runs the example with these arguments of the command line.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut rounds = 30;
    let mut numbers = [Number {
        option: "--rounds",
        value: &mut rounds,
        range: 1..=10_000,
    }];
    let options = Options::parse("digits", arguments, &mut numbers)?;
    let device = options.open()?;
    let client = device.new_client();
    let stream = client.new_stream();
    let (images, tests) = Images::load();
    let network = Digits::new(&client, &stream, tests.len())?;

    let start = Instant::now();
    let bar = bar(rounds, "learning", options.json);
    let losses = train(&network, &stream, &images, rounds, |_| bar.inc(1))?;
    bar.finish_and_clear();
    let guesses = network.guess(&stream, &tests.pixels)?;
    let seconds = start.elapsed().as_secs_f64();
    let pairs = guesses.iter().zip(&tests.digits);
    let right = pairs.filter(|(guess, digit)| guess == digit).count();

    let [loss, sheet, dot] = ["loss.png", "guesses.png", "step.dot"];
    curve(&losses)?.save(&options.output.join(loss))?;
    guessed(&tests, &guesses, right)?.save(&options.output.join(sheet))?;
    fs::write(options.output.join(dot), network.schedule().dot())?;

    let (steps, of) = (losses.len(), tests.len());
    let (tasks, bytes) = (network.step().tasks(), network.step().temporary_bytes());
    if options.json {
        let report = serde_json::json!({
            "example": "digits", "steps": steps, "seconds": seconds, "right": right, "tests": of,
            "tasks_of_a_step": tasks, "temporary_bytes": bytes, "last_loss": losses.last(),
        });
        println!("{report:#}");
    } else {
        let share = 100.0 * right as f64 / of as f64;
        println!("a step      {tasks} tasks in one message, {bytes} bytes of temporaries");
        println!("learning    {steps} steps in {seconds:.2} s");
        println!("test        {right} of {of} digits right ({share:.1} %)");
        println!(
            "files       {loss}, {sheet} and {dot} in {}",
            options.output.display()
        );
    }
    if losses.iter().any(|loss| !loss.is_finite()) {
        let text = "the loss is no number any more: it did not learn";
        return Err(Failure::Run(text.into()));
    }
    Ok(())
}

/// The loss over the steps, on a scale of tens: each step as a dot, and the mean of those about it as a line.
fn curve(losses: &[f32]) -> Result<Paper, ImageError> {
    const MEAN_OF: usize = 25;
    let (left, top, width, height) = (70_u32, 96_u32, 800_u32, 300_u32);
    let mut paper = Paper::new(left + width + 30, top + height + 60)?;
    let line = format!(
        "Cross entropy of each batch of {}, and the mean of {MEAN_OF} of them",
        model::BATCH
    );
    paper.head("Learning digits", &line);
    let least = losses.iter().copied().fold(0.1_f32, f32::min).max(1e-6);
    let lowest = least.log10().floor();
    let highest = losses
        .iter()
        .copied()
        .fold(1.0_f32, f32::max)
        .log10()
        .ceil()
        .max(lowest + 1.0);
    let y = |loss: f32| {
        let share = (highest - loss.max(1e-9).log10()) / (highest - lowest);
        top as f32 + share.clamp(0.0, 1.0) * height as f32
    };
    for tens in lowest as i32..=highest as i32 {
        let at = y(10_f32.powi(tens)) as u32;
        paper.fill((left, at), (width, 1), RULE);
        let text = format!("{}", 10_f64.powi(tens));
        paper.write(From::Right, (left - 10, at - 9), &text, PALE);
    }
    let x = |step: f32| left as f32 + step * (width - 1) as f32 / losses.len().max(1) as f32;
    for (step, loss) in losses.iter().enumerate() {
        paper.pen((x(step as f32), y(*loss)), 1.6, BLUE, 0.28);
    }
    let mean = |(index, window): (usize, &[f32])| {
        let mean = window.iter().sum::<f32>() / window.len() as f32;
        (x(index as f32 + window.len() as f32 / 2.0), y(mean))
    };
    let means: Vec<(f32, f32)> = losses
        .windows(MEAN_OF.min(losses.len()))
        .enumerate()
        .map(mean)
        .collect();
    paper.line(&means, 1.3, BLUE);
    for step in ticks(losses.len()) {
        let at = x(step as f32) as u32;
        paper.fill((at, top + height), (1, 6), PALE);
        paper.write(
            From::Middle,
            (at, top + height + 10),
            &step.to_string(),
            PALE,
        );
    }
    paper.write(
        From::Middle,
        (left + width / 2, top + height + 32),
        "step",
        PALE,
    );
    Ok(paper)
}

/// All test images. Those that were taken for another digit have a red frame, and the other digit in their corner.
fn guessed(tests: &Images, guesses: &[i64], right: usize) -> Result<Paper, ImageError> {
    let (columns, scale, cell) = (24_u32, 4_u32, 40_u32);
    let rows = (tests.len() as u32).div_ceil(columns);
    let mut paper = Paper::new(48 + columns * cell, 104 + rows * cell)?;
    let title = format!("{right} of {} digits right", tests.len());
    paper.head(
        &title,
        "None of these was learnt from. Framed: what it was taken for is in the corner.",
    );
    for (index, (guess, digit)) in guesses.iter().zip(&tests.digits).enumerate() {
        let place = index as u32;
        let (left, top) = (24 + place % columns * cell, 84 + place / columns * cell);
        let pixels = &tests.pixels[index * 64..][..64];
        let is_wrong = guess != digit;
        let ink = if is_wrong { RED } else { INK };
        for (pixel, shade) in pixels.iter().enumerate() {
            let (x, y) = (pixel as u32 % 8, pixel as u32 / 8);
            let at = (left + 4 + x * scale, top + 4 + y * scale);
            paper.fill(at, (scale, scale), mix(Rgb([255; 3]), ink, *shade));
        }
        if is_wrong {
            paper.frame((left + 1, top + 1), (cell - 2, cell - 2), 2, RED);
            paper.fill((left + 3, top + 3), (12, 17), Rgb([255; 3]));
            paper.write(From::Left, (left + 4, top + 2), &guess.to_string(), RED);
        }
    }
    Ok(paper)
}
