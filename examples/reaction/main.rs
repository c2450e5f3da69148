//! Simulates two substances that react and diffuse, and draws them.
//!
//! ```sh
//! cargo run --release --example reaction -- [--size N] [--steps N] [--backend cpu|cuda|vulkan|sim] [--output FOLDER] [--json]
//! ```
//! Writes to `out/reaction` four moments of the simulation (`reaction.png`), and the schedule of a run (`run.dot`, for
//! Graphviz).

#[allow(dead_code, reason = "only tests use the reference")]
mod model;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use millstream_picture::{Picture, Rgb};

use model::Reaction;
use shared::colours::scale_colour;
use shared::options::{Number, Options};
use shared::{Failure, bar, exit};

/// Steps of a run, which is one message to the device.
const UNROLLED: usize = 8;
/// Runs between updates of the progress bar.
const RUNS_PER_UPDATE: usize = 25;
/// The colours from none of the second substance to its maximum.
const COLOURS: [Rgb; 6] = [
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

/// Runs the example with the arguments of the command line.
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
    let shown = stops.map(|stop| (stop * UNROLLED).to_string());
    let start = Instant::now();
    let bar = bar(runs, "simulating", options.json);
    let mut moments = Vec::new();
    let mut done = 0;
    for stop in stops {
        while done < stop {
            let count = RUNS_PER_UPDATE.min(stop - done);
            reaction.run(&stream, count)?;
            reaction.wait(&stream)?;
            done += count;
            bar.set_position(done as u64);
        }
        moments.push(reaction.second(&stream)?);
    }
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();

    let [picture, dot] = ["reaction.png", "run.dot"];
    draw(&moments, size).save(options.output.join(picture))?;
    fs::write(options.output.join(dot), reaction.schedule().dot())?;

    let (steps, tasks) = (runs * UNROLLED, reaction.steps().tasks());
    if options.json {
        let report = serde_json::json!({
            "example": "reaction", "size": size, "steps": steps, "seconds": seconds,
            "steps_of_a_run": UNROLLED, "tasks_of_a_run": tasks,
        });
        println!("{report:#}");
    } else {
        println!("run         {UNROLLED} steps, {tasks} tasks in one message");
        println!("simulation  {steps} steps of {size} x {size} cells in {seconds:.2} s");
        println!("pictures    after {} steps", shown.join(", "));
        println!(
            "files       {picture} and {dot} in {}",
            options.output.display()
        );
    }
    if moments.iter().flatten().any(|cell| !cell.is_finite()) {
        let text = "the simulation diverged: a cell is not finite";
        return Err(Failure::Run(text.into()));
    }
    Ok(())
}

/// Draws the moments side by side.
fn draw(moments: &[Vec<f32>], side: usize) -> Picture {
    let step = side + 16;
    Picture::from_fn((moments.len() * step) as u32, side as u32, |x, y| {
        let (moment, x) = (x as usize / step, x as usize % step);
        match x < side {
            true => scale_colour(&COLOURS, moments[moment][y as usize * side + x] * 2.6),
            false => Rgb([255; 3]),
        }
    })
}
