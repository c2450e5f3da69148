//! From the figures of a soak to what is wrong with them. Pure: it reads no clock, no device and no file.

use millstream_testkit::Wrongs;
use serde::Serialize;

/// Memory that the process may gain by the trend of its samples, from the end of the warm-up to the end of
/// the soak: what allocators and caches do. One byte lost a step is more within minutes.
pub(crate) const GROWTH_MAX_BYTES: f64 = (16 << 20) as f64;
/// The part of the samples that is warm-up: caches fill, pools reach their size.
const WARM_UP_PERCENT: usize = 25;
/// With fewer samples than this after the warm-up, memory is not judged: a trend needs time.
const SAMPLES_MIN: usize = 20;
/// Of equal clients the slowest must have completed at least this share of what the fastest did.
pub(crate) const FAIRNESS_MIN: f64 = 0.5;
/// With less than this completed by the fastest, fairness is not judged: threads start one after another.
const FAIRNESS_WORK_MIN: u64 = 2_000;

/// One second of a soak.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Sample {
    pub(crate) second: f64,
    /// Memory of the process, where the system tells.
    pub(crate) resident_bytes: u64,
    /// Steps of the mixed load since the sample before, a second.
    pub(crate) steps_per_second: f64,
}

/// What the device still had once everything had been dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Left {
    pub(crate) streams: u64,
    pub(crate) tasks_held: u64,
    pub(crate) live_slices: u64,
    pub(crate) bytes_in_use: u64,
    pub(crate) bytes_waiting: u64,
    /// Clients that the memory report still lists.
    pub(crate) clients: u64,
}

/// What the close said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Closed {
    pub(crate) drained: bool,
    pub(crate) tasks_left: u64,
    pub(crate) slices_held: u64,
    pub(crate) values_parked: u64,
    pub(crate) threads_left: u64,
}

/// What the simulator's checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Checked {
    pub(crate) violations: Wrongs,
    /// Waits between queues that others implied.
    pub(crate) needless_waits: u64,
}

/// Everything that the verdict is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    pub(crate) withdrawn: u64,
    pub(crate) given: u64,
    pub(crate) ended: u64,
    pub(crate) values: u64,
    pub(crate) dropped: u64,
    /// Values that lost devices were left with: they may be using them.
    pub(crate) parked: u64,
    /// Data that was not what it must be.
    pub(crate) wrong: Wrongs,
    /// Errors that nothing explains.
    pub(crate) unexpected: Wrongs,
    /// Answers that did not come in time.
    pub(crate) unanswered: Wrongs,
    /// None where the device could not be asked.
    pub(crate) left: Option<Left>,
    pub(crate) closed: Closed,
    /// Threads of the process before and after, where the system tells.
    pub(crate) threads: Option<(usize, usize)>,
    pub(crate) samples: Vec<Sample>,
    /// Work completed by each of the equal clients.
    pub(crate) even: Vec<u64>,
    pub(crate) checked: Option<Checked>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Breach {
    #[error("wrong data: {}", said(.0))]
    Wrong(Wrongs),
    #[error("unexpected errors: {}", said(.0))]
    Unexpected(Wrongs),
    #[error("answers that did not come in time: {}", said(.0))]
    Unanswered(Wrongs),
    #[error("{asked} answers were asked, {answered} came and {withdrawn} were withdrawn")]
    Replies {
        asked: u64,
        answered: u64,
        withdrawn: u64,
    },
    #[error("{given} host functions and callbacks were given away, {ended} of them ended")]
    UserCode { given: u64, ended: u64 },
    #[error("{values} values were to be dropped, {dropped} were, and lost devices kept {parked}")]
    Values {
        values: u64,
        dropped: u64,
        parked: u64,
    },
    #[error("the device could not say what it has left")]
    Silent,
    #[error("everything was dropped, and the device has {0:?}")]
    Left(Left),
    #[error("the device did not close cleanly: {0:?}")]
    Closed(Closed),
    #[error("{before} threads before, {after} after")]
    Threads { before: usize, after: usize },
    #[error(
        "memory grew by {:.1} MiB after the warm-up, {:.2} MiB a minute; at most {:.0} MiB are allowed",
        .0.grown_bytes / MIB, .0.bytes_per_minute / MIB, GROWTH_MAX_BYTES / MIB
    )]
    Growth(Growth),
    #[error(
        "of equal clients one completed {least} and one {most}; at least {FAIRNESS_MIN} of the most is asked"
    )]
    Unfair { least: u64, most: u64 },
    #[error("the simulator's checker found: {}", said(.0))]
    Rules(Wrongs),
    #[error("{0} waits between queues were needless")]
    Needless(u64),
}

