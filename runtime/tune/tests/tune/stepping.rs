//! Tuning on a driven device goes on between pumps, and never waits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_tune::{
    Begun, Chosen, Effort, Failure, Fastest, Identity, Measure, Policy, Progress, Store,
    StoreError, Tunable, TunableSet, TuneError, TuneGroup, Tuner,
};

use crate::support::{Costs, Virtual, timed};

/// Samples are over only once somebody has pumped.
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
        panic!("nobody may wait on a driven device");
    }
}

#[test]
fn a_driven_tuning_goes_on_between_pumps_i8() {
    let costs = Arc::new(Costs::default());
    let set = timed(&costs, &[300, 100]);
    let tuner = Tuner::new();
    let Begun::Tuning(mut tuning) = tuner.begin(&set, &1, &0) else {
        panic!("nobody else tunes it");
    };
    assert!(matches!(tuner.begin(&set, &1, &0), Begun::Elsewhere(_)));
    assert_eq!(tuner.fastest(&1), Fastest::Pending);
    let mut measure = Pumped {
        inner: Virtual::exact(&costs),
        pumped: false,
    };
    let mut pumps = 0;
    let choice = loop {
        match tuning.go_on(&set, &mut measure, false) {
            Progress::Going => {}
            Progress::Waiting => {
                measure.pumped = true;
                pumps += 1;
            }
            Progress::Done(done) => break done.unwrap(),
        }
    };
    assert_eq!((choice.index, choice.by), (1, Chosen::Tuned));
    assert!(pumps >= 8, "a pump for each sample: {pumps}");
    assert_eq!(tuner.fastest(&1), Fastest::Hit(1));
    assert!(matches!(tuner.begin(&set, &1, &0), Begun::Known(_)));
}

/// Bytes in memory, and how often they were written.
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
        // One thread: any order will do.
        self.times.fetch_add(1, Ordering::Relaxed);
        let mut bytes = self.bytes.lock().unwrap();
        *bytes = Some(change(bytes.take()));
        Ok(())
    }
}

/// No frame waits for a disk; what was found is kept once somebody has the time.
#[test]
fn what_is_tuned_without_waiting_is_stored_when_it_is_saved_i8() {
    let (store, identity) = (
        Written::default(),
        Identity {
            device: "any".into(),
            version: "1".into(),
        },
    );
    let open = || {
        let opened = Tuner::with_store(store.clone(), identity.clone(), Effort::default());
        opened.unwrap()
    };
    let costs = Arc::new(Costs::default());
    let set = timed(&costs, &[300, 100]);
    let mut measure = Virtual::exact(&costs);
    let (tuner, _) = open();
    let times = || store.times.load(Ordering::Relaxed);
    let tune = |key: u32, wait: bool, measure: &mut Virtual| {
        let Begun::Tuning(mut tuning) = tuner.begin(&set, &key, &0) else {
            panic!("nobody else tunes it");
        };
        while !matches!(tuning.go_on(&set, measure, wait), Progress::Done(_)) {}
    };
    tune(1, false, &mut measure);
    assert_eq!((tuner.fastest(&1), times()), (Fastest::Hit(1), 0));
    tuner.save().unwrap();
    assert_eq!((times(), open().1.choices), (1, 1));
    // Or along with one that is waited for.
    tune(2, false, &mut measure);
    tune(3, true, &mut measure);
    assert_eq!((times(), open().1.choices), (2, 3));
}

#[test]
fn one_candidate_is_not_tuned_on_a_driven_device_either() {
    let costs = Arc::new(Costs::default());
    let begun = Tuner::new().begin(&timed(&costs, &[300]), &1, &0);
    assert!(matches!(begun, Begun::Known(choice) if choice.by == Chosen::Alone));
}

/// Nobody waits in a circle for what a measure cannot wait for (I5).
#[test]
fn a_measure_that_knows_nothing_is_an_error_and_no_wait_i5() {
    let costs = Arc::new(Costs::default());
    assert!(Virtual::exact(&costs).wait().is_err());
}

