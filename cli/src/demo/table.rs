//! Renders a `Report` as text: a headline, the threads, the device and the files.
//!
//! Long tables are truncated and say so; `--json` prints everything.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::report::{ProfileFacts, Report, ThreadFacts};
use crate::units::{bytes, counted, duration};

/// The most threads, kernels and queues that a table lists.
const MAX_ROWS: usize = 16;
/// The most skipped files, and the most wrong photographs, that are listed.
const MAX_NAMES: usize = 20;

/// Renders the whole report, which ends with a line break.
pub(crate) fn render(report: &Report) -> String {
    let mut text = String::new();
    headline(&mut text, report);
    text.push('\n');
    let _ = writeln!(text, "{}\n\n{}\n", threads(report), device(report));
    if let Some(profile) = &report.profile {
        let (clock, busy) = (&profile.clock, profile.busy_ms);
        let _ = writeln!(text, "{}", kernels(profile));
        let _ = writeln!(text, "busy {busy:.1} ms, measured by {clock}");
        if profile.is_cut {
            let first = counted(profile.tasks as usize, "task");
            let _ = writeln!(
                text,
                "the profile is full and covers only the first {first}: lower --repeat to cover all"
            );
        }
        text.push('\n');
    }
    problems(&mut text, report);
    teardown(&mut text, report);
    files(&mut text, report);
    text
}

fn headline(text: &mut String, report: &Report) {
    let (run, settings) = (&report.run, &report.settings);
    let _ = writeln!(
        text,
        "{}: {}, one stream each, {}, {}",
        report.device.name,
        counted(settings.threads, "thread"),
        counted(report.device.queues, "queue"),
        settings.strategy,
    );
    let equal = match run.different + run.failed {
        0 => "every image and histogram equals the reference".to_owned(),
        _ => format!(
            "{} equal the reference, {} DIFFER from it, {} FAILED",
            run.equal, run.different, run.failed
        ),
    };
    let _ = writeln!(
        text,
        "{} converted {}: {equal}",
        counted(report.photos.len(), "photograph"),
        if settings.repeat == 1 {
            "once".to_owned()
        } else {
            format!("{} times each", settings.repeat)
        },
    );
}

fn threads(report: &Report) -> Table {
    let mut table = new_table(["thread", "photos", "p50 ms", "p99 ms"]);
    for row in report.threads.iter().take(MAX_ROWS) {
        table.add_row(thread_row(row));
    }
    if let Some(hidden) = report
        .threads
        .get(MAX_ROWS..)
        .filter(|hidden| !hidden.is_empty())
    {
        let photos: u64 = hidden.iter().map(|thread| thread.photos).sum();
        table.add_row([
            format!("{} more", hidden.len()),
            photos.to_string(),
            "…".into(),
            "…".into(),
        ]);
    }
    table.add_row([
        "all".to_owned(),
        report.run.photos.to_string(),
        figure(report.run.latency_p50_ms, 2),
        figure(report.run.latency_p99_ms, 2),
    ]);
    table
}

/// The times of the kernels.
fn kernels(profile: &ProfileFacts) -> Table {
    let mut table = new_table(["task", "count", "total ms", "mean ms", "min ms", "max ms"]);
    for kernel in profile.kernels.iter().take(MAX_ROWS) {
        let times = [
            (kernel.total_ms, 1),
            (kernel.mean_ms, 3),
            (kernel.min_ms, 3),
            (kernel.max_ms, 3),
        ];
        let words = [kernel.name.clone(), kernel.tasks.to_string()];
        let times = times.map(|(ms, decimals)| figure(Some(ms), decimals));
        table.add_row(words.into_iter().chain(times));
    }
    table
}

fn thread_row(thread: &ThreadFacts) -> [String; 4] {
    [
        thread.thread.to_string(),
        thread.photos.to_string(),
        figure(thread.latency_p50_ms, 2),
        figure(thread.latency_p99_ms, 2),
    ]
}

fn device(report: &Report) -> Table {
    let (run, runtime) = (&report.run, &report.runtime);
    let mut table = new_table(["device", ""]);
    table.add_row(["photos/s", &figure(run.photos_per_second, 1)]);
    table.add_row(["megapixels/s", &figure(run.megapixels_per_second, 1)]);
    table.add_row(["time", &duration((run.seconds * 1e9) as u64)]);
    table.add_row(["tasks", &runtime.tasks.to_string()]);
    let batches = format!(
        "{} ({} tasks each)",
        runtime.batches,
        figure(runtime.tasks_per_batch, 1)
    );
    table.add_row(["batches", &batches]);
    table.add_row(["waits issued", &runtime.waits_issued.to_string()]);
    table.add_row(["waits implied", &runtime.waits_implied.to_string()]);
    table.add_row(["peak memory", &bytes(runtime.memory_high_water_bytes)]);
    for queue in runtime.queues.iter().take(MAX_ROWS) {
        let percent = queue.occupancy.map(|occupancy| occupancy * 100.0);
        let busy = format!(
            "{} % busy, {}",
            figure(percent, 0),
            counted(queue.tasks as usize, "task")
        );
        table.add_row([&format!("queue {}", queue.queue), &busy]);
    }
    if runtime.queues.len() > MAX_ROWS {
        table.add_row([
            &format!("{} more queues", runtime.queues.len() - MAX_ROWS),
            "…",
        ]);
    }
    table
}

