//! The report of a run as data. The table (`table.rs`) and `--json` are two views of it.
//!
//! Names end in their units. A figure without a measurement is null.

use std::path::PathBuf;
use std::time::Duration;

use millstream::{KernelProfile, Profile};
use serde::Serialize;

use super::files::Skipped;
use crate::args::{DemoBackend, Order};
use crate::exit::Exit;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) exit_code: u8,
    pub(crate) settings: Settings,
    pub(crate) device: DeviceFacts,
    pub(crate) run: RunFacts,
    pub(crate) threads: Vec<ThreadFacts>,
    pub(crate) photos: Vec<PhotoFacts>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) runtime: RuntimeFacts,
    /// With `--profile`.
    pub(crate) profile: Option<ProfileFacts>,
    pub(crate) teardown: TeardownFacts,
    pub(crate) files: Files,
}

/// How long each kernel ran.
#[derive(Debug, Serialize)]
pub(crate) struct ProfileFacts {
    /// The clock that the times come from.
    pub(crate) clock: String,
    pub(crate) tasks: u64,
    /// The number of tasks without times.
    pub(crate) untimed: u64,
    /// Whether the profile reached its limit of tasks, so that later tasks are missing.
    pub(crate) is_cut: bool,
    /// The time in which at least one of the tasks ran.
    pub(crate) busy_ms: f64,
    /// The kernels, in descending order of total time.
    pub(crate) kernels: Vec<KernelFacts>,
}

#[derive(Debug, Serialize)]
pub(crate) struct KernelFacts {
    pub(crate) name: String,
    pub(crate) tasks: u64,
    pub(crate) total_ms: f64,
    pub(crate) mean_ms: f64,
    pub(crate) min_ms: f64,
    pub(crate) max_ms: f64,
}

