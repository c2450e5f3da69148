//! Judges the figures of a soak. A pure function: it reads no clock, no device and no file.

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

/// The report of the close.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Closed {
    pub(crate) drained: bool,
    pub(crate) tasks_left: u64,
    pub(crate) slices_held: u64,
    pub(crate) values_parked: u64,
    pub(crate) threads_left: u64,
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
    pub(crate) closed: Closed,
    /// The threads of the process before and after, if the system reports them.
    pub(crate) threads: Option<(usize, usize)>,
    pub(crate) samples: Vec<Sample>,
    /// The work that each of the equal clients completed.
    pub(crate) even: Vec<u64>,
    pub(crate) checked: Option<Checked>,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("wrong data: {}", summary(.0))]
    Wrong(Violations),
    #[error("unexpected errors: {}", summary(.0))]
    Unexpected(Violations),
    #[error("answers that did not arrive in time: {}", summary(.0))]
    Unanswered(Violations),
    #[error("expected {asked} answers, got {answered}, and {withdrawn} were withdrawn")]
    Answers {
        asked: u64,
        answered: u64,
        withdrawn: u64,
    },
    #[error("expected {given} host functions and callbacks to end, got {ended}")]
    UserCode { given: u64, ended: u64 },
    #[error(
        "{values} values submitted to be dropped, but {dropped} dropped and {parked} kept by lost devices"
    )]
    Values {
        values: u64,
        dropped: u64,
        parked: u64,
    },
    #[error("the device did not answer a `sync` at the end")]
    Unresponsive,
    #[error("after all handles were dropped the device still has {0:?}")]
    Left(Left),
    #[error("the device did not close cleanly: {0:?}")]
    Closed(Closed),
    #[error("the process has {after} threads after the soak, expected {before} as before it")]
    Threads { before: usize, after: usize },
    #[error(
        "memory grew by {:.1} MiB after the warm-up ({:.2} MiB/min), expected at most {:.0} MiB",
        .0.grown_bytes / MIB, .0.bytes_per_minute / MIB, GROWTH_MAX_BYTES / MIB
    )]
    Growth(Growth),
    #[error(
        "equal clients completed between {least} and {most}, expected at least {FAIRNESS_MIN} of the maximum"
    )]
    Unfair { least: u64, most: u64 },
    #[error("findings of the simulator's checker: {}", summary(.0))]
    Checker(Violations),
    #[error("expected no redundant waits between queues, got {0}")]
    RedundantWaits(u64),
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

