//! Judges the figures of a soak. A pure function: it reads no clock, no device and no file.

use millstream::report::Report as Closing;
use millstream_testkit::Violations;
use serde::Serialize;

/// The growth of memory, by the trend of the samples after the warm-up, that is no violation.
///
/// Allocators and caches stay below it. A leak of one byte per step exceeds it within minutes.
pub(crate) const GROWTH_MAX_BYTES: f64 = (16 << 20) as f64;
/// The share of the samples that is warm-up, in which caches and pools fill.
const WARM_UP_PERCENT: usize = 25;
/// The fewest samples after the warm-up from which the trend of memory is judged.
const SAMPLES_MIN: usize = 20;
/// The slowest of the equal clients must complete at least this share of the fastest one's work.
pub(crate) const FAIRNESS_MIN: f64 = 0.5;
/// Fairness is judged only if the fastest client completes this much, because threads start one after the other.
const FAIRNESS_WORK_MIN: u64 = 2_000;

/// One second of a soak.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Sample {
    pub(crate) second: f64,
    /// The resident memory of the process, or 0 if the system does not report it.
    pub(crate) resident_bytes: u64,
    /// The rate of steps of the mixed load since the previous sample.
    pub(crate) steps_per_second: f64,
}

/// What the device still had after all handles were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Left {
    pub(crate) streams: u64,
    pub(crate) tasks_held: u64,
    pub(crate) live_slices: u64,
    pub(crate) bytes_in_use: u64,
    pub(crate) bytes_waiting: u64,
    /// The clients that the memory report still lists.
    pub(crate) clients: u64,
}

/// The findings of the simulator's checker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Checked {
    pub(crate) violations: Violations,
    /// Waits between queues that other waits implied.
    pub(crate) needless_waits: u64,
}

/// The figures that are judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    pub(crate) withdrawn: u64,
    pub(crate) given: u64,
    pub(crate) ended: u64,
    pub(crate) values: u64,
    pub(crate) dropped: u64,
    /// The values that lost devices keep, because their unfinished work may use them.
    pub(crate) parked: u64,
    /// Wrong data.
    pub(crate) wrong: Violations,
    /// Errors that no fault or limit explains.
    pub(crate) unexpected: Violations,
    /// Answers that did not arrive in time.
    pub(crate) unanswered: Violations,
    /// `None` if the device did not respond.
    pub(crate) left: Option<Left>,
    /// The report of the close.
    pub(crate) closed: Closing,
    /// The threads of the process before and after, if the system reports them.
    pub(crate) threads: Option<(usize, usize)>,
    pub(crate) samples: Vec<Sample>,
    /// The work that each of the equal clients completed.
    pub(crate) even: Vec<u64>,
    pub(crate) checked: Option<Checked>,
}

pub(crate) const MIB: f64 = (1 << 20) as f64;

/// Returns the first sentence, preceded by the number of sentences if there are more.
fn summary(violations: &Violations) -> String {
    let first = violations.sentences.first().map_or("", String::as_str);
    match violations.seen {
        1 => first.to_owned(),
        seen => format!("{seen}, the first: {first}"),
    }
}

/// The growth of the process's memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Growth {
    pub(crate) first_bytes: u64,
    pub(crate) last_bytes: u64,
    pub(crate) max_bytes: u64,
    /// The growth by the trend of the samples after the warm-up.
    pub(crate) grown_bytes: f64,
    pub(crate) bytes_per_minute: f64,
    /// Whether there are enough samples to judge the trend.
    pub(crate) judged: bool,
}

/// Computes the growth of memory by least squares over the samples after the warm-up.
pub(crate) fn growth(samples: &[Sample]) -> Option<Growth> {
    let (first, last) = (samples.first()?, samples.last()?);
    let steady = &samples[samples.len() * WARM_UP_PERCENT / 100..];
    let count = steady.len() as f64;
    let bytes = |sample: &Sample| sample.resident_bytes as f64;
    let mean_second = steady.iter().map(|sample| sample.second).sum::<f64>() / count;
    let mean_bytes = steady.iter().map(bytes).sum::<f64>() / count;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for sample in steady {
        let from_mean = sample.second - mean_second;
        covariance += from_mean * (bytes(sample) - mean_bytes);
        variance += from_mean * from_mean;
    }
    let slope = if variance > 0.0 {
        covariance / variance
    } else {
        0.0
    };
    let seconds = last.second - steady.first()?.second;
    Some(Growth {
        first_bytes: first.resident_bytes,
        last_bytes: last.resident_bytes,
        max_bytes: samples.iter().map(|sample| sample.resident_bytes).max()?,
        grown_bytes: slope * seconds,
        bytes_per_minute: slope * 60.0,
        judged: steady.len() >= SAMPLES_MIN,
    })
}

