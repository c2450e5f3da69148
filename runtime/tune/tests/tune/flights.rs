//! Each key is tuned by one thread at a time, and no thread waits for ever.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use millstream_tune::{Begun, Chosen, Fastest, Policy, Tunable, TunableSet, TuneError, Tuner};

use crate::support::{Costs, Gated, Rig, Virtual, choose, gated, plain, timed};

/// I6: sixteen threads that miss one key run one tuning, and all receive its result.
#[test]
fn threads_that_miss_one_key_run_one_tuning_i6() {
    for _ in 0..20 {
        let Rig {
            costs, set, tuner, ..
        } = Rig::new(&[300, 100, 200]);
        let barrier = Barrier::new(16);
        let tuned: usize = std::thread::scope(|scope| {
            let choose = || {
                let mut measure = Virtual::exact(&costs);
                barrier.wait();
                let choice = choose(&tuner, &set, &mut measure);
                assert_eq!(choice.index, 1);
                usize::from(choice.by == Chosen::Tuned)
            };
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(choose)).collect();
            let tuned = threads.into_iter().map(|thread| thread.join().unwrap());
            tuned.sum()
        });
        assert_eq!(tuned, 1);
        assert_eq!(costs.generated.load(Ordering::Relaxed), 1);
    }
}

/// I8: a key that is being tuned is pending for other callers, which need not wait; other keys are free.
#[test]
fn key_is_pending_while_it_is_tuned_i8() {
    let Gated { set, begun, go, .. } = gated();
    let set = set.with(plain("one")).with(plain("other"));
    let (tuner, costs) = (Tuner::new(), Arc::new(Costs::default()));
    std::thread::scope(|scope| {
        let choose = |policy| tuner.choose(&set, &1, &0, &mut Virtual::exact(&costs), policy);
        let tuning = scope.spawn(move || choose(Policy::Wait));
        begun.recv().unwrap();
        assert_eq!(tuner.fastest(&1), Fastest::Pending);
        assert_eq!(tuner.fastest(&2), Fastest::Miss);
        let choice = choose(Policy::UseDefault);
        assert_eq!(choice.unwrap().by, Chosen::Default);
        go.send(()).unwrap();
        tuning.join().unwrap().unwrap();
    });
    assert!(matches!(tuner.fastest(&1), Fastest::Hit(_)));
}

/// I5: a tuning that panics in user code ends, and a thread that waited for it tunes.
#[test]
fn panic_ends_a_tuning_and_a_waiting_thread_tunes_i5() {
    let Gated { set, begun, go, .. } = gated();
    let set = set.with(plain("one")).with(plain("other"));
    let (tuner, costs) = (Tuner::new(), Arc::new(Costs::default()));
    std::thread::scope(|scope| {
        let choose = || tuner.choose(&set, &1, &0, &mut Virtual::exact(&costs), Policy::Wait);
        let panics = scope.spawn(choose);
        begun.recv().unwrap();
        drop(go);
        assert_eq!(choose().unwrap().by, Chosen::Tuned);
        assert!(panics.join().is_err());
    });
}

/// I5: a thread that waited for a tuning without a result receives the error, and does not tune again; a later caller
/// does.
#[test]
fn failed_tuning_is_not_repeated_by_the_threads_that_waited_i5() {
    let gated = gated();
    let set = gated
        .set
        .with(Tunable::new("one", |_: u32| Err::<u32, _>("it is broken")))
        .with(Tunable::new("other", |_: u32| Err::<u32, _>("so is this")));
    let (tuner, costs) = (Tuner::new(), Arc::new(Costs::default()));
    let choose = || tuner.choose(&set, &1, &0, &mut Virtual::exact(&costs), Policy::Wait);
    let error = std::thread::scope(|scope| {
        let tuning = scope.spawn(choose);
        gated.begun.recv().unwrap();
        let Begun::Elsewhere(elsewhere) = tuner.begin(&set, &1, &0) else {
            panic!("another thread tunes the key");
        };
        gated.go.send(()).unwrap();
        let why = tuning.join().unwrap().unwrap_err();
        assert_eq!(elsewhere.wait(), Err(why.clone()));
        why
    });
    assert!(error.to_string().contains("it is broken"), "{error}");
    assert_eq!(gated.generated.load(Ordering::Relaxed), 1);
    assert_eq!(choose(), Err(error));
    assert_eq!(gated.generated.load(Ordering::Relaxed), 2);
}

