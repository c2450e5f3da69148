//! The choice of a candidate, and the handling of candidates that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use millstream_tune::{
    Checked, Chosen, Fastest, Identity, Policy, Tunable, TunableSet, TuneError, Tuner,
};
use rstest::rstest;

use crate::support::{Rig, Still, choose};

#[test]
fn fastest_candidate_is_chosen_and_remembered() {
    let mut rig = Rig::new(&[300, 100, 200]);
    assert_eq!(rig.tuner.fastest(&1), Fastest::Miss);
    let first = rig.choose(Policy::Wait).unwrap();
    let runs = rig.runs();
    let second = rig.choose(Policy::Wait).unwrap();
    assert_eq!((first.index, first.by), (1, Chosen::Tuned));
    assert_eq!((second.index, second.by), (1, Chosen::Known));
    assert_eq!(rig.tuner.fastest(&1), Fastest::Hit(1));
    assert_eq!(rig.runs(), runs, "a known key is not measured again");
    assert_eq!(rig.costs.generated.load(Ordering::Relaxed), 1);
    let outcome = rig.tuner.outcome(&1).unwrap();
    let names = outcome.candidates.iter().map(|candidate| &*candidate.name);
    let names: Vec<&str> = names.collect();
    assert_eq!(names, ["100 ns", "200 ns", "300 ns"], "the fastest first");
}

#[test]
fn only_candidate_is_chosen_without_being_measured() {
    let mut rig = Rig::new(&[300]);
    assert_eq!(rig.choose(Policy::Wait).unwrap().by, Chosen::Alone);
    // No inputs are generated for it, either.
    let generated = rig.costs.generated.load(Ordering::Relaxed);
    assert_eq!((rig.runs(), generated), (0, 0));
}

fn number(name: &str, answer: u32) -> Tunable<u32, u32> {
    Tunable::new(name, move |_| Ok::<_, String>(answer))
}

fn failing(name: &str) -> Tunable<u32, u32> {
    Tunable::new(name, |_| Err("no room"))
}

fn panicking(name: &str) -> Tunable<u32, u32> {
    Tunable::new(name, |_| -> Result<u32, String> { panic!("it is broken") })
}

fn set() -> TunableSet<u32, u32, u32> {
    TunableSet::new("numbers", |_: &u32, inputs: &u32| *inputs)
}

/// I7: candidates that fail are eliminated with their reasons, and do not affect others.
#[test]
fn candidate_that_fails_or_panics_is_eliminated_i7() {
    let set = set()
        .with(failing("fails"))
        .with(number("works", 5))
        .with(panicking("panics"));
    let tuner = Tuner::new();
    let answer = tuner.execute(&set, &1, 0, &mut Still, Policy::Wait);
    assert_eq!(answer, Ok(5));
    let outcome = tuner.outcome(&1).unwrap();
    let reasons: Vec<String> = outcome
        .candidates
        .iter()
        .filter_map(|candidate| candidate.result.as_ref().err())
        .map(ToString::to_string)
        .collect();
    assert_eq!(reasons, ["no room", "panicked with \"it is broken\""]);
}

#[test]
fn error_lists_the_reason_of_each_candidate_if_none_works() {
    let set = set().with(failing("one")).with(panicking("other"));
    let tuner = Tuner::new();
    let failed = tuner
        .execute(&set, &1, 0, &mut Still, Policy::Wait)
        .unwrap_err();
    assert_eq!(
        failed.to_string(),
        "no candidate of `numbers` works for 1: `one` no room; `other` panicked with \"it is broken\""
    );
    assert_eq!(
        tuner.fastest(&1),
        Fastest::Miss,
        "a later tuning may succeed"
    );
}

/// I7: the validation of an output finds failures that the device reports after the launch.
#[test]
fn candidate_with_an_invalid_output_is_eliminated_i7() {
    let set = set()
        .with(number("wrong", 4))
        .with(number("right", 5))
        .settled(|answer: &u32| match answer {
            5 => Ok(()),
            other => Err(format!("the device refused {other}")),
        });
    let tuner = Tuner::new();
    let chosen = choose(&tuner, &set, &mut Still);
    assert_eq!(chosen.index, 1);
}

#[test]
fn set_without_candidates_is_an_error() {
    let none = Tuner::new().execute(&set(), &1, 0, &mut Still, Policy::Wait);
    let expected = "`numbers` has no candidate for 1: add one";
    assert_eq!(none.unwrap_err().to_string(), expected);
}

/// I7: a winner that fails later is forgotten, and this call returns the output of another candidate.
#[test]
fn winner_that_fails_is_replaced_and_its_key_is_tuned_again_i7() {
    let works = Arc::new(AtomicBool::new(true));
    let does_work = works.clone();
    let set = set()
        .with(Tunable::new("fast", move |_| {
            match does_work.load(Ordering::Relaxed) {
                true => Ok(1),
                false => Err("the driver was updated"),
            }
        }))
        .with(number("slow", 2));
    let tuner = Tuner::new();
    let mut clock = Still;
    assert_eq!(tuner.execute(&set, &1, 0, &mut clock, Policy::Wait), Ok(1));
    works.store(false, Ordering::Relaxed);
    assert_eq!(tuner.execute(&set, &1, 0, &mut clock, Policy::Wait), Ok(2));
    assert_eq!(tuner.fastest(&1), Fastest::Miss);
    assert_eq!(tuner.execute(&set, &1, 0, &mut clock, Policy::Wait), Ok(2));
    assert_eq!(tuner.fastest(&1), Fastest::Hit(1));
}

