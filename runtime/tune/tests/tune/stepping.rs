//! Tuning on a driven device advances between pumps, and never waits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_tune::{
    Begun, Chosen, Effort, Failure, Fastest, Identity, Measure, Policy, Progress, Store,
    StoreError, Tunable, TunableSet, TuneError, Tuner,
};

use crate::support::{Rig, Virtual, begin};

/// A sample completes only after a pump.
struct Pumped {
    inner: Virtual,
    pumped: bool,
}

impl Measure for Pumped {
    fn clock(&self) -> &str {
        "a pumped clock"
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        self.pumped = false;
        self.inner.start(work)
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        match self.pumped {
            true => self.inner.poll(),
            false => Ok(None),
        }
    }

    fn wait(&mut self) -> Result<Duration, Failure> {
        panic!("no thread may wait on a driven device");
    }
}

#[test]
fn driven_tuning_advances_between_pumps_i8() {
    let Rig {
        set, tuner, clock, ..
    } = Rig::new(&[300, 100]);
    let mut tuning = begin(&tuner, &set, 1);
    assert!(matches!(tuner.begin(&set, &1, &0), Begun::Elsewhere(_)));
    assert_eq!(tuner.fastest(&1), Fastest::Pending);
    let mut measure = Pumped {
        inner: clock,
        pumped: false,
    };
    let mut pumps = 0;
    let choice = loop {
        match tuning.advance(&set, &mut measure, false) {
            Progress::Going => {}
            Progress::Waiting => {
                measure.pumped = true;
                pumps += 1;
            }
            Progress::Done(done) => break done.unwrap(),
        }
    };
    assert_eq!((choice.index, choice.by), (1, Chosen::Tuned));
    assert!(pumps >= 8, "each sample needs a pump: {pumps}");
    assert_eq!(tuner.fastest(&1), Fastest::Hit(1));
    assert!(matches!(tuner.begin(&set, &1, &0), Begun::Known(_)));
}

/// A store in memory that counts its updates.
#[derive(Clone, Default)]
struct Written {
    bytes: Arc<Mutex<Option<Vec<u8>>>>,
    times: Arc<AtomicU32>,
}

impl Store for Written {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn load(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.bytes.lock().unwrap().clone())
    }

    fn update(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Vec<u8>) -> Result<(), StoreError> {
        // One thread: any ordering suffices.
        self.times.fetch_add(1, Ordering::Relaxed);
        let mut bytes = self.bytes.lock().unwrap();
        *bytes = Some(change(bytes.take()));
        Ok(())
    }
}

/// I8: no frame waits for a disk; the choice is saved by a later call.
#[test]
fn choice_tuned_without_waiting_is_stored_by_a_save_i8() {
    let store = Written::default();
    let identity = Identity {
        device: "any".into(),
        version: "1".into(),
    };
    let open = || {
        let opened = Tuner::with_store(store.clone(), identity.clone(), Effort::default());
        opened.unwrap()
    };
    let Rig { set, mut clock, .. } = Rig::new(&[300, 100]);
    let (tuner, _) = open();
    let times = || store.times.load(Ordering::Relaxed);
    let tune = |key: u32, wait: bool, measure: &mut Virtual| {
        let mut tuning = begin(&tuner, &set, key);
        while !matches!(tuning.advance(&set, measure, wait), Progress::Done(_)) {}
    };
    tune(1, false, &mut clock);
    assert_eq!((tuner.fastest(&1), times()), (Fastest::Hit(1), 0));
    tuner.save().unwrap();
    assert_eq!((times(), open().1.choices), (1, 1));
    // It is also stored together with a choice that is waited for.
    tune(2, false, &mut clock);
    tune(3, true, &mut clock);
    assert_eq!((times(), open().1.choices), (2, 3));
}

#[test]
fn only_candidate_is_not_tuned_on_a_driven_device() {
    let rig = Rig::new(&[300]);
    let begun = rig.tuner.begin(&rig.set, &1, &0);
    assert!(matches!(begun, Begun::Known(choice) if choice.by == Chosen::Alone));
}

/// I5: the default `wait` returns an error instead of waiting for a measurement that it cannot wait for.
#[test]
fn default_wait_without_a_measurement_is_an_error_i5() {
    assert!(Rig::new(&[]).clock.wait().is_err());
}

/// I5: a dropped tuning has ended.
#[test]
fn dropped_tuning_can_be_begun_again_i5() {
    let Rig { set, tuner, .. } = Rig::new(&[300, 100]);
    let begun = tuner.begin(&set, &1, &0);
    let Begun::Elsewhere(elsewhere) = tuner.begin(&set, &1, &0) else {
        panic!("the key is being tuned");
    };
    drop(begun);
    elsewhere.wait().unwrap();
    assert_eq!(tuner.fastest(&1), Fastest::Miss);
    assert!(matches!(tuner.begin(&set, &1, &0), Begun::Tuning(_)));
}

/// I5: a tuning has ended for all callers before it is dropped, and returns its result again.
#[test]
fn tuning_has_ended_for_all_before_it_is_dropped_i5() {
    let rig = Rig::new(&[300, 100]);
    let (tuner, mut clock) = (rig.tuner, rig.clock);
    let fails = |name| Tunable::new(name, |_: u32| Err::<usize, _>("no room"));
    let broken = || TunableSet::new("broken", |_: &u32, x: &u32| *x);
    let broken = broken().with(fails("one")).with(fails("other"));
    let works = rig.set.with(fails("first"));
    for (set, key) in [(&broken, 1), (&works, 2)] {
        let mut tuning = begin(&tuner, set, key);
        let mut finish = || loop {
            if let Progress::Done(done) = tuning.advance(set, &mut clock, true) {
                break done;
            }
        };
        let first = finish();
        assert_eq!(finish(), first);
        match first {
            Err(_) => assert_eq!(tuner.fastest(&key), Fastest::Miss),
            Ok(choice) => assert_eq!(tuner.fastest(&key), Fastest::Hit(choice.index)),
        }
    }
}

/// I5: a thread that advances a tuning between pumps gets an error where it would wait for that tuning.
#[test]
fn thread_that_tunes_a_key_cannot_wait_for_it_i5() {
    let mut rig = Rig::new(&[300, 100]);
    let begun = rig.tuner.begin(&rig.set, &1, &0);
    let choice = rig.choose(Policy::Wait);
    assert!(
        matches!(choice, Err(TuneError::WouldDeadlock { .. })),
        "{choice:?}"
    );
    let choice = rig.choose(Policy::UseDefault);
    assert_eq!(choice.unwrap().by, Chosen::Default);
    drop(begun);
    assert_eq!(rig.choose(Policy::Wait).unwrap().by, Chosen::Tuned);
}

#[test]
fn tuning_continues_only_with_the_set_that_it_was_begun_with() {
    let (tuner, mut three, two) = (Tuner::new(), Rig::new(&[3, 2, 1]), Rig::new(&[3, 2]));
    let mut tuning = begin(&tuner, &three.set, 1);
    let done = tuning.advance(&two.set, &mut three.clock, true);
    assert!(
        matches!(done, Progress::Done(Err(TuneError::OtherSet { .. }))),
        "{done:?}"
    );
    assert_eq!(tuner.fastest(&1), Fastest::Miss);
}
