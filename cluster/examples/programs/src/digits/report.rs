//! The figures of a run, as a table and as JSON.

use std::time::Duration;

use millstream_cluster::Group;
use millstream_harness::Table;
use serde_json::{Value, json};

use super::model::{Images, Order};
use super::options::TrainingOptions;
use super::{BUCKETS, Failure, Round, Training};

/// A run, once it has ended.
pub struct Report {
    /// The number of devices, of all ranks.
    pub devices: usize,
    /// The number of images of a step.
    pub batch: usize,
    /// The number of test images.
    pub tests: usize,
    pub rounds: Vec<Round>,
}

impl Report {
    /// Trains on some devices, of all ranks.
    ///
    /// # Errors
    /// The failure of a step on any rank.
    pub fn of(
        groups: [Group; BUCKETS],
        options: &TrainingOptions,
        devices: usize,
    ) -> Result<Self, Failure> {
        let (images, tests) = Images::load();
        let (mut order, batch) = (Order::new(images.len()), options.batch as usize);
        let training = Training::new(groups, batch, images, &tests)?;
        let rounds = 0..options.rounds as usize;
        let rounds = rounds.map(|round| training.round(&mut order, round));
        Ok(Self {
            devices,
            batch,
            tests: tests.len(),
            rounds: rounds.collect::<Result<_, _>>()?,
        })
    }

    /// Prints the text, or the JSON object.
    pub fn print(&self, is_json: bool) {
        match is_json {
            true => println!("{:#}", self.json()),
            false => println!("{}", self.text()),
        }
    }

    /// Returns an error if a loss is not finite.
    ///
    /// # Errors
    /// The training diverged.
    pub fn check(&self) -> Result<(), Failure> {
        match self.rounds.iter().all(|round| round.loss.is_finite()) {
            true => Ok(()),
            false => Err("training diverged: the loss is not finite".into()),
        }
    }

    /// Returns a row for each round, and the result in a line.
    fn text(&self) -> String {
        let mut table = Table::new(["round", "loss", "accuracy", "images/s"], 0..4);
        for (index, round) in self.rounds.iter().enumerate() {
            table.row([
                (index + 1).to_string(),
                format!("{:.4}", round.loss),
                format!("{:.1} %", 100.0 * round.right as f64 / self.tests as f64),
                format!("{:.0}", images_per_s(std::slice::from_ref(round))),
            ]);
        }
        format!(
            "{}\n{} device(s), batches of {} images: {} of {} test images correct, {:.0} images/s in training",
            table.text(),
            self.devices,
            self.batch,
            self.right(),
            self.tests,
            images_per_s(&self.rounds),
        )
    }

    /// Returns the same as a JSON object.
    fn json(&self) -> Value {
        let row = |round: &Round| {
            json!({
                "loss": round.loss, "right": round.right, "images": round.images,
                "seconds": round.time.as_secs_f64(),
            })
        };
        json!({
            "program": "digits", "devices": self.devices, "batch": self.batch, "tests": self.tests, "right": self.right(),
            "images_per_s": images_per_s(&self.rounds),
            "rounds": self.rounds.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// Returns the number of test images guessed right after the last round.
    fn right(&self) -> u64 {
        self.rounds.last().map_or(0, |round| round.right)
    }
}

fn images_per_s(rounds: &[Round]) -> f64 {
    let images: usize = rounds.iter().map(|round| round.images).sum();
    let time: Duration = rounds.iter().map(|round| round.time).sum();
    images as f64 / time.as_secs_f64()
}