/// I8: only one policy waits; the frozen policies never tune.
#[rstest]
#[case(Policy::UseDefault, Ok(0))]
#[case(Policy::FrozenDefault, Ok(0))]
#[case(Policy::Frozen, Err(()))]
fn policies_that_do_not_wait_measure_nothing_i8(
    #[case] policy: Policy,
    #[case] expected: Result<usize, ()>,
) {
    let mut rig = Rig::new(&[300, 200, 100]);
    let chosen = rig.choose(policy);
    assert_eq!(chosen.map(|choice| choice.index).map_err(drop), expected);
    assert_eq!(rig.runs(), 0);
    // A known choice is used under every policy.
    rig.choose(Policy::Wait).unwrap();
    assert_eq!(rig.choose(policy).unwrap().index, 2);
}

#[test]
fn check_reports_the_first_difference_and_skips_candidates_that_fail() {
    let made = Arc::new(AtomicU32::new(0));
    let count = made.clone();
    let of =
        |name: &str, answer: Vec<f32>| Tunable::new(name, move |_| Ok::<_, String>(answer.clone()));
    let set = TunableSet::new("vectors", move |_: &u32, inputs: &u32| {
        count.fetch_add(1, Ordering::Relaxed);
        *inputs
    })
    .with(of("near", vec![1.0, 2.000_01, f32::NAN]))
    .with(of("short", vec![1.0]))
    .with(of("wrong", vec![1.0, 2.5, f32::NAN]))
    .with(Tunable::new("fails", |_| Err("no room")))
    .with(of("by definition", vec![1.0, 2.0, f32::NAN]));
    let checked = set.autotune_checks(&1, &0).unwrap();
    let results: Vec<String> = checked
        .iter()
        .map(|(name, checked)| match checked {
            Checked::Same => format!("{name}: same"),
            Checked::Differs(first) => format!("{name}: {first}"),
            Checked::Failed(why) => format!("{name} fails: {why}"),
        })
        .collect();
    let expected = [
        "near: same",
        "short: expected 3 elements, got 1",
        "wrong: element 1: expected 2, got 2.5",
        "fails fails: no room",
        "by definition: same",
    ];
    assert_eq!(results, expected);
    assert_eq!(
        made.load(Ordering::Relaxed),
        1,
        "all candidates receive the same inputs"
    );
    let set = set.with(Tunable::new("the reference", |_| Err("no room")));
    assert_eq!(
        set.autotune_checks(&1, &0).unwrap_err().to_string(),
        "no room"
    );
}

#[test]
fn infinity_equals_only_itself() {
    let of =
        |name: &str, answer: f32| Tunable::new(name, move |_: u32| Ok::<_, String>(vec![answer]));
    let check = |answer, reference| {
        let set = TunableSet::new("overflows", |_: &u32, inputs: &u32| *inputs)
            .with(of("candidate", answer))
            .with(of("reference", reference));
        set.autotune_checks(&1, &0).unwrap()[0].1.clone()
    };
    for (answer, reference) in [
        (f32::INFINITY, 1.0),
        (1.0, f32::INFINITY),
        (f32::INFINITY, f32::NEG_INFINITY),
        (f32::NAN, f32::INFINITY),
        (f32::MAX, -f32::MAX),
    ] {
        let checked = check(answer, reference);
        assert!(
            matches!(checked, Checked::Differs(_)),
            "{answer} {reference}"
        );
    }
    for same in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX] {
        assert_eq!(check(same, same), Checked::Same);
    }
}

/// A choice is valid only for the set that it was made from, even if another set has the same key.
#[test]
fn choice_is_never_used_for_another_set() {
    let tuner = Tuner::new();
    let three = set()
        .with(failing("one"))
        .with(failing("two"))
        .with(number("three", 3));
    let two = set().with(failing("one")).with(number("two", 2));
    for _ in 0..2 {
        let of_three = tuner.execute(&three, &1, 0, &mut Still, Policy::Wait);
        let of_two = tuner.execute(&two, &1, 0, &mut Still, Policy::Wait);
        assert_eq!((of_three, of_two), (Ok(3), Ok(2)));
        let frozen = tuner.execute(&three, &1, 0, &mut Still, Policy::Frozen);
        assert!(
            matches!(frozen, Err(TuneError::Frozen { .. })),
            "{frozen:?}"
        );
    }
}

/// I7: a default that fails does not remove the choice that another thread has found meanwhile.
#[test]
fn failed_default_does_not_forget_the_choice_of_another_thread_i7() {
    let (tuner, elsewhere) = (Tuner::new(), Tuner::new());
    let here = Identity {
        device: "a processor".into(),
        version: "1".into(),
    };
    let bundle = std::sync::OnceLock::<Vec<u8>>::new();
    let bundle = Arc::new(bundle);
    let (found, importer, of) = (bundle.clone(), tuner.clone(), here.clone());
    let set = set()
        .with(Tunable::new("default", move |_: u32| {
            if let Some(bundle) = found.get() {
                importer.import(bundle, &of).unwrap();
            }
            Err::<u32, _>("no room")
        }))
        .with(number("other", 2));
    choose(&elsewhere, &set, &mut Still);
    bundle.set(elsewhere.export(&here)).unwrap();
    let answer = tuner.execute(&set, &1, 0, &mut Still, Policy::UseDefault);
    assert_eq!(answer, Ok(2));
    assert_eq!(tuner.validate_checksum(&1, &set), Fastest::Hit(1));
}
