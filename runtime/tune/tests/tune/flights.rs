//! Nobody tunes a key twice, and nobody waits for ever.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use millstream_tune::{Begun, Chosen, Fastest, Policy, Tunable, TunableSet, TuneError, Tuner};

use crate::support::{Costs, Virtual, timed};

/// I6: sixteen threads that miss one key run one tuning, and all have its result.
#[test]
fn threads_that_miss_one_key_run_one_tuning_i6() {
    for _ in 0..20 {
        let costs = Arc::new(Costs::default());
        let set = timed(&costs, &[300, 100, 200]);
        let (tuner, barrier) = (Tuner::new(), Barrier::new(16));
        let tuned: usize = std::thread::scope(|scope| {
            let ask = || {
                let mut measure = Virtual::exact(&costs);
                barrier.wait();
                let choice = tuner
                    .choose(&set, &1, &0, &mut measure, Policy::Wait)
                    .unwrap();
                assert_eq!(choice.index, 1);
                usize::from(choice.by == Chosen::Tuned)
            };
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(tuned, 1);
        assert_eq!(costs.generated.load(Ordering::Relaxed), 1);
    }
}

/// A key that is being tuned is pending for all others, who need not wait; other keys are free.
#[test]
fn a_key_is_pending_while_it_is_tuned_i8() {
    let (begun, wait_begun) = mpsc::channel::<()>();
    let (go, wait_go) = mpsc::channel::<()>();
    let gates = std::sync::Mutex::new(Some((begun, wait_go)));
    let set = TunableSet::new("gated", move |_: &u32, inputs: &u32| {
        if let Some((begun, wait_go)) = gates.lock().unwrap().take() {
            begun.send(()).unwrap();
            wait_go.recv().unwrap();
        }
        *inputs
    })
    .with(Tunable::new("one", |x: u32| Ok::<_, String>(x)))
    .with(Tunable::new("other", |x: u32| Ok::<_, String>(x)));
    let (tuner, costs) = (Tuner::new(), Arc::new(Costs::default()));
    std::thread::scope(|scope| {
        let tuning =
            scope.spawn(|| tuner.choose(&set, &1, &0, &mut Virtual::exact(&costs), Policy::Wait));
        wait_begun.recv().unwrap();
        assert_eq!(tuner.fastest(&1), Fastest::Pending);
        assert_eq!(tuner.fastest(&2), Fastest::Miss);
        let choice = tuner.choose(
            &set,
            &1,
            &0,
            &mut Virtual::exact(&costs),
            Policy::UseDefault,
        );
        assert_eq!(choice.unwrap().by, Chosen::Default);
        go.send(()).unwrap();
        tuning.join().unwrap().unwrap();
    });
    assert!(matches!(tuner.fastest(&1), Fastest::Hit(_)));
}

/// I5: a tuning that panics in user's code ends, and who waited for it tunes.
#[test]
fn a_tuning_that_panics_leaves_nobody_waiting_i5() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let (begun, wait_begun) = mpsc::channel::<()>();
    let begun = std::sync::Mutex::new(begun);
    let set = TunableSet::new("panics once", move |_: &u32, inputs: &u32| {
        if first.swap(false, Ordering::Relaxed) {
            begun.lock().unwrap().send(()).unwrap();
            panic!("no inputs");
        }
        *inputs
    })
    .with(Tunable::new("one", |x: u32| Ok::<_, String>(x)))
    .with(Tunable::new("other", |x: u32| Ok::<_, String>(x)));
    let (tuner, costs) = (Tuner::new(), Arc::new(Costs::default()));
    std::thread::scope(|scope| {
        let ask = || tuner.choose(&set, &1, &0, &mut Virtual::exact(&costs), Policy::Wait);
        let panics = scope.spawn(ask);
        wait_begun.recv().unwrap();
        assert_eq!(ask().unwrap().by, Chosen::Tuned);
        assert!(panics.join().is_err());
    });
}

/// I5: who waited for a tuning that found nothing is told why, and does not do it again; whoever comes later does.
#[test]
fn a_tuning_that_finds_nothing_is_not_done_again_by_those_who_waited_i5() {
    let (begun, wait_begun) = mpsc::channel::<()>();
    let (go, wait_go) = mpsc::channel::<()>();
    let gates = std::sync::Mutex::new(Some((begun, wait_go)));
    let tunings = std::sync::atomic::AtomicU32::new(0);
    let tunings = Arc::new(tunings);
    let count = tunings.clone();
    let set = TunableSet::new("broken", move |_: &u32, inputs: &u32| {
        count.fetch_add(1, Ordering::Relaxed);
        if let Some((begun, wait_go)) = gates.lock().unwrap().take() {
            begun.send(()).unwrap();
            wait_go.recv().unwrap();
        }
        *inputs
    })
    .with(Tunable::new("one", |_: u32| Err::<u32, _>("it is broken")))
    .with(Tunable::new("other", |_: u32| Err::<u32, _>("so is this")));
    let (tuner, costs) = (Tuner::new(), Arc::new(Costs::default()));
    let ask = || tuner.choose(&set, &1, &0, &mut Virtual::exact(&costs), Policy::Wait);
    let told = std::thread::scope(|scope| {
        let tuning = scope.spawn(ask);
        wait_begun.recv().unwrap();
        let Begun::Elsewhere(elsewhere) = tuner.begin(&set, &1, &0) else {
            panic!("somebody else is at it");
        };
        go.send(()).unwrap();
        let why = tuning.join().unwrap().unwrap_err();
        assert_eq!(elsewhere.wait(), Err(why.clone()));
        why
    });
    assert!(told.to_string().contains("it is broken"), "{told}");
    assert_eq!(tunings.load(Ordering::Relaxed), 1);
    assert_eq!(ask(), Err(told));
    assert_eq!(tunings.load(Ordering::Relaxed), 2);
}

/// I5: a candidate, or the maker of its inputs, that asks for the key which it is tried for would wait for itself.
#[test]
fn who_asks_for_the_key_that_it_is_tried_for_is_told_and_does_not_wait_i5() {
    let tuner = Tuner::<u32>::new();
    let asks = |tuner: &Tuner<u32>| {
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
    let maker = asks(&tuner);
    let set = TunableSet::new("asks for itself", move |_: &u32, inputs: &u32| {
        assert!(matches!(maker(*inputs), Err(TuneError::TunedHere { .. })));
        *inputs
    })
    .with(Tunable::new("asks", asks(&tuner)))
    .with(Tunable::new("does", |_: u32| Ok::<_, String>(7)));
    let costs = Arc::new(Costs::default());
    let mut measure = Virtual::exact(&costs);
    let answer = tuner.execute(&set, &1, 0, &mut measure, Policy::Wait);
    assert_eq!(answer, Ok(7));
    let outcome = tuner.outcome(&1).unwrap();
    let mut failed = outcome
        .candidates
        .iter()
        .filter_map(|one| one.result.clone().err());
    let why = failed.next().unwrap().to_string();
    assert!(why.contains("cannot wait for itself: use"), "{why}");
}

/// I5: of candidates that wait for each other's keys in a circle one is told, and all tunings end.
#[test]
fn who_would_wait_in_a_circle_is_told_i5() {
    const THREADS: u32 = 3;
    let (tuner, met) = (
        Tuner::<u32>::new(),
        Arc::new(Barrier::new(THREADS as usize)),
    );
    let told = Arc::new(AtomicU32::new(0));
    let tune = |key: u32| {
        let (inner, met, told) = (tuner.clone(), met.clone(), told.clone());
        let first = AtomicBool::new(true);
        let plain = |name| Tunable::new(name, |x: u32| Ok::<_, String>(x));
        let pair = move || {
            let set = TunableSet::new("set", |_: &u32, x: &u32| *x);
            set.with(plain("one")).with(plain("other"))
        };
        let asks = Tunable::new("one", move |x: u32| {
            // Each is at its own key, and asks for the next one's.
            if first.swap(false, Ordering::Relaxed) {
                met.wait();
            }
            let costs = Arc::new(Costs::default());
            let mut measure = Virtual::exact(&costs);
            let next = (key + 1) % THREADS;
            let asked = inner.choose(&pair(), &next, &x, &mut measure, Policy::Wait);
            let in_circle = matches!(asked, Err(TuneError::TunedHere { .. }));
            told.fetch_add(u32::from(in_circle), Ordering::Relaxed);
            asked.map(|_| x)
        });
        let set = TunableSet::new("set", |_: &u32, x: &u32| *x);
        let (set, costs) = (
            set.with(asks).with(plain("other")),
            Arc::new(Costs::default()),
        );
        let mut measure = Virtual::exact(&costs);
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
    assert_eq!(told.load(Ordering::Relaxed), 1);
}