/// Lists the wrong photographs and the skipped files.
fn problems(text: &mut String, report: &Report) {
    let wrong: Vec<_> = report
        .photos
        .iter()
        .filter_map(|photo| Some((&photo.file, photo.wrong.as_ref()?)))
        .collect();
    names(
        text,
        "Wrong",
        wrong
            .iter()
            .map(|(file, reason)| (file.as_str(), reason.as_str())),
    );
    names(
        text,
        "Skipped",
        report
            .skipped
            .iter()
            .map(|skipped| (skipped.file.as_str(), skipped.reason.as_str())),
    );
}

fn names<'a>(
    text: &mut String,
    heading: &str,
    list: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
) {
    let hidden = list.len().saturating_sub(MAX_NAMES);
    if list.len() > 0 {
        let _ = writeln!(text, "{heading}:");
        for (file, reason) in list.take(MAX_NAMES) {
            let _ = writeln!(text, "  {file}: {reason}");
        }
        if hidden > 0 {
            let _ = writeln!(text, "  and {hidden} more (--json lists all)");
        }
        text.push('\n');
    }
}

/// Reports what remained when the device closed. Prints nothing if nothing remained.
fn teardown(text: &mut String, report: &Report) {
    let left = &report.teardown;
    if !left.is_clean() {
        let _ = writeln!(
            text,
            "The device left {}, {} and {} when it closed\n",
            counted(left.tasks_left as usize, "task"),
            counted(left.slices_held as usize, "slice"),
            counted(left.threads_left as usize, "thread"),
        );
    }
}

fn files(text: &mut String, report: &Report) {
    let files = &report.files;
    let _ = writeln!(text, "contact sheet  {}", files.contact_sheet.display());
    let _ = writeln!(text, "timeline       {}", files.timeline.display());
    if let Some(saved) = &files.saved_timeline {
        let _ = writeln!(text, "               {}", saved.display());
    }
    let _ = writeln!(text, "drawings       {}", files.drawings.display());
}

/// Returns a table with right-aligned columns, except the first.
fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED.with_rounded_corners())
        .set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::super::files::Skipped;
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn successful_run_reports_equality_and_its_files() {
        let text = render(&sample());
        for part in [
            "a processor: 2 threads, one stream each, 2 queues, interleave",
            "2 photographs converted 3 times each: every image and histogram equals the reference",
            "20 (3.0 tasks each)",
            "5.0 MiB",
            "90 % busy, 60 tasks",
            "out/contact-sheet.png",
            "out/timeline.svg",
            "out/timeline.json",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        assert!(!text.contains("Skipped") && !text.contains("Wrong"));
    }

    #[test]
    fn full_profile_reports_how_many_tasks_it_covers() {
        let profile = |is_cut| ProfileFacts {
            clock: "a clock".into(),
            tasks: 7,
            untimed: 0,
            is_cut,
            busy_ms: 1.5,
            kernels: Vec::new(),
        };
        let text = |is_cut| {
            render(&Report {
                profile: Some(profile(is_cut)),
                ..sample()
            })
        };
        assert!(text(false).contains("busy 1.5 ms, measured by a clock\n\n"));
        assert!(text(true).contains("covers only the first 7 tasks"));
    }

    #[test]
    fn idle_thread_has_dashes_for_figures() {
        let text = render(&sample());
        let row = text.lines().find(|line| line.starts_with("│ 1 ")).unwrap();
        assert_eq!(
            row.split(['│', '┆']).map(str::trim).collect::<Vec<_>>(),
            ["", "1", "0", "-", "-", ""]
        );
    }

    #[test]
    fn problems_are_listed_and_long_lists_are_truncated() {
        let mut report = sample();
        report.photos[0].wrong = Some("wrong pixels: 1".into());
        report.run.different = 3;
        report.skipped = (0..30)
            .map(|i| Skipped {
                file: format!("f{i}"),
                reason: "no".into(),
            })
            .collect();
        let text = render(&report);
        assert!(text.contains("3 DIFFER") && text.contains("  cat.jpg: wrong pixels: 1"));
        assert!(
            text.contains("  f19: no") && !text.contains("f20") && text.contains("and 10 more")
        );
    }

    #[test]
    fn long_thread_table_is_truncated() {
        let mut report = sample();
        report.threads = (0..64)
            .map(|thread| ThreadFacts {
                thread,
                photos: 2,
                latency_p50_ms: Some(1.0),
                latency_p99_ms: Some(2.0),
            })
            .collect();
        let text = render(&report);
        assert!(text.contains("48 more") && text.contains("96"));
        assert!(text.lines().count() < 60);
    }

    #[test]
    fn device_that_left_something_is_reported() {
        let mut report = sample();
        assert!(!render(&report).contains("The device left"));
        report.teardown.slices_held = 1;
        assert!(render(&report).contains("The device left 0 tasks, 1 slice and 0 threads"));
    }

    #[test]
    fn bytes_use_the_largest_fitting_unit() {
        let texts = [0, 1023, 1536, 5 << 20, 3 << 30].map(bytes);
        assert_eq!(texts, ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.00 GiB"]);
    }
}