/// Returns the median rate of steps in the first and in the last quarter of the samples after the warm-up, if there are
/// enough.
pub(crate) fn rates(samples: &[Sample]) -> Option<[f64; 2]> {
    let steady = &samples[samples.len() * WARM_UP_PERCENT / 100..];
    let quarter = steady.len() / 4;
    let median = |samples: &[Sample]| {
        let mut rates: Vec<f64> = samples
            .iter()
            .map(|sample| sample.steps_per_second)
            .collect();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (first, last) = (&steady[..quarter], &steady[steady.len() - quarter..]);
    (steady.len() >= SAMPLES_MIN).then(|| [median(first), median(last)])
}

/// Returns the least and the most work of the equal clients, or `None` if it is too little to compare.
pub(crate) fn shares(even: &[u64]) -> Option<(u64, u64)> {
    let (least, most) = (*even.iter().min()?, *even.iter().max()?);
    (most >= FAIRNESS_WORK_MIN).then_some((least, most))
}

/// Returns the violations in the figures, each as a sentence.
pub(crate) fn judge(figures: &Figures) -> Vec<String> {
    let mut violations = Vec::new();
    let mut check = |violated: bool, sentence: String| {
        if violated {
            violations.push(sentence);
        }
    };
    let mut none = |what: &str, found: &Violations| {
        check(found.seen > 0, format!("{what}: {}", summary(found)));
    };
    none("wrong data", &figures.wrong);
    none("unexpected errors", &figures.unexpected);
    none("answers that did not arrive in time", &figures.unanswered);
    let no_findings = Checked::default();
    let checked = figures.checked.as_ref().unwrap_or(&no_findings);
    none("findings of the simulator's checker", &checked.violations);
    let needless = checked.needless_waits;
    check(
        needless > 0,
        format!("expected no redundant waits between queues, got {needless}"),
    );
    let (asked, answered, withdrawn) = (figures.asked, figures.answered, figures.withdrawn);
    check(
        asked != answered + withdrawn,
        format!("expected {asked} answers, got {answered}, and {withdrawn} were withdrawn"),
    );
    let (given, ended) = (figures.given, figures.ended);
    check(
        given != ended,
        format!("expected {given} host functions and callbacks to end, got {ended}"),
    );
    let (values, dropped, parked) = (figures.values, figures.dropped, figures.parked);
    check(
        dropped > values || dropped + parked < values,
        format!(
            "{values} values submitted to be dropped, but {dropped} dropped and {parked} kept by lost devices"
        ),
    );
    let left = figures.left.unwrap_or_default();
    check(
        figures.left.is_none(),
        "the device did not answer a `sync` at the end".to_owned(),
    );
    check(
        left != Left::default(),
        format!("after all handles were dropped the device still has {left:?}"),
    );
    let closed = &figures.closed;
    let kept = [
        closed.tasks_left,
        closed.slices_held,
        closed.values_parked,
        closed.threads_left,
    ];
    check(
        !closed.drained || kept != [0; 4],
        format!("the device did not close cleanly: {closed:?}"),
    );
    if let Some((before, after)) = figures.threads {
        check(
            after != before,
            format!(
                "the process has {after} threads after the soak, expected {before} as before it"
            ),
        );
    }
    if let Some(growth) = growth(&figures.samples) {
        let [grown, rate, most] = [
            growth.grown_bytes,
            growth.bytes_per_minute,
            GROWTH_MAX_BYTES,
        ]
        .map(|of| of / MIB);
        check(
            growth.judged && grown > most,
            format!(
                "memory grew by {grown:.1} MiB after the warm-up ({rate:.2} MiB/min), expected at most {most:.0} MiB"
            ),
        );
    }
    if let Some((least, most)) = shares(&figures.even) {
        check(
            (least as f64) < most as f64 * FAIRNESS_MIN,
            format!(
                "equal clients completed between {least} and {most}, expected at least {FAIRNESS_MIN} of the maximum"
            ),
        );
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Figures {
        fn checked(&mut self) -> &mut Checked {
            self.checked.as_mut().unwrap()
        }
    }

    /// Returns the figures of a soak of two minutes without violations.
    fn clean() -> Figures {
        let mut closed = Closing::default();
        closed.drained = true;
        let sample = |second: u32| Sample {
            second: f64::from(second),
            // Memory grows during the warm-up, then varies slightly.
            resident_bytes: u64::from(second.min(20)) * (10 << 20)
                + u64::from(second % 7) * 100_000,
            steps_per_second: 1_000.0,
        };
        Figures {
            asked: 1_000,
            answered: 990,
            withdrawn: 10,
            given: 50,
            ended: 50,
            values: 20,
            dropped: 20,
            left: Some(Left::default()),
            closed,
            threads: Some((3, 3)),
            samples: (0..120).map(sample).collect(),
            even: vec![5_000, 4_000, 4_500],
            checked: Some(Checked::default()),
            ..Figures::default()
        }
    }

    fn one() -> Violations {
        Violations {
            seen: 1,
            sentences: vec!["planted".into()],
        }
    }

    /// Changes clean figures by `plant`, and asserts that the only violation has this text.
    fn assert_found(plant: impl FnOnce(&mut Figures), text: &str) {
        let mut figures = clean();
        plant(&mut figures);
        let violations = judge(&figures);
        assert!(
            violations.len() == 1 && violations[0].contains(text),
            "{violations:?}"
        );
    }

    #[test]
    fn clean_figures_have_no_violation() {
        assert_eq!(judge(&clean()), [""; 0]);
    }

    #[test]
    fn each_kind_of_violation_is_reported_alone() {
        type Plant = fn(&mut Figures);
        let kinds: [(Plant, &str); 16] = [
            (|f| f.wrong = one(), "wrong data: planted"),
            (|f| f.unexpected = one(), "unexpected errors: planted"),
            (|f| f.unanswered = one(), "did not arrive in time: planted"),
            (|f| f.answered -= 1, "expected 1000 answers, got 989"),
            (|f| f.answered += 1, "expected 1000 answers, got 991"),
            (|f| f.ended -= 1, "callbacks to end, got 49"),
            (|f| f.dropped -= 1, "but 19 dropped"),
            (|f| f.dropped += 1, "but 21 dropped"),
            (|f| f.left = None, "did not answer a `sync`"),
            (|f| f.closed.drained = false, "did not close cleanly"),
            (|f| f.closed.slices_held = 1, "did not close cleanly"),
            (|f| f.closed.threads_left = 1, "did not close cleanly"),
            (
                |f| f.threads = Some((3, 5)),
                "the process has 5 threads after the soak, expected 3 as before it",
            ),
            (|f| f.even[1] = 2_000, "between 2000 and 5000"),
            (|f| f.checked().violations = one(), "checker: planted"),
            (|f| f.checked().needless_waits = 1, "queues, got 1"),
        ];
        for (plant, text) in kinds {
            assert_found(plant, text);
        }
    }

    #[test]
    fn value_kept_by_a_lost_device_is_no_violation() {
        let mut figures = clean();
        figures.dropped -= 1;
        figures.parked = 1;
        assert_eq!(judge(&figures), [""; 0]);
    }

    #[test]
    fn each_kind_of_leak_is_reported() {
        let leaks: [fn(&mut Left); 6] = [
            |left| left.streams = 1,
            |left| left.tasks_held = 1,
            |left| left.live_slices = 1,
            |left| left.bytes_in_use = 1,
            |left| left.bytes_waiting = 1,
            |left| left.clients = 1,
        ];
        for leak in leaks {
            let mut left = Left::default();
            leak(&mut left);
            assert_found(|f| f.left = Some(left), "the device still has");
        }
    }

    #[test]
    fn slow_leak_is_growth_and_warm_up_is_not() {
        let leak = |f: &mut Figures| {
            for sample in &mut f.samples {
                sample.resident_bytes += (sample.second * 200.0 * 1024.0) as u64;
            }
        };
        assert_found(leak, "MiB after the warm-up (11.");
        // Ten seconds have too few samples to judge.
        let mut short = clean();
        leak(&mut short);
        short.samples.truncate(10);
        assert_eq!(judge(&short), [""; 0]);
    }

    #[test]
    fn fairness_is_not_judged_with_too_little_work() {
        let mut figures = clean();
        figures.even = vec![0, 1_500];
        assert_eq!(judge(&figures), [""; 0]);
    }
}
