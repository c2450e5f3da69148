//! The report of a run as data, which `--json` prints, and as text.
//!
//! Names end in their units. A figure without a measurement is null.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use millstream::Profile;
use serde::Serialize;

use super::photos::Skipped;
use crate::args::Order;
use crate::device::DeviceName;
use crate::exit::Exit;
use crate::output::Table;
use crate::units::{bytes, counted};

/// The most rows of a table, and the most files of a list. `--json` has all.
const ROWS_MAX: usize = 16;

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) exit_code: u8,
    pub(super) settings: Settings,
    pub(super) device: DeviceFacts,
    pub(super) run: RunFacts,
    pub(super) threads: Vec<ThreadFacts>,
    pub(super) photos: Vec<PhotoFacts>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) runtime: RuntimeFacts,
    /// With `--profile`.
    pub(super) profile: Option<ProfileFacts>,
    pub(super) teardown: TeardownFacts,
    pub(super) files: Files,
}

#[derive(Serialize)]
pub(super) struct Settings {
    pub(super) backend: DeviceName,
    pub(super) threads: usize,
    pub(super) strategy: Order,
    pub(super) repeat: usize,
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
}

#[derive(Serialize)]
pub(super) struct DeviceFacts {
    pub(super) name: String,
    pub(super) queues: usize,
}

