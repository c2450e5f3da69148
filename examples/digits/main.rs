//! Trains a network on handwritten digits, and draws the results.
//!
//! ```sh
//! cargo run --release --example digits -- [--rounds N] [--backend cpu|cuda|vulkan|sim] [--output FOLDER] [--json]
//! ```
//! Writes to `out/digits` the loss over the steps (`loss.svg`), the test images with wrong guesses framed
//! (`guesses.png`), and the schedule of a step (`step.dot`, for Graphviz).

mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use millstream_harness::{Line, chart};
use millstream_picture::{Picture, Rgb};

use model::{Digits, Images, train};
use shared::colours::mix;
use shared::options::{Number, Options};
use shared::{Failure, bar, exit};

const INK: Rgb = Rgb([40, 44, 52]);
const PAPER: Rgb = Rgb([255; 3]);
const RED: Rgb = Rgb([206, 48, 48]);
/// The points of the curve of losses.
const POINTS: usize = 60;

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

    let [loss, sheet, dot] = ["loss.svg", "guesses.png", "step.dot"];
    fs::write(options.output.join(loss), loss_curve(&losses))?;
    guess_sheet(&tests, &guesses).save(options.output.join(sheet))?;
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

/// Draws the loss over the steps.
fn loss_curve(losses: &[f32]) -> String {
    let batches = losses.len().div_ceil(POINTS);
    let mean = |losses: &[f32]| f64::from(losses.iter().sum::<f32>()) / losses.len() as f64;
    let means = losses.chunks(batches).map(mean);
    let points = means
        .zip(1..)
        .map(|(mean, point)| ((point * batches) as f64, mean));
    let line = Line {
        name: "loss".to_owned(),
        colour: "#2660b2",
        points: points.collect(),
    };
    let size = model::BATCH;
    let subtitle = format!("Cross entropy: the mean of {batches} batches of {size}");
    chart(["Training on digits", &subtitle], "step", &[line])
}

/// Draws all test images. Those with a wrong guess are red and framed.
fn guess_sheet(tests: &Images, guesses: &[i64]) -> Picture {
    const COLUMNS: usize = 24;
    // A cell has 8 x 8 pixels of the image, 4 x 4 each, and a border.
    const CELL: usize = 40;
    const BORDER: usize = 4;
    let rows = tests.len().div_ceil(COLUMNS);
    Picture::from_fn((COLUMNS * CELL) as u32, (rows * CELL) as u32, |x, y| {
        let (x, y) = (x as usize, y as usize);
        let index = y / CELL * COLUMNS + x / CELL;
        let (Some(guess), Some(digit)) = (guesses.get(index), tests.digits.get(index)) else {
            return PAPER;
        };
        let ink = if guess == digit { INK } else { RED };
        let inside = BORDER..CELL - BORDER;
        match inside.contains(&(x % CELL)) && inside.contains(&(y % CELL)) {
            true => {
                let [x, y] = [x, y].map(|at| (at % CELL - BORDER) / 4);
                mix(PAPER, ink, tests.pixels[index * 64 + y * 8 + x])
            }
            false if ink == RED => RED,
            false => PAPER,
        }
    })
}
