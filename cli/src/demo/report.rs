//! The report of a run: what was counted and measured, as JSON and as text.
//!
//! Names of the JSON end in their units. A figure without a measurement is NaN: null in the JSON, a dash in the text.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use millstream::report::{Profile, Stats};
use serde_json::{Value, json};

use super::photos::{Photo, Skipped};
use crate::args::DemoArgs;
use crate::exit::Exit;
use crate::output::Table;
use crate::timeline::Summary;
use crate::units::{bytes, counted};

/// The most rows of a table, and the most files of a list. The JSON has all.
const ROWS_MAX: usize = 16;

pub(super) struct Report<'a> {
    pub(super) args: &'a DemoArgs,
    pub(super) input: PathBuf,
    pub(super) device: String,
    pub(super) tally: Tally,
    pub(super) stats: Stats,
    /// The summary of the timeline. Busy times come from it, so that both say the same.
    pub(super) summary: Summary,
    /// With `--profile`.
    pub(super) profile: Option<Profile>,
    /// What remained when the device was closed (I10).
    pub(super) closed: millstream::report::Report,
    pub(super) drawings: PathBuf,
    pub(super) timeline: PathBuf,
}

/// The totals of all conversions.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) photos: Vec<Photo>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) different: usize,
    pub(super) failed: usize,
    /// The thread and the latency of each correct result.
    pub(super) equal: Vec<(usize, Duration)>,
    pub(super) pixels: u64,
    /// Without reading and writing files.
    pub(super) seconds: f64,
}

impl Tally {
    fn runs(&self) -> usize {
        self.equal.len() + self.different + self.failed
    }

    /// Returns the number of correct results of a thread, or of all, and the latencies in milliseconds that 50 and 99
    /// percent of them did not exceed.
    fn latencies(&self, thread: Option<usize>) -> (usize, [f64; 2]) {
        let own = self.equal.iter();
        let own = own.filter(|(of, _)| thread.is_none_or(|thread| thread == *of));
        let mut own: Vec<Duration> = own.map(|(_, latency)| *latency).collect();
        (own.len(), percentiles_ms(&mut own))
    }

    /// Returns the correct results and the millions of their pixels per second.
    fn rates(&self) -> [f64; 2] {
        [self.equal.len() as f64, self.pixels as f64 / 1e6].map(|count| count / self.seconds)
    }
}

impl Report<'_> {
    /// Returns the exit code of the results.
    pub(super) fn exit(&self) -> Exit {
        if self.tally.different + self.tally.failed > 0 {
            Exit::Failure
        } else if self.tally.skipped.is_empty() {
            Exit::Success
        } else {
            Exit::Skipped
        }
    }

    /// Returns the tasks of each queue, and its busy share of the time from the first start to the last end of the
    /// traced tasks.
    fn queues(&self) -> impl Iterator<Item = (u64, f64)> {
        self.stats.queues.iter().zip(0..).map(|(facts, queue)| {
            let mut traced = self.summary.queues.iter();
            let traced = traced.find(|traced| traced.queue == queue);
            (facts.tasks, traced.map_or(0.0, |traced| traced.busy))
        })
    }

    pub(super) fn json(&self) -> Value {
        let (args, tally, stats, closed) = (self.args, &self.tally, &self.stats, &self.closed);
        let thread = |thread| {
            let (photos, [p50, p99]) = tally.latencies(Some(thread));
            json!({ "thread": thread, "photos": photos, "latency_p50_ms": p50, "latency_p99_ms": p99 })
        };
        let queues = self.queues().enumerate();
        let queues = queues.map(|(queue, (tasks, occupancy))| {
            json!({ "queue": queue, "tasks": tasks, "occupancy": occupancy })
        });
        let (_, [p50, p99]) = tally.latencies(None);
        let [photos_per_second, megapixels_per_second] = tally.rates();
        json!({
            "settings": {
                "backend": args.backend, "threads": args.threads, "strategy": args.strategy,
                "repeat": args.repeat, "input": self.input, "output": args.output,
            },
            "device": { "name": self.device, "queues": stats.queues.len() },
            "run": {
                "photos": tally.runs(), "equal": tally.equal.len(),
                "different": tally.different, "failed": tally.failed, "seconds": tally.seconds,
                "photos_per_second": photos_per_second,
                "megapixels_per_second": megapixels_per_second,
                "latency_p50_ms": p50, "latency_p99_ms": p99,
            },
            "threads": (0..args.threads as usize).map(thread).collect::<Vec<_>>(),
            "photos": tally.photos,
            "skipped": tally.skipped,
            "runtime": {
                "tasks": stats.tasks, "batches": stats.batches, "failures": stats.failures,
                "waits_issued": stats.waits_issued, "waits_implied": stats.waits_implied,
                "memory_high_water_bytes": stats.memory.high_water,
                "queues": queues.collect::<Vec<_>>(),
            },
            "profile": self.profile.as_ref().map(|taken| profile(taken).0),
            "teardown": {
                "drained": closed.drained, "tasks_left": closed.tasks_left,
                "slices_held": closed.slices_held, "threads_left": closed.threads_left,
            },
            "files": {
                "drawings": self.drawings, "timeline": self.timeline, "saved_timeline": args.timeline,
            },
        })
    }

    /// Returns the report as text: a headline, the threads, the device, the kernels and the files.
    pub(super) fn text(&self) -> String {
        let (args, tally, stats, closed) = (self.args, &self.tally, &self.stats, &self.closed);
        let (equal, different, failed) = (tally.equal.len(), tally.different, tally.failed);
        let result = match different + failed {
            0 => "every image and histogram equals the reference".to_owned(),
            _ => {
                format!("{equal} equal the reference, {different} DIFFER from it, {failed} FAILED")
            }
        };
        let mut text = format!(
            "{}: {}, one stream each, {}\n{} converted {} times: {result}\n\n{}\n",
            self.device,
            counted(args.threads as usize, "thread"),
            counted(stats.queues.len(), "queue"),
            counted(tally.photos.len(), "photograph"),
            args.repeat,
            self.threads(),
        );
        let [photos, megapixels] = tally.rates();
        let _ = writeln!(
            text,
            "  {} photographs/s, {} megapixels/s in {:.2} s; {} tasks in {} batches;\n  {} waits issued, {} implied; at most {}",
            figure(photos, 1),
            figure(megapixels, 1),
            tally.seconds,
            stats.tasks,
            stats.batches,
            stats.waits_issued,
            stats.waits_implied,
            bytes(stats.memory.high_water),
        );
        for (queue, (tasks, busy)) in self.queues().enumerate() {
            let busy = busy * 100.0;
            let _ = writeln!(text, "  queue {queue}: {busy:.0} % busy, {tasks} tasks");
        }
        if let Some(taken) = &self.profile {
            text += &profile(taken).1;
        }
        let wrong = tally.photos.iter();
        let wrong = wrong.filter_map(|photo| Some((&photo.file, photo.wrong.as_ref()?)));
        let skipped = tally.skipped.iter();
        let skipped = skipped.map(|skipped| (&skipped.file, &skipped.reason));
        list(&mut text, "Wrong", wrong.collect());
        list(&mut text, "Skipped", skipped.collect());
        let (tasks, slices) = (closed.tasks_left, closed.slices_held);
        let threads = closed.threads_left;
        if !closed.drained || tasks + slices + threads > 0 {
            let _ = writeln!(
                text,
                "\nThe device left {tasks} tasks, {slices} slices and {threads} threads when it closed"
            );
        }
        let _ = writeln!(text, "\ndrawings  {}", self.drawings.display());
        for timeline in [Some(&self.timeline), args.timeline.as_ref()] {
            let _ = timeline.map(|path| writeln!(text, "timeline  {}", path.display()));
        }
        text
    }

    fn threads(&self) -> Table {
        let mut table = Table::new(&["thread", "photos", "p50 ms", "p99 ms"]);
        let threads = (0..self.args.threads as usize).take(ROWS_MAX).map(Some);
        for thread in threads.chain([None]) {
            let name = thread.map_or_else(|| "all".to_owned(), |thread| thread.to_string());
            let (photos, [p50, p99]) = self.tally.latencies(thread);
            table.row([name, photos.to_string(), figure(p50, 2), figure(p99, 2)]);
        }
        table
    }
}

