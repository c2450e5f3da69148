//! Tuning in the background.

use std::sync::Arc;
use std::time::Duration;

use millstream_actors::tuning::{Background, HostClock};
use millstream_tune::{Failure, Fastest, Measure, Policy, Tunable, TunableSet, Tuner};

use crate::support::{Costs, Virtual, timed};

#[test]
fn keys_are_tuned_on_the_background_thread_i8() {
    let costs = Arc::new(Costs::default());
    let set = Arc::new(timed(&costs, &[300, 100]));
    let tuner = Tuner::new();
    let background = Background::start(Virtual::exact(&costs)).unwrap();
    for key in 0..50 {
        assert!(background.tune(&tuner, &set, key, 0));
    }
    background.finish();
    for key in 0..50 {
        assert_eq!(tuner.fastest(&key), Fastest::Hit(1));
    }
}

/// I7, I12: a panic fails one key, and keys beyond the capacity are refused.
#[test]
fn the_thread_survives_keys_that_panic_and_refuses_keys_beyond_its_capacity_i7_i12() {
    let (go, wait_go) = std::sync::mpsc::channel::<()>();
    let wait_go = std::sync::Mutex::new(Some(wait_go));
    let set = Arc::new(
        TunableSet::new("set", move |key: &u32, inputs: &u32| {
            if *key == 0 {
                let gate = wait_go.lock().unwrap().take();
                gate.unwrap().recv().unwrap();
                panic!("no inputs");
            }
            *inputs
        })
        .with(Tunable::new("one", |x: u32| Ok::<_, String>(x)))
        .with(Tunable::new("other", |x: u32| Ok::<_, String>(x))),
    );
    let tuner = Tuner::new();
    let background = Background::start(HostClock::new()).unwrap();
    let accepted = (0..1000_u32).filter(|key| background.tune(&tuner, &set, *key, 0));
    let accepted = accepted.count();
    assert!(
        (256..=257).contains(&accepted),
        "{accepted} keys were accepted"
    );
    go.send(()).unwrap();
    background.finish();
    assert_eq!(tuner.fastest(&0), Fastest::Miss);
    assert!(matches!(tuner.fastest(&1), Fastest::Hit(_)));
    let choice = tuner.choose(&set, &999, &0, &mut HostClock::new(), Policy::UseDefault);
    assert_eq!(choice.unwrap().index, 0);
}

/// A measure that sends a message when it is dropped.
struct SendOnDrop(HostClock, std::sync::mpsc::Sender<()>);

impl Measure for SendOnDrop {
    fn clock(&self) -> &str {
        self.0.clock()
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        self.0.start(work)
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        self.0.poll()
    }
}

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        self.1.send(()).unwrap();
    }
}

/// I5: a job may hold the last reference to the thread. The thread does not join itself then, even if the job panics.
#[test]
fn a_thread_whose_last_reference_is_held_by_a_job_ends_without_deadlock_i5() {
    let (go, wait_go) = std::sync::mpsc::channel::<()>();
    let (dropped, wait_dropped) = std::sync::mpsc::channel::<()>();
    let background = Background::start(SendOnDrop(HostClock::new(), dropped)).unwrap();
    let background = Arc::new(background);
    let (reference, wait_go) = (background.clone(), std::sync::Mutex::new(wait_go));
    let set = TunableSet::new("set", move |_: &u32, _: &u32| {
        let _captured = &reference;
        wait_go.lock().unwrap().recv().unwrap();
        panic!("no inputs");
    });
    let set = set
        .with(Tunable::new("one", |x: u32| Ok::<_, String>(x)))
        .with(Tunable::new("other", |x: u32| Ok::<_, String>(x)));
    let tuner = Tuner::new();
    assert!(background.tune(&tuner, &Arc::new(set), 1, 0));
    drop(background);
    go.send(()).unwrap();
    wait_dropped.recv().unwrap();
    assert_eq!(tuner.fastest(&1), Fastest::Miss);
}