impl ProfileFacts {
    pub(crate) fn of(profile: &Profile) -> Self {
        let kernel = |kernel: &KernelProfile| KernelFacts {
            name: kernel.name.to_string(),
            tasks: kernel.tasks,
            total_ms: milliseconds(kernel.total),
            mean_ms: milliseconds(kernel.mean()),
            min_ms: milliseconds(kernel.min),
            max_ms: milliseconds(kernel.max),
        };
        Self {
            clock: profile.busy.clock.to_string(),
            tasks: profile.tasks,
            untimed: profile.untimed,
            is_cut: profile.is_cut,
            busy_ms: milliseconds(profile.busy.duration),
            kernels: profile.kernels.iter().map(kernel).collect(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settings {
    pub(crate) backend: DemoBackend,
    pub(crate) threads: usize,
    pub(crate) strategy: Order,
    pub(crate) repeat: usize,
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct DeviceFacts {
    pub(crate) name: String,
    pub(crate) queues: usize,
}

/// The totals of the run. `seconds` excludes the reading and writing of files.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RunFacts {
    pub(crate) photos: u64,
    pub(crate) equal: u64,
    pub(crate) different: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    pub(crate) photos_per_second: Option<f64>,
    pub(crate) megapixels_per_second: Option<f64>,
    pub(crate) latency_p50_ms: Option<f64>,
    pub(crate) latency_p99_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ThreadFacts {
    pub(crate) thread: usize,
    pub(crate) photos: u64,
    pub(crate) latency_p50_ms: Option<f64>,
    pub(crate) latency_p99_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PhotoFacts {
    pub(crate) file: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) equal: u64,
    /// The largest number of pixels in one result that rounded the other way (see `check.rs`).
    pub(crate) rounded_otherwise: u64,
    /// The first difference or failure.
    pub(crate) wrong: Option<String>,
    pub(crate) drawing: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct RuntimeFacts {
    pub(crate) tasks: u64,
    pub(crate) batches: u64,
    pub(crate) tasks_per_batch: Option<f64>,
    pub(crate) waits_issued: u64,
    pub(crate) waits_implied: u64,
    pub(crate) failures: u64,
    pub(crate) memory_high_water_bytes: u64,
    pub(crate) queues: Vec<QueueFacts>,
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueFacts {
    pub(crate) queue: usize,
    pub(crate) tasks: u64,
    /// The time in which at least one traced task ran.
    pub(crate) busy_ms: f64,
    /// Busy time over the time from the first start to the last end of the traced tasks, 0 to 1, as in the timeline.
    pub(crate) occupancy: Option<f64>,
}

/// What remained when the device was closed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TeardownFacts {
    pub(crate) drained: bool,
    pub(crate) tasks_left: u64,
    pub(crate) slices_held: u64,
    pub(crate) threads_left: u64,
}

impl TeardownFacts {
    /// Returns `true` if all tasks were drained, all slices freed and all threads joined (I10).
    pub(crate) fn is_clean(&self) -> bool {
        self.drained && self.tasks_left + self.slices_held + self.threads_left == 0
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Files {
    pub(crate) drawings: PathBuf,
    pub(crate) contact_sheet: PathBuf,
    pub(crate) timeline: PathBuf,
    /// The timeline as data, with `--timeline`.
    pub(crate) saved_timeline: Option<PathBuf>,
}

impl Report {
    /// Returns the exit code of the results.
    pub(crate) fn exit(&self) -> Exit {
        if self.run.different + self.run.failed > 0 {
            Exit::Failure
        } else if self.skipped.is_empty() {
            Exit::Success
        } else {
            Exit::Skipped
        }
    }
}

/// Returns `part / whole`, or `None` if `whole` is not positive.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the latency in milliseconds that `percent` of the runs did not exceed (nearest rank). Sorts `latencies`.
pub(crate) fn percentile_ms(latencies: &mut [Duration], percent: usize) -> Option<f64> {
    latencies.sort_unstable();
    let rank = (latencies.len() * percent).div_ceil(100).max(1);
    latencies.get(rank - 1).copied().map(milliseconds)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a report of two threads and two photographs, for tests of the views.
    pub(crate) fn sample() -> Report {
        let photo = |file: &str, wrong: Option<&str>| PhotoFacts {
            file: file.into(),
            width: 640,
            height: 427,
            equal: 3,
            rounded_otherwise: 2,
            wrong: wrong.map(str::to_owned),
            drawing: Some("out/photos/cat.png".into()),
        };
        let thread = |thread, photos, p50| ThreadFacts {
            thread,
            photos,
            latency_p50_ms: p50,
            latency_p99_ms: p50,
        };
        Report {
            version: "0.1.0",
            exit_code: 0,
            settings: Settings {
                backend: DemoBackend::Cpu,
                threads: 2,
                strategy: Order::Interleave,
                repeat: 3,
                input: "in".into(),
                output: "out".into(),
            },
            device: DeviceFacts {
                name: "a processor".into(),
                queues: 2,
            },
            run: RunFacts {
                photos: 6,
                equal: 6,
                seconds: 0.5,
                photos_per_second: Some(12.0),
                ..RunFacts::default()
            },
            threads: vec![thread(0, 6, Some(1.5)), thread(1, 0, None)],
            photos: vec![photo("cat.jpg", None), photo("dog.jpg", None)],
            skipped: Vec::new(),
            runtime: RuntimeFacts {
                tasks: 60,
                batches: 20,
                tasks_per_batch: Some(3.0),
                waits_issued: 4,
                waits_implied: 40,
                memory_high_water_bytes: 5 << 20,
                queues: vec![QueueFacts {
                    queue: 0,
                    tasks: 60,
                    busy_ms: 450.0,
                    occupancy: Some(0.9),
                }],
                ..RuntimeFacts::default()
            },
            profile: None,
            teardown: TeardownFacts {
                drained: true,
                ..TeardownFacts::default()
            },
            files: Files {
                drawings: "out/photos".into(),
                contact_sheet: "out/contact-sheet.png".into(),
                timeline: "out/timeline.svg".into(),
                saved_timeline: Some("out/timeline.json".into()),
            },
        }
    }

    #[test]
    fn percentile_is_the_nearest_rank() {
        let mut latencies: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&mut latencies, 50), Some(100.0));
        assert_eq!(percentile_ms(&mut latencies, 99), Some(198.0));
        assert_eq!(percentile_ms(&mut latencies[..1], 99), Some(1.0));
        assert_eq!(percentile_ms(&mut [], 50), None);
    }

    #[test]
    fn difference_takes_precedence_over_a_skipped_file() {
        let mut report = sample();
        assert_eq!(report.exit(), Exit::Success);
        report.skipped.push(Skipped {
            file: "x".into(),
            reason: "y".into(),
        });
        assert_eq!(report.exit(), Exit::Skipped);
        report.run.different = 1;
        assert_eq!(report.exit(), Exit::Failure);
    }

    #[test]
    fn json_has_null_for_figures_without_a_measurement() {
        let json: serde_json::Value = serde_json::to_value(sample()).unwrap();
        assert_eq!(json["settings"]["strategy"], "interleave");
        assert_eq!(json["run"]["photos_per_second"], 12.0);
        assert_eq!(
            json["threads"][1]["latency_p50_ms"],
            serde_json::Value::Null
        );
        assert_eq!(json["files"]["timeline"], "out/timeline.svg");
    }

    #[test]
    fn ratio_to_zero_is_none() {
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, 4.0), Some(0.25));
    }
}