/// I5: a candidate, or the generator of its inputs, that chooses for the key it is measured for would wait for itself.
#[test]
fn candidate_that_chooses_for_its_own_key_gets_an_error_i5() {
    let tuner = Tuner::<u32>::new();
    let choose_again = |tuner: &Tuner<u32>| {
        let tuner = tuner.clone();
        let costs = Arc::new(Costs::default());
        move |x: u32| {
            let inner = timed(&costs, &[300, 100]);
            let mut measure = Virtual::exact(&costs);
            tuner
                .choose(&inner, &1, &x, &mut measure, Policy::Wait)
                .map(|choice| choice.index)
        }
    };
    let generator = choose_again(&tuner);
    let set = TunableSet::new("chooses again", move |_: &u32, inputs: &u32| {
        assert!(matches!(
            generator(*inputs),
            Err(TuneError::WouldDeadlock { .. })
        ));
        *inputs
    })
    .with(Tunable::new("chooses", choose_again(&tuner)))
    .with(Tunable::new("works", |_: u32| Ok::<_, String>(7)));
    let mut measure = Virtual::exact(&Arc::default());
    let answer = tuner.execute(&set, &1, 0, &mut measure, Policy::Wait);
    assert_eq!(answer, Ok(7));
    let outcome = tuner.outcome(&1).unwrap();
    let mut failed = outcome
        .candidates
        .iter()
        .filter_map(|one| one.result.clone().err());
    let why = failed.next().unwrap().to_string();
    assert!(why.contains("would deadlock"), "{why}");
}

/// I5: of candidates that wait for each other's keys in a cycle one receives an error, and all tunings end.
#[test]
fn wait_that_would_close_a_cycle_is_an_error_i5() {
    const THREADS: u32 = 3;
    let tuner = Tuner::<u32>::new();
    let met = Arc::new(Barrier::new(THREADS as usize));
    let errors = Arc::new(AtomicU32::new(0));
    let tune = |key: u32| {
        let (inner, met, errors) = (tuner.clone(), met.clone(), errors.clone());
        let first = AtomicBool::new(true);
        let pair = move || {
            let set = TunableSet::new("set", |_: &u32, x: &u32| *x);
            set.with(plain("one")).with(plain("other"))
        };
        let chooses = Tunable::new("one", move |x: u32| {
            // Each thread tunes its own key, and chooses for the next key.
            if first.swap(false, Ordering::Relaxed) {
                met.wait();
            }
            let mut measure = Virtual::exact(&Arc::default());
            let next = (key + 1) % THREADS;
            let choice = inner.choose(&pair(), &next, &x, &mut measure, Policy::Wait);
            let in_cycle = matches!(choice, Err(TuneError::WouldDeadlock { .. }));
            errors.fetch_add(u32::from(in_cycle), Ordering::Relaxed);
            choice.map(|_| x)
        });
        let set = TunableSet::new("set", |_: &u32, x: &u32| *x);
        let set = set.with(chooses).with(plain("other"));
        let mut measure = Virtual::exact(&Arc::default());
        tuner.choose(&set, &key, &0, &mut measure, Policy::Wait)
    };
    std::thread::scope(|scope| {
        let tune = &tune;
        let threads: Vec<_> = (0..THREADS)
            .map(|key| scope.spawn(move || tune(key)))
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap().is_ok());
        }
    });
    assert_eq!(errors.load(Ordering::Relaxed), 1);
}

/// I5: whichever clone of a key panics, no flight is left without a leader.
#[test]
fn clone_of_a_key_that_panics_leaves_no_flight_i5() {
    thread_local! {
        /// The number of clones until one panics.
        static CLONES: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    #[derive(PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
    struct Key;

    impl Clone for Key {
        fn clone(&self) -> Self {
            let left = CLONES.get();
            assert!(left > 0, "a clone panics");
            CLONES.set(left - 1);
            Self
        }
    }

    let set = TunableSet::new("clones", |_: &Key, inputs: &u32| *inputs);
    let set = set.with(plain("one")).with(plain("other"));
    let mut panics = 0;
    for clones in 0.. {
        let tuner = Tuner::new();
        CLONES.set(clones);
        let begun = catch_unwind(AssertUnwindSafe(|| drop(tuner.begin(&set, &Key, &1))));
        CLONES.set(usize::MAX);
        assert_eq!(tuner.fastest(&Key), Fastest::Miss, "after {clones} clones");
        if begun.is_ok() {
            break;
        }
        panics += 1;
    }
    assert!(panics > 1);
}
