//! A caller that is about to wait takes turns in place of the device thread, which the test plays, and leaves the rest to it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use millstream_client::arguments::{CubeCount, update};
use millstream_cpu::{Cpu, CpuDevice};
use millstream_protocol::{Error, Kernel};
use millstream_sim::Sim;

use super::*;
use crate::executor::device_thread::Rest;
use crate::executor::tests::Rig;

/// Far longer than any test here takes, so that a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// The memory of a device with little memory.
const MEMORY_BYTES: usize = 64 << 10;

/// Polls an answer and leaves the waker.
fn is_pending(answer: &mut (impl Future + Unpin), waker: &Waker) -> bool {
    let polled = std::pin::Pin::new(answer).poll(&mut Context::from_waker(waker));
    polled.is_pending()
}

#[test]
fn a_caller_that_waits_gets_its_answer_without_waking_the_device_thread() {
    let rig = Rig::open();
    let mut before = 0;
    for round in 0..50_u32 {
        if round == 2 {
            // The predictor has seen how these calls wait.
            rig.sleep();
            before = rig.wakes();
        }
        let data = rig.stream.create(&[0_u32; 4]).unwrap();
        rig.stream.fill(&data, round).unwrap();
        assert_eq!(rig.stream.read(&data).wait().unwrap(), [round; 4]);
    }
    assert_eq!(rig.wakes(), before, "the device thread was woken");
    // The callers also honoured the drops of the handles.
    assert!(!rig.executor.door.enter().has_work());
}

/// A backend need not ask for it.
#[test]
fn a_caller_of_any_backend_that_waits_wakes_no_device_thread() {
    let rig = Rig::open_as(Sim::seed(7));
    let mut before = 0;
    for round in 0..50 {
        if round == 2 {
            rig.sleep();
            before = rig.wakes();
        }
        rig.stream.sync().wait().unwrap();
    }
    assert_eq!(rig.wakes(), before);
}

#[test]
fn a_caller_that_does_not_wait_wakes_the_device_thread() {
    let rig = Rig::open();
    let data = rig.stream.create(&[1_u32; 4]).unwrap();
    let before = rig.wakes();
    rig.sleep();
    rig.stream.fill(&data, 7_u32).unwrap();
    assert_eq!(rig.wakes(), before + 1, "no wait was expected");
    rig.get_used_to_waits();
    let before = rig.wakes();
    for _ in 0..20 {
        rig.stream.fill(&data, 7_u32).unwrap();
    }
    assert_eq!(rig.wakes(), before + 1, "no wait has followed");
}

#[test]
fn user_code_runs_on_the_queues_worker_and_not_on_a_caller_that_steps_in() {
    let rig = Rig::open();
    let (ran, runs) = mpsc::channel::<ThreadId>();
    let kernel =
        Kernel::new("thread_id").native(move |_, _| ran.send(thread::current().id()).unwrap());
    let kernel = rig.client.kernel(kernel).unwrap();
    rig.get_used_to_waits();
    let data = rig.stream.create(&[1_u32; 4]).unwrap();
    for round in 0..20 {
        rig.stream.fill(&data, round).unwrap();
        rig.stream.launch(&kernel, CubeCount::single(), ()).unwrap();
        assert_eq!(rig.stream.read(&data).wait().unwrap(), [round; 4]);
        let thread = runs.recv_timeout(PATIENCE).unwrap();
        assert_ne!(thread, thread::current().id(), "a caller ran it");
    }
}

#[test]
fn a_caller_leaves_a_closing_device_to_its_thread() {
    let rig = Rig::open();
    rig.get_used_to_waits();
    let before = rig.wakes();
    rig.executor.door.enter().is_owner_due = false;
    rig.opened.running.begin_close(Instant::now() + PATIENCE);
    assert_eq!(rig.wakes(), before + 1);
    rig.arm();
    // The caller takes the close out of the channel, and so must hand it over.
    rig.executor.step_in_to_wait();
    assert_eq!(rig.wakes(), before + 2, "the device thread was not woken");
    assert!(rig.executor.door.enter().has_work());
    assert!(matches!(
        rig.executor.look_around(|| None),
        Rest::Finished | Rest::Idle(_)
    ));
}