const MIB: f64 = (1 << 20) as f64;

fn said(wrongs: &Wrongs) -> String {
    let first = wrongs.sentences.first().map_or("", String::as_str);
    match wrongs.seen {
        1 => first.to_owned(),
        seen => format!("{seen}, the first: {first}"),
    }
}

/// How memory went.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Growth {
    pub(crate) first_bytes: u64,
    pub(crate) last_bytes: u64,
    pub(crate) max_bytes: u64,
    /// By the trend of what came after the warm-up.
    pub(crate) grown_bytes: f64,
    pub(crate) bytes_per_minute: f64,
    /// Are there samples enough to tell?
    pub(crate) judged: bool,
}

/// How memory went, by least squares over what came after the warm-up.
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

/// The least and the most that equal clients completed, if that is enough to compare.
pub(crate) fn shares(even: &[u64]) -> Option<(u64, u64)> {
    let (least, most) = (*even.iter().min()?, *even.iter().max()?);
    (most >= FAIRNESS_WORK_MIN).then_some((least, most))
}

/// Everything that is wrong with these figures.
pub(crate) fn judge(figures: &Figures) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut breach = |broken: bool, breach: Breach| {
        if broken {
            breaches.push(breach);
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
    let wrongs = |wrongs: &Wrongs| (wrongs.seen > 0, wrongs.clone());
    let (seen, wrong) = wrongs(&figures.wrong);
    breach(seen, Breach::Wrong(wrong));
    let (seen, unexpected) = wrongs(&figures.unexpected);
    breach(seen, Breach::Unexpected(unexpected));
    let (seen, unanswered) = wrongs(&figures.unanswered);
    breach(seen, Breach::Unanswered(unanswered));
    let replies = Breach::Replies {
        asked,
        answered,
        withdrawn,
    };
    breach(asked != answered + withdrawn, replies);
    breach(given != ended, Breach::UserCode { given, ended });
    let lost_values = Breach::Values {
        values,
        dropped,
        parked,
    };
    breach(dropped > values || dropped + parked < values, lost_values);
    match figures.left {
        None => breach(true, Breach::Silent),
        Some(left) => breach(left != Left::default(), Breach::Left(left)),
    }
    let clean = Closed {
        drained: true,
        ..Closed::default()
    };
    breach(closed != clean, Breach::Closed(closed));
    if let Some((before, after)) = figures.threads {
        breach(after != before, Breach::Threads { before, after });
    }
    if let Some(growth) = growth(&figures.samples) {
        let grew = growth.judged && growth.grown_bytes > GROWTH_MAX_BYTES;
        breach(grew, Breach::Growth(growth));
    }
    if let Some((least, most)) = shares(&figures.even) {
        let unfair = (least as f64) < most as f64 * FAIRNESS_MIN;
        breach(unfair, Breach::Unfair { least, most });
    }
    if let Some(checked) = &figures.checked {
        let (seen, violations) = wrongs(&checked.violations);
        breach(seen, Breach::Rules(violations));
        let needless = checked.needless_waits;
        breach(needless > 0, Breach::Needless(needless));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of a soak of two minutes in which nothing went wrong.
    fn sound() -> Figures {
        let sample = |second: u32| Sample {
            second: f64::from(second),
            // Fills during the warm-up, then moves up and down.
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

    fn one() -> Wrongs {
        Wrongs {
            seen: 1,
            sentences: vec!["planted".into()],
        }
    }

    /// The only breach of sound figures with this planted in them.
    fn breach(plant: impl FnOnce(&mut Figures)) -> Breach {
        let mut figures = sound();
        plant(&mut figures);
        let mut breaches = judge(&figures);
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        breaches.remove(0)
    }

    #[test]
    fn sound_figures_have_no_breach() {
        assert_eq!(judge(&sound()), []);
    }

    #[test]
    fn every_kind_of_planted_violation_is_reported_and_nothing_else() {
        assert!(matches!(breach(|f| f.wrong = one()), Breach::Wrong(_)));
        assert!(matches!(
            breach(|f| f.unexpected = one()),
            Breach::Unexpected(_)
        ));
        assert!(matches!(
            breach(|f| f.unanswered = one()),
            Breach::Unanswered(_)
        ));
        assert!(matches!(
            breach(|f| f.answered -= 1),
            Breach::Replies { .. }
        ));
        assert!(matches!(
            breach(|f| f.answered += 1),
            Breach::Replies { .. }
        ));
        assert!(matches!(breach(|f| f.ended -= 1), Breach::UserCode { .. }));
        assert!(matches!(breach(|f| f.dropped -= 1), Breach::Values { .. }));
        assert!(matches!(breach(|f| f.dropped += 1), Breach::Values { .. }));
        assert!(matches!(breach(|f| f.left = None), Breach::Silent));
        assert!(matches!(
            breach(|f| f.closed.drained = false),
            Breach::Closed(_)
        ));
        assert!(matches!(
            breach(|f| f.closed.slices_held = 1),
            Breach::Closed(_)
        ));
        assert!(matches!(
            breach(|f| f.closed.threads_left = 1),
            Breach::Closed(_)
        ));
        assert!(matches!(
            breach(|f| f.threads = Some((3, 4))),
            Breach::Threads { .. }
        ));
        assert!(matches!(
            breach(|f| f.even[1] = 2_000),
            Breach::Unfair { .. }
        ));
        let rules = |f: &mut Figures| {
            f.checked = Some(Checked {
                violations: one(),
                needless_waits: 0,
            });
        };
        assert!(matches!(breach(rules), Breach::Rules(_)));
        let needless = |f: &mut Figures| {
            f.checked = Some(Checked {
                needless_waits: 1,
                ..Checked::default()
            });
        };
        assert!(matches!(breach(needless), Breach::Needless(1)));
    }

    #[test]
    fn a_value_that_a_lost_device_was_left_with_is_none_that_was_lost() {
        let mut figures = sound();
        figures.dropped -= 1;
        figures.parked = 1;
        assert_eq!(judge(&figures), []);
    }

    #[test]
    fn whatever_the_device_has_left_is_reported() {
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
            assert_eq!(breach(|f| f.left = Some(left)), Breach::Left(left));
        }
    }

    #[test]
    fn a_slow_leak_is_growth_and_a_warm_up_is_not() {
        let leak = |f: &mut Figures| {
            for sample in &mut f.samples {
                sample.resident_bytes += (sample.second * 200.0 * 1024.0) as u64;
            }
        };
        let Breach::Growth(growth) = breach(leak) else {
            panic!("a leak of 200 KiB a second was not seen");
        };
        assert!(
            (growth.bytes_per_minute / MIB - 11.7).abs() < 0.5,
            "{growth:?}"
        );
        // Two minutes are judged; ten seconds are not.
        let mut short = sound();
        leak(&mut short);
        short.samples.truncate(10);
        assert_eq!(judge(&short), []);
    }

    #[test]
    fn too_little_work_says_nothing_about_fairness() {
        let mut figures = sound();
        figures.even = vec![0, 1_500];
        assert_eq!(judge(&figures), []);
    }

    #[test]
    fn a_breach_reads_as_a_sentence() {
        let said = Breach::Threads {
            before: 3,
            after: 5,
        }
        .to_string();
        assert_eq!(said, "3 threads before, 5 after");
        assert_eq!(Breach::Wrong(one()).to_string(), "wrong data: planted");
    }
}
