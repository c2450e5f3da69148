//! Computes the summary of a timeline from its spans.
//!
//! A queue is busy while at least one of its spans runs. All other time between the timeline's first start and last end
//! is gaps, so a queue's busy time and gaps add up to the timeline's length. The picture and the report of the demo use
//! the same meaning of "busy".

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use millstream::report::TraceSpan;
use serde::Serialize;

use crate::output::Table;
use crate::units::{counted, duration};

/// The most names in the text. The JSON has all of them.
const KERNELS_MAX: usize = 40;

/// The number of longest gaps that are reported for each queue.
const GAPS_MAX: usize = 3;

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(super) spans: usize,
    pub(super) streams: usize,
    pub(super) clients: usize,
    /// The waits of a queue for another.
    pub(super) waits: usize,
    /// The time from the first start to the last end.
    pub(super) length_ns: u64,
    pub(crate) queues: Vec<Queue>,
    /// The kernels, in descending order of total time.
    pub(super) kernels: Vec<Kernel>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Queue {
    pub(crate) queue: u64,
    pub(super) spans: usize,
    pub(crate) busy_ns: u64,
    /// The busy share of the timeline's length, 0 to 1.
    pub(crate) busy: f64,
    /// The longest gaps, in descending order.
    pub(super) longest_gaps: Vec<Gap>,
}

/// A time in which a queue ran nothing.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Gap {
    /// The start, relative to the timeline's first start.
    pub(super) start_ns: u64,
    pub(super) length_ns: u64,
}

/// The spans of one name.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) count: usize,
    pub(super) total_ns: u64,
    pub(super) median_ns: u64,
    pub(super) greatest_ns: u64,
}

impl Summary {
    pub(crate) fn of(spans: &[TraceSpan]) -> Self {
        let mut kernels: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for span in spans {
            let took_ns = span.end_ns - span.start_ns;
            kernels.entry(&span.name).or_default().push(took_ns);
        }
        let count_distinct = |numbers: &mut dyn Iterator<Item = u64>| {
            let all: BTreeSet<u64> = numbers.collect();
            all.len()
        };
        let streams = count_distinct(&mut spans.iter().map(|span| span.stream));
        let clients = count_distinct(&mut spans.iter().map(|span| span.client.into()));
        let mut kernels: Vec<Kernel> = kernels.into_iter().map(Kernel::of).collect();
        kernels.sort_by_key(|kernel| Reverse(kernel.total_ns));
        Self {
            spans: spans.len(),
            streams,
            clients,
            waits: spans.iter().map(|span| span.waits.len()).sum(),
            length_ns: extent(spans).1,
            queues: lanes(spans, |span| span.queue.into()),
            kernels,
        }
    }

    /// Returns the counts and the length as text.
    pub(super) fn sentence(&self) -> String {
        format!(
            "{} on {}, from {} of {}, in {}; {} between queues",
            counted(self.spans, "span"),
            counted(self.queues.len(), "queue"),
            counted(self.streams, "stream"),
            counted(self.clients, "client"),
            duration(self.length_ns),
            counted(self.waits, "wait"),
        )
    }
}

/// The summary as text.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut queues =
            Table::new(&["queue", "spans", "busy", "%", "longest gaps"]).ends_in_text();
        for queue in &self.queues {
            let gaps = queue.longest_gaps.iter();
            let gaps = gaps
                .map(|gap| format!("{} at {}", duration(gap.length_ns), duration(gap.start_ns)));
            queues.row([
                queue.queue.to_string(),
                queue.spans.to_string(),
                duration(queue.busy_ns),
                format!("{:.1}", queue.busy * 100.0),
                gaps.collect::<Vec<_>>().join(", "),
            ]);
        }
        let mut kernels = Table::new(&["task", "count", "total", "median", "max"]);
        for kernel in self.kernels.iter().take(KERNELS_MAX) {
            kernels.row([
                // A name in the file may have control characters, which must not reach the terminal.
                kernel.name.replace(char::is_control, "\u{fffd}"),
                kernel.count.to_string(),
                duration(kernel.total_ns),
                duration(kernel.median_ns),
                duration(kernel.greatest_ns),
            ]);
        }
        write!(f, "{}\n\n{queues}\n{kernels}", self.sentence())?;
        match self.kernels.len().saturating_sub(KERNELS_MAX) {
            0 => Ok(()),
            hidden => writeln!(f, "{hidden} more with less total time; --json lists all"),
        }
    }
}

/// Returns the start and the length of a timeline.
fn extent(spans: &[TraceSpan]) -> (u64, u64) {
    let start_ns = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    let end_ns = spans.iter().map(|span| span.end_ns).max().unwrap_or(0);
    (start_ns, end_ns - start_ns)
}