/// I5: one that is given up is over.
#[test]
fn a_tuning_that_is_dropped_can_be_begun_anew_i5() {
    let costs = Arc::new(Costs::default());
    let set = timed(&costs, &[300, 100]);
    let tuner = Tuner::new();
    let begun = tuner.begin(&set, &1, &0);
    let Begun::Elsewhere(elsewhere) = tuner.begin(&set, &1, &0) else {
        panic!("it is under way");
    };
    drop(begun);
    elsewhere.wait().unwrap();
    assert_eq!(tuner.fastest(&1), Fastest::Miss);
    assert!(matches!(tuner.begin(&set, &1, &0), Begun::Tuning(_)));
}

/// I5: what is over is over for all, whatever becomes of the tuning itself; asked again, it says the same.
#[test]
fn a_tuning_that_is_over_is_so_before_it_is_dropped_i5() {
    let (costs, tuner) = (Arc::new(Costs::default()), Tuner::new());
    let mut clock = Virtual::exact(&costs);
    let fails = |name| Tunable::new(name, |_: u32| Err::<usize, _>("no room"));
    let level = TuneGroup::new(|_: &u32| 1);
    let broken = || TunableSet::new("broken", |_: &u32, x: &u32| *x);
    let broken = broken().with(fails("one")).with(fails("other"));
    let works = timed(&costs, &[300, 100]).with(fails("first").group(&level));
    for (set, key) in [(&broken, 1), (&works, 2)] {
        let Begun::Tuning(mut tuning) = tuner.begin(set, &key, &0) else {
            panic!("nobody else tunes it");
        };
        let mut over = || loop {
            if let Progress::Done(done) = tuning.go_on(set, &mut clock, true) {
                break done;
            }
        };
        let first = over();
        assert_eq!(over(), first);
        match first {
            Err(_) => assert_eq!(tuner.fastest(&key), Fastest::Miss),
            Ok(choice) => assert_eq!(tuner.fastest(&key), Fastest::Hit(choice.index)),
        }
    }
}

/// I5: a thread that goes on with a tuning between pumps does not wait for it anywhere else.
#[test]
fn who_tunes_a_key_step_by_step_is_told_where_it_would_wait_for_itself_i5() {
    let (costs, tuner) = (Arc::new(Costs::default()), Tuner::new());
    let set = timed(&costs, &[300, 100]);
    let begun = tuner.begin(&set, &1, &0);
    let mut clock = Virtual::exact(&costs);
    let choice = tuner.choose(&set, &1, &0, &mut clock, Policy::Wait);
    assert!(
        matches!(choice, Err(TuneError::TunedHere { .. })),
        "{choice:?}"
    );
    let choice = tuner.choose(&set, &1, &0, &mut clock, Policy::UseDefault);
    assert_eq!(choice.unwrap().by, Chosen::Default);
    drop(begun);
    let choice = tuner.choose(&set, &1, &0, &mut clock, Policy::Wait);
    assert_eq!(choice.unwrap().by, Chosen::Tuned);
}

#[test]
fn a_tuning_goes_on_with_the_candidates_that_it_was_begun_with() {
    let (costs, tuner) = (Arc::new(Costs::default()), Tuner::new());
    let (three, two) = (timed(&costs, &[3, 2, 1]), timed(&costs, &[3, 2]));
    let Begun::Tuning(mut tuning) = tuner.begin(&three, &1, &0) else {
        panic!("nobody else tunes it");
    };
    let mut clock = Virtual::exact(&costs);
    let done = tuning.go_on(&two, &mut clock, true);
    assert!(
        matches!(done, Progress::Done(Err(TuneError::OtherSet { .. }))),
        "{done:?}"
    );
    assert_eq!(tuner.fastest(&1), Fastest::Miss);
}