/// Returns a profile as JSON and as text.
fn profile(profile: &Profile) -> (Value, String) {
    let mut kernels = Vec::new();
    let mut table = Table::new(&["task", "count", "total ms", "mean ms", "min ms", "max ms"]);
    for (kernel, row) in profile.kernels.iter().zip(0..) {
        let (name, tasks) = (kernel.name.to_string(), kernel.tasks);
        let times = [kernel.total, kernel.mean(), kernel.min, kernel.max].map(milliseconds);
        let [total, mean, min, max] = times;
        kernels.push(json!({
            "name": name, "tasks": tasks,
            "total_ms": total, "mean_ms": mean, "min_ms": min, "max_ms": max,
        }));
        if row < ROWS_MAX {
            let cells = [name, tasks.to_string()].into_iter();
            table.row(cells.chain(times.map(|time| figure(time, 3))));
        }
    }
    let (busy, clock) = (
        milliseconds(profile.busy.duration),
        profile.busy.clock.to_string(),
    );
    let mut text = format!("\n{table}\n  busy {busy:.1} ms, measured by {clock}\n");
    if profile.is_cut {
        let tasks = profile.tasks;
        let _ = writeln!(
            text,
            "  the profile is full and covers only the first {tasks} tasks: lower --repeat to cover all"
        );
    }
    let json = json!({
        "clock": clock, "tasks": profile.tasks, "untimed": profile.untimed,
        "is_cut": profile.is_cut, "busy_ms": busy, "kernels": kernels,
    });
    (json, text)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the times in milliseconds that 50 and 99 percent did not exceed (nearest rank). Sorts them.
fn percentiles_ms(times: &mut [Duration]) -> [f64; 2] {
    times.sort_unstable();
    [50, 99].map(|percent| {
        let rank = (times.len() * percent).div_ceil(100).max(1);
        times.get(rank - 1).copied().map_or(f64::NAN, milliseconds)
    })
}

fn list(text: &mut String, heading: &str, files: Vec<(&String, &String)>) {
    if !files.is_empty() {
        let _ = writeln!(text, "\n{heading}:");
    }
    for (file, reason) in files.iter().take(ROWS_MAX) {
        let _ = writeln!(text, "  {file}: {reason}");
    }
    if files.len() > ROWS_MAX {
        let hidden = files.len() - ROWS_MAX;
        let _ = writeln!(text, "  and {hidden} more (--json lists all)");
    }
}

fn figure(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        true => format!("{value:.decimals$}"),
        false => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let mut times: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentiles_ms(&mut times), [100.0, 198.0]);
        assert_eq!(percentiles_ms(&mut times[..1]), [1.0, 1.0]);
        assert!(percentiles_ms(&mut []).map(f64::is_nan) == [true; 2]);
    }

    #[test]
    fn long_list_is_truncated_and_says_so() {
        let files = (0..30).map(|file| (format!("f{file}"), "no".to_owned()));
        let files: Vec<_> = files.collect();
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