/// Returns the lanes of spans, such as their queues, in order.
pub(super) fn lanes(spans: &[TraceSpan], lane_of: impl Fn(&TraceSpan) -> u64) -> Vec<Queue> {
    let (start_ns, length_ns) = extent(spans);
    let mut lanes: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for span in spans {
        let times = (span.start_ns - start_ns, span.end_ns - start_ns);
        lanes.entry(lane_of(span)).or_default().push(times);
    }
    let lane = |(lane, times)| Queue::of(lane, times, length_ns);
    lanes.into_iter().map(lane).collect()
}

impl Queue {
    fn of(queue: u64, times: Vec<(u64, u64)>, length_ns: u64) -> Self {
        let spans = times.len();
        let union = union(times);
        let (mut gaps, mut busy_until, mut busy_ns) = (Vec::new(), 0, 0);
        // An empty interval at the end closes the last gap.
        for (start_ns, end_ns) in union.into_iter().chain([(length_ns, length_ns)]) {
            if start_ns > busy_until {
                gaps.push(Gap {
                    start_ns: busy_until,
                    length_ns: start_ns - busy_until,
                });
            }
            busy_ns += end_ns - start_ns;
            busy_until = end_ns;
        }
        gaps.sort_by_key(|gap| Reverse(gap.length_ns));
        gaps.truncate(GAPS_MAX);
        Self {
            queue,
            spans,
            busy_ns,
            busy: busy_ns as f64 / length_ns.max(1) as f64,
            longest_gaps: gaps,
        }
    }
}

impl Kernel {
    fn of((name, mut took_ns): (&str, Vec<u64>)) -> Self {
        took_ns.sort_unstable();
        Self {
            name: name.to_owned(),
            count: took_ns.len(),
            total_ns: took_ns.iter().sum(),
            // The upper median, if the count is even.
            median_ns: took_ns.get(took_ns.len() / 2).copied().unwrap_or(0),
            greatest_ns: took_ns.last().copied().unwrap_or(0),
        }
    }
}

/// Returns the union as disjoint intervals in order, for intervals `(start, end)` in any order. Intervals that touch
/// are one.
fn union(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    intervals
}

#[cfg(test)]
mod tests {
    use millstream_testkit::Dice;

    use super::super::span;
    use super::*;

    fn gap(start_ns: u64, length_ns: u64) -> Gap {
        Gap {
            start_ns,
            length_ns,
        }
    }

    /// Overlapping spans count once, and gaps at both ends of the timeline count.
    #[test]
    fn busy_time_and_gaps_add_up_to_the_length() {
        let summary = Summary::of(&[
            span("a", 1, 0, 1_000, 1_100),
            span("a", 1, 0, 1_050, 1_200),
            span("b", 1, 0, 1_060, 1_070),
            span("b", 2, 1, 1_300, 1_400),
            span("b", 2, 1, 1_850, 1_900),
            span("b", 2, 0, 1_950, 2_000),
        ]);
        assert_eq!((summary.length_ns, summary.streams), (1_000, 2));
        let [first, second] = &summary.queues[..] else {
            panic!("{summary:?}")
        };
        assert_eq!((first.busy_ns, first.busy), (250, 0.25));
        assert_eq!(first.longest_gaps, [gap(200, 750)]);
        assert_eq!((second.busy_ns, second.spans), (150, 2));
        let gaps = [gap(400, 450), gap(0, 300), gap(900, 100)];
        assert_eq!(second.longest_gaps, gaps);
    }

    #[test]
    fn kernels_are_sorted_by_total_time() {
        let times = [5, 1, 9, 3].map(|ns| span("many", 1, 0, 100, 100 + ns));
        let one = span("one", 1, 0, 0, 1_000);
        let summary = Summary::of(&[&times[..], &[one]].concat());
        let kernel = |name: &str, count, total_ns, median_ns, greatest_ns| Kernel {
            name: name.into(),
            count,
            total_ns,
            median_ns,
            greatest_ns,
        };
        let expected = [
            kernel("one", 1, 1_000, 1_000, 1_000),
            kernel("many", 4, 18, 5, 9),
        ];
        assert_eq!(summary.kernels, expected);
    }

    #[test]
    fn empty_timeline_has_a_busy_share_of_zero() {
        let summary = Summary::of(&[span("a", 1, 3, 7, 7)]);
        assert_eq!(summary.queues[0].busy, 0.0);
        assert!(summary.queues[0].longest_gaps.is_empty());
    }

    #[test]
    fn union_covers_what_the_intervals_cover() {
        let mut dice = Dice::new(1, 0);
        for _ in 0..256 {
            let intervals: Vec<_> = (0..dice.below(40))
                .map(|_| [dice.below(200) as u64, dice.below(40) as u64])
                .map(|[start, length]| (start, start + length))
                .collect();
            let covered = |at: &u64| {
                intervals
                    .iter()
                    .any(|(start, end)| (*start..*end).contains(at))
            };
            let expected = (0..240).filter(covered).count() as u64;
            let union = union(intervals.clone());
            let length: u64 = union.iter().map(|(start, end)| end - start).sum();
            assert_eq!(length, expected, "{intervals:?}");
            assert!(union.is_sorted_by(|before, after| before.1 < after.0));
        }
    }
}