/// The totals of the run. `seconds` excludes the reading and writing of files.
#[derive(Default, Serialize)]
pub(super) struct RunFacts {
    pub(super) photos: u64,
    pub(super) equal: u64,
    pub(super) different: u64,
    pub(super) failed: u64,
    pub(super) seconds: f64,
    pub(super) photos_per_second: Option<f64>,
    pub(super) megapixels_per_second: Option<f64>,
    pub(super) latency_p50_ms: Option<f64>,
    pub(super) latency_p99_ms: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct ThreadFacts {
    pub(super) thread: usize,
    pub(super) photos: usize,
    pub(super) latency_p50_ms: Option<f64>,
    pub(super) latency_p99_ms: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct PhotoFacts {
    pub(super) file: String,
    /// The name of its drawing.
    #[serde(skip)]
    pub(super) output: String,
    pub(super) width: u32,
    pub(super) height: u32,
    /// The first difference or failure.
    pub(super) wrong: Option<String>,
    pub(super) drawing: Option<PathBuf>,
}

#[derive(Serialize)]
pub(super) struct RuntimeFacts {
    pub(super) tasks: u64,
    pub(super) batches: u64,
    pub(super) waits_issued: u64,
    pub(super) waits_implied: u64,
    pub(super) failures: u64,
    pub(super) memory_high_water_bytes: u64,
    pub(super) queues: Vec<QueueFacts>,
}

#[derive(Serialize)]
pub(super) struct QueueFacts {
    pub(super) queue: usize,
    pub(super) tasks: u64,
    /// Busy time over the time from the first start to the last end of the traced tasks, 0 to 1, as in the timeline.
    pub(super) occupancy: f64,
}

/// How long each kernel ran.
#[derive(Serialize)]
pub(super) struct ProfileFacts {
    /// The clock that the times come from.
    clock: String,
    tasks: u64,
    /// The number of tasks without times.
    untimed: u64,
    /// Whether the profile reached its limit of tasks, so that later tasks are missing.
    is_cut: bool,
    /// The time in which at least one of the tasks ran.
    busy_ms: f64,
    /// The kernels, in descending order of total time.
    kernels: Vec<KernelFacts>,
}

#[derive(Serialize)]
struct KernelFacts {
    name: String,
    tasks: u64,
    total_ms: f64,
    mean_ms: f64,
    min_ms: f64,
    max_ms: f64,
}

impl ProfileFacts {
    pub(super) fn of(profile: &Profile) -> Self {
        let kernels = profile.kernels.iter().map(|kernel| KernelFacts {
            name: kernel.name.to_string(),
            tasks: kernel.tasks,
            total_ms: milliseconds(kernel.total),
            mean_ms: milliseconds(kernel.mean()),
            min_ms: milliseconds(kernel.min),
            max_ms: milliseconds(kernel.max),
        });
        Self {
            clock: profile.busy.clock.to_string(),
            tasks: profile.tasks,
            untimed: profile.untimed,
            is_cut: profile.is_cut,
            busy_ms: milliseconds(profile.busy.duration),
            kernels: kernels.collect(),
        }
    }
}

/// What remained when the device was closed (I10).
#[derive(Serialize)]
pub(super) struct TeardownFacts {
    pub(super) drained: bool,
    pub(super) tasks_left: u64,
    pub(super) slices_held: u64,
    pub(super) threads_left: u64,
}

#[derive(Serialize)]
pub(super) struct Files {
    pub(super) drawings: PathBuf,
    pub(super) timeline: PathBuf,
    /// The timeline as data, with `--timeline`.
    pub(super) saved_timeline: Option<PathBuf>,
}

impl Report {
    /// Returns the exit code of the results.
    pub(super) fn exit(&self) -> Exit {
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
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the latencies in milliseconds that 50 and 99 percent of the runs did not exceed (nearest rank). Sorts
/// `latencies`.
pub(super) fn percentiles_ms(latencies: &mut [Duration]) -> [Option<f64>; 2] {
    latencies.sort_unstable();
    [50, 99].map(|percent| {
        let rank = (latencies.len() * percent).div_ceil(100).max(1);
        latencies.get(rank - 1).copied().map(milliseconds)
    })
}

/// Renders the report as text: a headline, the threads, the device, the kernels and the files.
pub(super) fn render(report: &Report) -> String {
    let Report {
        run,
        settings,
        runtime,
        device,
        ..
    } = report;
    let equal = match run.different + run.failed {
        0 => "every image and histogram equals the reference".to_owned(),
        _ => format!(
            "{} equal the reference, {} DIFFER from it, {} FAILED",
            run.equal, run.different, run.failed
        ),
    };
    let mut text = format!(
        "{}: {}, one stream each, {}\n{} converted {} times: {equal}\n\n{}\n",
        device.name,
        counted(settings.threads, "thread"),
        counted(device.queues, "queue"),
        counted(report.photos.len(), "photograph"),
        settings.repeat,
        threads(report),
    );
    let _ = writeln!(
        text,
        "  {} photographs/s, {} megapixels/s in {:.2} s; {} tasks in {} batches; {} waits issued, {} implied; {} at most",
        figure(run.photos_per_second, 1),
        figure(run.megapixels_per_second, 1),
        run.seconds,
        runtime.tasks,
        runtime.batches,
        runtime.waits_issued,
        runtime.waits_implied,
        bytes(runtime.memory_high_water_bytes),
    );
    for queue in &runtime.queues {
        let (busy, tasks) = (queue.occupancy * 100.0, queue.tasks);
        let _ = writeln!(
            text,
            "  queue {}: {busy:.0} % busy, {tasks} tasks",
            queue.queue
        );
    }
    if let Some(profile) = &report.profile {
        let _ = writeln!(text, "\n{}", kernels(profile));
        let (clock, busy) = (&profile.clock, profile.busy_ms);
        let _ = writeln!(text, "  busy {busy:.1} ms, measured by {clock}");
        if profile.is_cut {
            let _ = writeln!(
                text,
                "  the profile is full and covers only the first {} tasks: lower --repeat to cover all",
                profile.tasks
            );
        }
    }
    let wrong = report.photos.iter();
    let wrong = wrong.filter_map(|photo| Some((&photo.file, photo.wrong.as_ref()?)));
    let skipped = report
        .skipped
        .iter()
        .map(|skipped| (&skipped.file, &skipped.reason));
    list(&mut text, "Wrong", wrong.collect());
    list(&mut text, "Skipped", skipped.collect());
    let left = &report.teardown;
    if !left.drained || left.tasks_left + left.slices_held + left.threads_left > 0 {
        let (tasks, slices, threads) = (left.tasks_left, left.slices_held, left.threads_left);
        let _ = writeln!(
            text,
            "\nThe device left {tasks} tasks, {slices} slices and {threads} threads when it closed"
        );
    }
    let files = &report.files;
    let _ = writeln!(text, "\ndrawings  {}", files.drawings.display());
    for timeline in [Some(&files.timeline), files.saved_timeline.as_ref()] {
        let _ = timeline.map(|path| writeln!(text, "timeline  {}", path.display()));
    }
    text
}

fn threads(report: &Report) -> Table {
    let mut table = Table::new(&["thread", "photos", "p50 ms", "p99 ms"]);
    let mut row = |name: String, photos: String, p50, p99| {
        table.row([name, photos, figure(p50, 2), figure(p99, 2)]);
    };
    for thread in report.threads.iter().take(ROWS_MAX) {
        let (p50, p99) = (thread.latency_p50_ms, thread.latency_p99_ms);
        row(
            thread.thread.to_string(),
            thread.photos.to_string(),
            p50,
            p99,
        );
    }
    let run = &report.run;
    let name = match report.threads.len() > ROWS_MAX {
        true => format!("all {}", report.threads.len()),
        false => "all".to_owned(),
    };
    row(
        name,
        run.photos.to_string(),
        run.latency_p50_ms,
        run.latency_p99_ms,
    );
    table
}

fn kernels(profile: &ProfileFacts) -> Table {
    let mut table = Table::new(&["task", "count", "total ms", "mean ms", "min ms", "max ms"]);
    for kernel in profile.kernels.iter().take(ROWS_MAX) {
        table.row([
            kernel.name.clone(),
            kernel.tasks.to_string(),
            format!("{:.1}", kernel.total_ms),
            format!("{:.3}", kernel.mean_ms),
            format!("{:.3}", kernel.min_ms),
            format!("{:.3}", kernel.max_ms),
        ]);
    }
    table
}

fn list(text: &mut String, heading: &str, files: Vec<(&String, &String)>) {
    if !files.is_empty() {
        let _ = writeln!(text, "\n{heading}:");
    }
    for (file, reason) in files.iter().take(ROWS_MAX) {
        let _ = writeln!(text, "  {file}: {reason}");
    }
    if files.len() > ROWS_MAX {
        let _ = writeln!(
            text,
            "  and {} more (--json lists all)",
            files.len() - ROWS_MAX
        );
    }
}

fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let mut latencies: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentiles_ms(&mut latencies), [Some(100.0), Some(198.0)]);
        assert_eq!(percentiles_ms(&mut latencies[..1]), [Some(1.0), Some(1.0)]);
        assert_eq!(percentiles_ms(&mut []), [None, None]);
    }

    #[test]
    fn long_list_is_truncated_and_says_so() {
        let files: Vec<_> = (0..30)
            .map(|file| (format!("f{file}"), "no".to_owned()))
            .collect();
        let mut text = String::new();
        let names = files.iter().map(|(file, reason)| (file, reason));
        list(&mut text, "Skipped", names.collect());
        assert!(
            text.contains("  f15: no") && !text.contains("f16"),
            "{text}"
        );
        assert!(text.contains("and 14 more"), "{text}");
    }
}
