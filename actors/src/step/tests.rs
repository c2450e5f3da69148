//! Which thread begins a task at once, and which goes on with its device when it ends. The test plays the threads of the
//! devices: they sleep at their gates, and each wake is counted.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use millstream_client::arguments::update;
use millstream_client::handle::Handle;
use millstream_client::{ExternalTask, Helper};
use millstream_protocol::{Error, Job};

use crate::executor;

/// A device whose callers are expected to wait after two messages.
struct Rig {
    device: executor::tests::Rig,
    data: Handle<u32>,
}

impl std::ops::Deref for Rig {
    type Target = executor::tests::Rig;

    fn deref(&self) -> &Self::Target {
        &self.device
    }
}

impl Rig {
    fn open() -> Self {
        let device = executor::tests::Rig::open();
        let data = device.stream.create(&[0_u32; 4]).unwrap();
        device.get_used_to_waits();
        Self { device, data }
    }

    fn submit(
        &self,
        begin: impl FnOnce(Result<ExternalTask, Error>) -> Option<Job> + Send + 'static,
    ) {
        let sent = self
            .stream
            .external_at_once("at once", update(&self.data), begin);
        sent.map_err(|returned| returned.error).unwrap();
    }
}

/// Where a task waits for its end.
type Place = Arc<Mutex<Option<ExternalTask>>>;

fn keep_in(place: &Place) -> impl FnOnce(Result<ExternalTask, Error>) -> Option<Job> + use<> {
    let place = place.clone();
    move |task| {
        *place.lock().unwrap() = Some(task.unwrap());
        None
    }
}

#[test]
fn a_task_begins_and_ends_on_the_caller_and_wakes_no_thread() {
    let rig = Rig::open();
    let before = rig.wakes();
    let threads: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    for _ in 0..10 {
        let threads = threads.clone();
        rig.submit(move |task| {
            threads.lock().unwrap().push(thread::current().id());
            task.unwrap().complete();
            None
        });
        rig.stream.sync().wait().unwrap();
    }
    assert_eq!(rig.wakes(), before, "the device thread was woken");
    let caller = thread::current().id();
    assert_eq!(*threads.lock().unwrap(), [caller; 10]);
}

/// A step at one device ends tasks of both, in either order.
#[test]
fn tasks_of_two_devices_that_end_together_wake_no_thread() {
    let rigs = [Rig::open(), Rig::open()];
    let before = rigs.each_ref().map(|rig| rig.wakes());
    for round in 0..10 {
        let (first, second) = (&rigs[round % 2], &rigs[1 - round % 2]);
        let place = Place::default();
        first.submit(keep_in(&place));
        second.submit(move |task| {
            place.lock().unwrap().take().unwrap().complete();
            task.unwrap().complete();
            None
        });
        for rig in &rigs {
            rig.stream.sync().wait().unwrap();
        }
    }
    assert_eq!(rigs.each_ref().map(|rig| rig.wakes()), before);
}

/// A thread of a device does not turn another one.
#[test]
fn a_device_thread_that_ends_the_task_of_another_device_wakes_its_thread() {
    let (one, other) = (Rig::open(), Rig::open());
    let place = Place::default();
    other.submit(keep_in(&place));
    other.sleep();
    let (before, kept) = (other.wakes(), place.clone());
    let ends = move |task: Result<ExternalTask, Error>| -> Option<Job> {
        place.lock().unwrap().take().unwrap().complete();
        task.unwrap().complete();
        None
    };
    // Without an expected wait the task is left to the device thread.
    for _ in 0..20 {
        one.stream.fill(&one.data, 7_u32).unwrap();
    }
    one.submit(ends);
    assert_eq!(other.wakes(), before);
    let _mark = millstream_protocol::marks::mark_runtime_thread();
    // The task begins once the worker has run what is before it.
    while kept.lock().unwrap().is_some() {
        one.sleep();
        thread::yield_now();
    }
    assert_eq!(other.wakes(), before + 1);
}

/// A thread that does not finish its step at one device steps in at no other.
#[test]
fn a_step_that_leaves_a_rest_wakes_the_thread_of_another_device() {
    let (one, other) = (Rig::open(), Rig::open());
    let place = Place::default();
    other.submit(keep_in(&place));
    other.sleep();
    let before = other.wakes();
    let turns = || {
        let task = place.lock().unwrap().take();
        task.unwrap().complete();
        assert_eq!(other.wakes(), before, "inside a device");
        false
    };
    assert!(!super::step_in(&one.executor.gate, turns));
    assert_eq!(other.wakes(), before + 1);
}

#[test]
fn the_rest_of_a_task_runs_on_a_thread_for_user_code() {
    let rig = Rig::open();
    let (sender, receiver) = std::sync::mpsc::channel();
    rig.submit(move |task| {
        Some(Box::new(move || {
            let name = thread::current().name().map(str::to_owned);
            task.unwrap().complete();
            sender.send(name).unwrap();
        }))
    });
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("millstream-host"));
    rig.sleep();
    rig.stream.sync().wait().unwrap();
}

#[test]
fn a_panic_of_the_code_that_begins_a_task_fails_it_alone() {
    let rig = Rig::open();
    rig.submit(|_task| panic!("it cannot"));
    let error = rig.stream.read(&rig.data).wait().unwrap_err();
    assert!(error.to_string().contains("it cannot"), "{error}");
    rig.stream.fill(&rig.data, 1_u32).unwrap();
    assert_eq!(rig.stream.read(&rig.data).wait().unwrap(), [1; 4]);
}

/// The thread of a device that was closed too early for a task waits for the end of that task, to free its memory.
#[test]
fn the_end_of_a_task_wakes_the_thread_of_a_closed_device() {
    let rig = Rig::open();
    let place = Place::default();
    rig.submit(keep_in(&place));
    rig.sleep();
    let task = place.lock().unwrap().take().unwrap();
    let closed = rig.executor.take();
    rig.arm();
    let before = rig.wakes();
    task.complete();
    assert_eq!(rig.wakes(), before + 1);
    drop(closed);
}

/// The caller ends the task that it waits for.
#[test]
fn a_thread_that_waits_helps_and_wakes_no_thread() {
    let rig = Rig::open();
    let place = Place::default();
    let ended = place.clone();
    let helper: Arc<Helper> = Arc::new(move |done: &mut dyn FnMut() -> bool| {
        let task = ended.lock().unwrap().take();
        if let Some(task) = task {
            task.complete();
            assert!(done(), "the answer has arrived");
        }
    });
    assert!(rig.stream.set_helper(Arc::downgrade(&helper)));
    let before = rig.wakes();
    for _ in 0..10 {
        rig.submit(keep_in(&place));
        rig.stream.sync().wait().unwrap();
    }
    assert_eq!(rig.wakes(), before);
    drop(helper);
    assert!(
        rig.stream
            .set_helper(Weak::<fn(&mut dyn FnMut() -> bool)>::new())
    );
    rig.stream.sync().wait().unwrap();
}
