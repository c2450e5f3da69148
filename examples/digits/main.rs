//! Trains a network on handwritten digits, and draws the results.
//!
//! ```sh
//! cargo run --release --example digits -- [--rounds N] [--backend cpu|cuda|vulkan|sim] [--output FOLDER] [--json]
//! ```
//! Writes to `out/digits` the loss over the steps (`loss.png`), the test images with wrong guesses framed
//! (`guesses.png`), and the schedule of a step (`step.dot`, for Graphviz).

mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use millstream_picture::Rgb;

use model::{Digits, Images, train};
use shared::canvas::{Align, Canvas, INK, PALE, RULE, mix, ticks};
use shared::options::{Number, Options};
use shared::{Failure, bar, exit};

const BLUE: Rgb = Rgb([38, 96, 178]);
const RED: Rgb = Rgb([206, 48, 48]);

fn main() -> ExitCode {
    exit(run(std::env::args().skip(1)))
}

/// Runs the example with the arguments of the command line.
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
    let bar = bar(rounds, "training", options.json);
    let losses = train(&network, &stream, &images, rounds, |_| bar.inc(1))?;
    bar.finish_and_clear();
    let guesses = network.guess(&stream, &tests.pixels)?;
    let seconds = start.elapsed().as_secs_f64();
    let pairs = guesses.iter().zip(&tests.digits);
    let right = pairs.filter(|(guess, digit)| guess == digit).count();

    let [loss, sheet, dot] = ["loss.png", "guesses.png", "step.dot"];
    loss_curve(&losses)?.save(&options.output.join(loss))?;
    guess_sheet(&tests, &guesses, right)?.save(&options.output.join(sheet))?;
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
        println!("step        {tasks} tasks in one message, {bytes} bytes of temporaries");
        println!("training    {steps} steps in {seconds:.2} s");
        println!("test        {right} of {of} digits correct ({share:.1} %)");
        println!(
            "files       {loss}, {sheet} and {dot} in {}",
            options.output.display()
        );
    }
    if losses.iter().any(|loss| !loss.is_finite()) {
        let text = "training diverged: the loss is not finite";
        return Err(Failure::Run(text.into()));
    }
    Ok(())
}

/// Draws the loss over the steps on a logarithmic scale: each step as a dot, and the moving average as a line.
fn loss_curve(losses: &[f32]) -> Result<Canvas, std::io::Error> {
    const MEAN_OF: usize = 25;
    let (left, top, width, height) = (70_u32, 96_u32, 800_u32, 300_u32);
    let mut canvas = Canvas::new(left + width + 30, top + height + 60)?;
    let line = format!(
        "Cross entropy of each batch of {}, and the moving average of {MEAN_OF} batches",
        model::BATCH
    );
    canvas.heading("Training on digits", &line);
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
        canvas.fill((left, at), (width, 1), RULE);
        let text = format!("{}", 10_f64.powi(tens));
        canvas.write(Align::Right, (left - 10, at - 9), &text, PALE);
    }
    let x = |step: f32| left as f32 + step * (width - 1) as f32 / losses.len().max(1) as f32;
    for (step, loss) in losses.iter().enumerate() {
        canvas.pen((x(step as f32), y(*loss)), 1.6, BLUE, 0.28);
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
    canvas.line(&means, 1.3, BLUE);
    for step in ticks(losses.len()) {
        let at = x(step as f32) as u32;
        canvas.fill((at, top + height), (1, 6), PALE);
        canvas.write(
            Align::Middle,
            (at, top + height + 10),
            &step.to_string(),
            PALE,
        );
    }
    canvas.write(
        Align::Middle,
        (left + width / 2, top + height + 32),
        "step",
        PALE,
    );
    Ok(canvas)
}

/// Draws all test images. A wrong guess has a red frame, and the guessed digit in its corner.
fn guess_sheet(tests: &Images, guesses: &[i64], right: usize) -> Result<Canvas, std::io::Error> {
    let (columns, scale, cell) = (24_u32, 4_u32, 40_u32);
    let rows = (tests.len() as u32).div_ceil(columns);
    let mut canvas = Canvas::new(48 + columns * cell, 104 + rows * cell)?;
    let title = format!("{right} of {} digits correct", tests.len());
    canvas.heading(
        &title,
        "Test images. Wrong guesses are framed, with the guess in the corner.",
    );
    for (index, (guess, digit)) in guesses.iter().zip(&tests.digits).enumerate() {
        let position = index as u32;
        let (left, top) = (
            24 + position % columns * cell,
            84 + position / columns * cell,
        );
        let pixels = &tests.pixels[index * 64..][..64];
        let is_wrong = guess != digit;
        let ink = if is_wrong { RED } else { INK };
        for (pixel, shade) in pixels.iter().enumerate() {
            let (x, y) = (pixel as u32 % 8, pixel as u32 / 8);
            let at = (left + 4 + x * scale, top + 4 + y * scale);
            canvas.fill(at, (scale, scale), mix(Rgb([255; 3]), ink, *shade));
        }
        if is_wrong {
            canvas.frame((left + 1, top + 1), (cell - 2, cell - 2), 2, RED);
            canvas.fill((left + 3, top + 3), (12, 17), Rgb([255; 3]));
            canvas.write(Align::Left, (left + 4, top + 2), &guess.to_string(), RED);
        }
    }
    Ok(canvas)
}
