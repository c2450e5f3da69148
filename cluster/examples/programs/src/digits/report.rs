//! The figures of a run, as a table and as JSON.

use std::time::Duration;

use millstream_harness::Table;
use serde_json::{Value, json};

use super::Round;

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
    /// Returns a row for each round, and the result in a line.
    pub fn text(&self) -> String {
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
    pub fn json(&self) -> Value {
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
    pub fn right(&self) -> u64 {
        self.rounds.last().map_or(0, |round| round.right)
    }

    /// Whether all losses are finite.
    pub fn is_finite(&self) -> bool {
        self.rounds.iter().all(|round| round.loss.is_finite())
    }
}

fn images_per_s(rounds: &[Round]) -> f64 {
    let images: usize = rounds.iter().map(|round| round.images).sum();
    let time: Duration = rounds.iter().map(|round| round.time).sum();
    images as f64 / time.as_secs_f64()
}