/// Returns the violations in the figures.
pub(crate) fn judge(figures: &Figures) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut check = |violated: bool, violation: Violation| {
        if violated {
            violations.push(violation);
        }
    };
    let Figures {
        asked,
        answered,
        withdrawn,
        given,
        ended,
        values,
        dropped,
        parked,
        closed,
        ..
    } = *figures;
    let found = |kind: &Violations| (kind.seen > 0, kind.clone());
    let (seen, wrong) = found(&figures.wrong);
    check(seen, Violation::Wrong(wrong));
    let (seen, unexpected) = found(&figures.unexpected);
    check(seen, Violation::Unexpected(unexpected));
    let (seen, unanswered) = found(&figures.unanswered);
    check(seen, Violation::Unanswered(unanswered));
    let answers = Violation::Answers {
        asked,
        answered,
        withdrawn,
    };
    check(asked != answered + withdrawn, answers);
    check(given != ended, Violation::UserCode { given, ended });
    let lost_values = Violation::Values {
        values,
        dropped,
        parked,
    };
    check(dropped > values || dropped + parked < values, lost_values);
    match figures.left {
        None => check(true, Violation::Unresponsive),
        Some(left) => check(left != Left::default(), Violation::Left(left)),
    }
    let clean = Closed {
        drained: true,
        ..Closed::default()
    };
    check(closed != clean, Violation::Closed(closed));
    if let Some((before, after)) = figures.threads {
        check(after != before, Violation::Threads { before, after });
    }
    if let Some(growth) = growth(&figures.samples) {
        let grew = growth.judged && growth.grown_bytes > GROWTH_MAX_BYTES;
        check(grew, Violation::Growth(growth));
    }
    if let Some((least, most)) = shares(&figures.even) {
        let unfair = (least as f64) < most as f64 * FAIRNESS_MIN;
        check(unfair, Violation::Unfair { least, most });
    }
    if let Some(checked) = &figures.checked {
        let (seen, findings) = found(&checked.violations);
        check(seen, Violation::Checker(findings));
        let redundant = checked.needless_waits;
        check(redundant > 0, Violation::RedundantWaits(redundant));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the figures of a soak of two minutes without violations.
    fn clean() -> Figures {
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
            closed: Closed {
                drained: true,
                ..Closed::default()
            },
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

    /// Changes clean figures by `plant`, and returns the only violation.
    fn violation(plant: impl FnOnce(&mut Figures)) -> Violation {
        let mut figures = clean();
        plant(&mut figures);
        let mut violations = judge(&figures);
        assert_eq!(violations.len(), 1, "{violations:?}");
        violations.remove(0)
    }

    #[test]
    fn clean_figures_have_no_violation() {
        assert_eq!(judge(&clean()), []);
    }

    #[test]
    fn each_kind_of_violation_is_reported_alone() {
        assert!(matches!(
            violation(|f| f.wrong = one()),
            Violation::Wrong(_)
        ));
        assert!(matches!(
            violation(|f| f.unexpected = one()),
            Violation::Unexpected(_)
        ));
        assert!(matches!(
            violation(|f| f.unanswered = one()),
            Violation::Unanswered(_)
        ));
        assert!(matches!(
            violation(|f| f.answered -= 1),
            Violation::Answers { .. }
        ));
        assert!(matches!(
            violation(|f| f.answered += 1),
            Violation::Answers { .. }
        ));
        assert!(matches!(
            violation(|f| f.ended -= 1),
            Violation::UserCode { .. }
        ));
        assert!(matches!(
            violation(|f| f.dropped -= 1),
            Violation::Values { .. }
        ));
        assert!(matches!(
            violation(|f| f.dropped += 1),
            Violation::Values { .. }
        ));
        assert!(matches!(
            violation(|f| f.left = None),
            Violation::Unresponsive
        ));
        assert!(matches!(
            violation(|f| f.closed.drained = false),
            Violation::Closed(_)
        ));
        assert!(matches!(
            violation(|f| f.closed.slices_held = 1),
            Violation::Closed(_)
        ));
        assert!(matches!(
            violation(|f| f.closed.threads_left = 1),
            Violation::Closed(_)
        ));
        assert!(matches!(
            violation(|f| f.threads = Some((3, 4))),
            Violation::Threads { .. }
        ));
        assert!(matches!(
            violation(|f| f.even[1] = 2_000),
            Violation::Unfair { .. }
        ));
        let rules = |f: &mut Figures| {
            f.checked = Some(Checked {
                violations: one(),
                needless_waits: 0,
            });
        };
        assert!(matches!(violation(rules), Violation::Checker(_)));
        let needless = |f: &mut Figures| {
            f.checked = Some(Checked {
                needless_waits: 1,
                ..Checked::default()
            });
        };
        assert!(matches!(violation(needless), Violation::RedundantWaits(1)));
    }

    #[test]
    fn value_kept_by_a_lost_device_is_no_violation() {
        let mut figures = clean();
        figures.dropped -= 1;
        figures.parked = 1;
        assert_eq!(judge(&figures), []);
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
            assert_eq!(violation(|f| f.left = Some(left)), Violation::Left(left));
        }
    }

    #[test]
    fn slow_leak_is_growth_and_warm_up_is_not() {
        let leak = |f: &mut Figures| {
            for sample in &mut f.samples {
                sample.resident_bytes += (sample.second * 200.0 * 1024.0) as u64;
            }
        };
        let Violation::Growth(growth) = violation(leak) else {
            panic!("a leak of 200 KiB per second was not reported");
        };
        assert!(
            (growth.bytes_per_minute / MIB - 11.7).abs() < 0.5,
            "{growth:?}"
        );
        // Ten seconds have too few samples to judge.
        let mut short = clean();
        leak(&mut short);
        short.samples.truncate(10);
        assert_eq!(judge(&short), []);
    }

    #[test]
    fn fairness_is_not_judged_with_too_little_work() {
        let mut figures = clean();
        figures.even = vec![0, 1_500];
        assert_eq!(judge(&figures), []);
    }

    #[test]
    fn violation_is_printed_as_a_sentence() {
        let text = Violation::Threads {
            before: 3,
            after: 5,
        }
        .to_string();
        assert_eq!(
            text,
            "the process has 5 threads after the soak, expected 3 as before it"
        );
        assert_eq!(Violation::Wrong(one()).to_string(), "wrong data: planted");
    }
}
