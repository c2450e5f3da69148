//! The options that training has wherever it runs.

use clap::{Args, value_parser};

use super::model::BATCH;

#[derive(Args)]
pub struct TrainingOptions {
    /// The number of passes over the images.
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// The images of a step, on all devices together.
    #[arg(long, default_value_t = BATCH as u32, value_parser = value_parser!(u32).range(1..=1_024))]
    pub batch: u32,
    /// The threads of each CPU device that share one launch.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Prints only one JSON object.
    #[arg(long)]
    pub json: bool,
}
