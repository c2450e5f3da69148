//! Two substances that react and spread, and the pictures that they make.
//!
//! ```sh
//! cargo run --release --example reaction -- [--size N] [--steps N] [--backend cpu|cuda|sim] [--output FOLDER] [--json]
//! ```
//! Leaves in `out/reaction` four moments of it (`reaction.png`), and the schedule of a run (`run.dot`, which `millstream draw`
//! draws).

#[allow(dead_code, reason = "the plain twin is for tests")]
mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use image::{ImageError, Rgb};

use model::Reaction;
use shared::options::{Number, Options};
use shared::paper::{From, INK, Paper, on_scale};
use shared::{Failure, bar, exit};

/// Steps of one run: one message to the device.
const UNROLLED: usize = 8;
/// Runs between two looks at how far it is.
const BETWEEN: usize = 25;
/// From none of the second substance to as much as there is ever.
const COLOURS: [Rgb<u8>; 6] = [
    Rgb([10, 14, 46]),
    Rgb([22, 52, 110]),
    Rgb([18, 122, 142]),
    Rgb([110, 190, 130]),
    Rgb([246, 214, 110]),
    Rgb([255, 248, 224]),
];

fn main() -> ExitCode {
    exit(run(std::env::args().skip(1)))
}

/// Runs the example with these arguments of the command line.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let (mut size, mut steps) = (256, 8000);
    let mut numbers = [
        Number {
            option: "--size",
            value: &mut size,
            range: 16..=4096,
        },
        Number {
            option: "--steps",
            value: &mut steps,
            range: UNROLLED..=10_000_000,
        },
    ];
    let options = Options::parse("reaction", arguments, &mut numbers)?;
    let device = options.open()?;
    let client = device.new_client();
    let stream = client.new_stream();
    let reaction = Reaction::new(&client, &stream, size, UNROLLED)?;

    let runs = steps / UNROLLED;
    let stops = [16, 4, 2, 1].map(|part| runs.div_ceil(part));
    let start = Instant::now();
    let bar = bar(runs, "reacting", options.json);
    let mut moments = Vec::new();
    let mut done = 0;
    for stop in stops {
        while done < stop {
            let now = BETWEEN.min(stop - done);
            reaction.run(&stream, now)?;
            reaction.settled(&stream)?;
            done += now;
            bar.set_position(done as u64);
        }
        moments.push((done * UNROLLED, reaction.second(&stream)?));
    }
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();

    let [picture, dot] = ["reaction.png", "run.dot"];
    drawn(&moments, size as u32)?.save(&options.output.join(picture))?;
    fs::write(options.output.join(dot), reaction.schedule().dot())?;

    let (steps, tasks) = (runs * UNROLLED, reaction.steps().tasks());
    if options.json {
        let report = serde_json::json!({
            "example": "reaction", "size": size, "steps": steps, "seconds": seconds,
            "steps_of_a_run": UNROLLED, "tasks_of_a_run": tasks,
        });
        println!("{report:#}");
    } else {
        println!("a run       {UNROLLED} steps, {tasks} tasks in one message");
        println!("reacting    {steps} steps of {size} x {size} cells in {seconds:.2} s");
        println!(
            "files       {picture} and {dot} in {}",
            options.output.display()
        );
    }
    if moments
        .iter()
        .any(|(_, second)| second.iter().any(|it| !it.is_finite()))
    {
        let text = "some cell holds no number any more: the steps are too large";
        return Err(Failure::Run(text.into()));
    }
    Ok(())
}

/// The moments side by side, each with the steps that led to it.
fn drawn(moments: &[(usize, Vec<f32>)], side: u32) -> Result<Paper, ImageError> {
    let gap = 16;
    let mut paper = Paper::new(gap + moments.len() as u32 * (side + gap), side + gap + 40)?;
    for (index, (steps, second)) in moments.iter().enumerate() {
        let left = gap + index as u32 * (side + gap);
        for (cell, share) in second.iter().enumerate() {
            let (x, y) = (cell as u32 % side, cell as u32 / side);
            paper.dot((left + x, gap + y), on_scale(&COLOURS, share * 2.6));
        }
        let text = format!("{steps} steps");
        paper.write(From::Middle, (left + side / 2, gap + side + 9), &text, INK);
    }
    Ok(paper)
}