#[test]
fn a_caller_leaves_a_timer_to_the_device_thread() {
    let cpu = Cpu::default()
        .queues(2)
        .threads(1)
        .memory_limit(MEMORY_BYTES as u64);
    let rig = Rig::open_as(cpu);
    // A task that has not ended uses all memory, so a task of another queue waits for memory.
    let all = rig.stream.empty::<u8>(MEMORY_BYTES).unwrap();
    let (open, opened) = mpsc::channel::<()>();
    rig.stream
        .with_resource::<Cpu>("valve", (update(&all),), move |_| {
            _ = opened.recv_timeout(PATIENCE);
        })
        .unwrap();
    drop(all);
    rig.sleep();
    let before = rig.wakes();
    let until = Instant::now() + PATIENCE;
    let late = rig.client.new_stream().with_deadline(until);
    let more = late.empty::<u8>(MEMORY_BYTES).unwrap();
    late.fill(&more, 7_u8).unwrap();
    let mut answer = late.sync();
    assert!(matches!(
        answer.wait_timeout(Duration::ZERO),
        Err(Error::TimedOut { .. })
    ));
    assert!(rig.wakes() > before, "the thread sleeps without a timer");
    assert!(rig.executor.door.enter().is_owner_due);
    let timer = loop {
        match rig.executor.look_around(|| None) {
            Rest::Busy => {}
            Rest::Idle(timer) => break timer,
            Rest::Finished => panic!("the device is not closed"),
        }
    };
    assert!(timer.is_some_and(|timer| timer <= until));
    open.send(()).unwrap();
    // No thread but this one runs the device.
    while answer.try_take().is_none() {
        assert!(Instant::now() < until, "the answer never arrives");
        rig.sleep();
        thread::yield_now();
    }
}

#[test]
fn a_caller_does_not_step_in_once_a_users_waker_is_registered() {
    let rig = Rig::open();
    rig.get_used_to_waits();
    let mut answer = rig.stream.sync();
    is_pending(&mut answer, Waker::noop());
    rig.sleep();
    let before = rig.wakes();
    rig.stream.flush().unwrap();
    assert_eq!(rig.wakes(), before + 1, "the caller stepped in");
}

/// Notes the thread that wakes it, as a waker that takes a lock of the caller would block there.
#[derive(Default)]
struct WokenBy(std::sync::Mutex<Vec<ThreadId>>);

impl Wake for WokenBy {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

/// I8: a user's waker that is registered while a caller steps in is woken by the device thread, since the caller may hold
/// a lock that the waker takes.
#[test]
fn a_caller_that_steps_in_wakes_no_waker_of_a_user_i8() {
    let rig = Rig::open();
    let data = rig.stream.create(&[1_u32; 4]).unwrap();
    rig.get_used_to_waits();
    let mut answer = {
        let _mark = mark_runtime_thread();
        rig.stream.read(&data)
    };
    let woken = Arc::new(WokenBy::default());
    let waker = Waker::from(woken.clone());
    assert!(is_pending(&mut answer, &waker));
    rig.arm();
    // As if the caller had begun to step in before the waker was registered.
    rig.executor.has_wakers.store(false, Ordering::SeqCst);
    let before = rig.wakes();
    rig.stream.flush().unwrap();
    assert!(woken.0.lock().unwrap().is_empty(), "the caller woke it");
    assert_eq!(rig.wakes(), before + 1, "the device thread was not woken");
    let executor = rig.executor.clone();
    let device_thread = thread::spawn(move || {
        while matches!(executor.look_around(|| None), Rest::Busy) {}
        thread::current().id()
    });
    let device_thread = device_thread.join().unwrap();
    assert_eq!(*woken.0.lock().unwrap(), [device_thread]);
}

/// I8: the device thread wakes users' wakers after it has left the device, so that a thread which enters the device with a
/// lock that the waker takes does not wait for it.
#[test]
fn users_wakers_are_woken_outside_of_the_device_i8() {
    struct Looks(std::sync::Weak<Executor<CpuDevice>>, AtomicU32);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            let executor = self.0.upgrade().unwrap();
            let is_free = executor.door.look().is_some();
            self.1
                .fetch_add(1 + 100 * u32::from(!is_free), Ordering::SeqCst);
        }
    }
    let rig = Rig::open();
    let data = rig.stream.create(&[1_u32; 4]).unwrap();
    let looks = Arc::new(Looks(Arc::downgrade(&rig.executor), AtomicU32::new(0)));
    let mut answer = {
        let _mark = mark_runtime_thread();
        rig.stream.read(&data)
    };
    let waker = Waker::from(looks.clone());
    assert!(is_pending(&mut answer, &waker));
    rig.sleep();
    assert_eq!(looks.1.load(Ordering::SeqCst), 1);
}

#[test]
fn a_thread_of_the_runtime_does_not_step_in() {
    let rig = Rig::open();
    rig.get_used_to_waits();
    let before = rig.wakes();
    let _mark = mark_runtime_thread();
    rig.stream.flush().unwrap();
    assert_eq!(rig.wakes(), before + 1, "the thread may be inside already");
}

#[test]
fn a_caller_that_finds_the_door_shut_does_not_wait() {
    let rig = Rig::open();
    rig.get_used_to_waits();
    let before = rig.wakes();
    let inside = rig.executor.door.enter();
    rig.stream.flush().unwrap();
    assert_eq!(rig.wakes(), before, "the thread inside looks around again");
    assert!(
        rig.executor.door.leave(inside),
        "the thread inside does not know that it must look again"
    );
}
