//! The guarantees of a device in a user's model: the same as elsewhere, no less and no more.

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use millstream::{
    Access, Cpu, CubeCount, Device, Error, Kernel, error::MemoryError, sim::Sim, update,
};
use millstream_loom::Payload;

fn open() -> Device {
    Device::open(Sim::seed(3)).unwrap()
}

/// I1: what happens before a send happens before what a thread does after it has seen the result.
#[test]
fn writes_before_a_send_are_visible_after_a_wait() {
    loom::model(|| {
        let device = open();
        let stream = device.new_client().new_stream();
        let sum = stream.create(&[0_u32]).unwrap();
        let note = Arc::new(Payload::new(0));
        let (theirs, client, shared) = (note.clone(), device.new_client(), sum.clone());
        let writing = thread::spawn(move || {
            theirs.set(1);
            client.new_stream().fill(&shared, 1).unwrap();
        });
        if stream.read(&sum).wait().unwrap() == [1] {
            assert_eq!(note.get(), 1);
        }
        writing.join().unwrap();
    });
}

/// Two threads that both send are not ordered by it: a model that hid this would hide bugs.
#[test]
#[should_panic(expected = "Causality violation")]
fn two_sends_order_no_threads() {
    loom::model(|| {
        let device = open();
        let sum = device.new_client().new_stream().create(&[0_u32]).unwrap();
        let note = Arc::new((Payload::new(0), AtomicUsize::new(0)));
        let (theirs, client, shared) = (note.clone(), device.new_client(), sum.clone());
        let writing = thread::spawn(move || {
            theirs.0.set(1);
            client.new_stream().fill(&shared, 1).unwrap();
            theirs.1.store(1, Ordering::Relaxed);
        });
        // The other send came first, as we read without ordering; we have not waited for it.
        if note.1.load(Ordering::Relaxed) == 1 {
            device.new_client().new_stream().fill(&sum, 2).unwrap();
            let _ = note.0.get();
        }
        writing.join().unwrap();
    });
}

/// I5: a future is woken without a pump, whichever thread sends its task.
#[test]
fn a_future_completes_without_a_pump() {
    loom::model(|| {
        let device = open();
        let client = device.new_client();
        let reading = thread::spawn(move || {
            let stream = client.new_stream();
            let values = stream.create(&[5_u32]).unwrap();
            loom::future::block_on(stream.read(&values)).unwrap()
        });
        assert_eq!(reading.join().unwrap(), [5]);
    });
}

/// I5: a callback runs without a pump, and so does code outside of the library that waits for it.
#[test]
fn a_callback_runs_without_a_pump() {
    loom::model(|| {
        let device = open();
        let stream = device.new_client().new_stream();
        let called = Arc::new(loom::sync::Notify::new());
        let call = called.clone();
        let requesting = thread::spawn(move || {
            let answer = stream.sync();
            answer.on_ready(move |_| call.notify()).unwrap();
        });
        called.wait();
        requesting.join().unwrap();
    });
}

/// I5, I6: host functions run, and waits for them end, even if another thread than the waiting one
/// runs them.
#[test]
fn a_host_function_runs_once_and_before_waits_for_it_end() {
    loom::model(|| {
        let device = open();
        let count = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (stream, count) = (device.new_client().new_stream(), count.clone());
                thread::spawn(move || {
                    let counted = count.clone();
                    let function = move || _ = counted.fetch_add(1, Ordering::Relaxed);
                    stream.host("count", (), function).unwrap();
                    stream.sync().wait().unwrap();
                    assert!(count.load(Ordering::Relaxed) >= 1);
                })
            })
            .collect();
        threads.into_iter().for_each(|each| each.join().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 2);
    });
}

/// A limit is reached or not, depending on whether the other thread has dropped its memory; the
/// model explores both.
#[test]
fn both_outcomes_at_a_limit_are_explored() {
    let (met, unmet) = (flag(), flag());
    let (saw_met, saw_unmet) = (met.clone(), unmet.clone());
    loom::model(move || {
        let device = open();
        let client = device.client_builder().hard_limit(8_192).build();
        let (stream, other) = (client.new_stream(), client.new_stream());
        let held = stream.create(&[1_u32; 2_000]).unwrap();
        let dropping = thread::spawn(move || {
            stream.sync().wait().unwrap();
            drop(held);
        });
        match other.empty::<u32>(2_000) {
            Ok(_) => set(&saw_unmet),
            Err(Error::Memory(MemoryError::Limit { .. })) => set(&saw_met),
            Err(error) => panic!("{error}"),
        }
        dropping.join().unwrap();
    });
    assert!(is_set(&met) && is_set(&unmet));
}

/// I10: every request concurrent with a close returns its value or the error of the close.
#[test]
fn a_close_answers_concurrent_requests() {
    loom::model(|| {
        let device = open();
        let stream = device.new_client().new_stream();
        let requesting = thread::spawn(move || match stream.create(&[1_u32]) {
            Ok(values) => match stream.read(&values).wait() {
                Ok(read) => assert_eq!(read, [1]),
                Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
            },
            Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
        });
        device.close(Duration::from_secs(1));
        requesting.join().unwrap();
    });
}

/// A user's own mistake is reported as loom reports it: here two threads wait for each other
/// through the device.
#[test]
#[should_panic(expected = "deadlock")]
fn two_threads_that_wait_for_each_other_are_a_deadlock() {
    loom::model(|| {
        let device = Device::open(Cpu::default()).unwrap();
        let stream = device.new_client().new_stream();
        let values = stream.create(&[1_u32]).unwrap();
        let bindings = [(&values, Access::ReadWrite)];
        let guard = stream.get_resource::<Cpu>(&bindings[..]).wait().unwrap();
        let (reader, copy) = (device.new_client().new_stream(), values.clone());
        let reading = thread::spawn(move || reader.read(&copy).wait().unwrap());
        reading.join().unwrap();
        drop(guard);
    });
}

/// A kernel may access loom's types: it runs between its send and the end of a wait for it.
#[test]
fn a_kernel_runs_after_its_send_and_before_its_wait_ends() {
    loom::model(|| {
        let device = open();
        let client = device.new_client();
        let note = std::sync::Arc::new(Payload::new(1));
        let seen = note.clone();
        let kernel = Kernel::new("note").updates::<u32>("values");
        let kernel = kernel.native(move |_, _| seen.set(seen.get() + 1));
        let kernel = client.kernel(kernel).unwrap();
        let stream = client.new_stream();
        let values = stream.create(&[0_u32]).unwrap();
        note.set(10);
        let (theirs, shared) = (client.new_stream(), values.clone());
        let launch = move || {
            let arguments = (update(&shared),);
            theirs.launch(&kernel, CubeCount::single(), arguments)?;
            theirs.sync().wait()
        };
        let launching = thread::spawn(move || launch().unwrap());
        stream.sync().wait().unwrap();
        launching.join().unwrap();
        assert_eq!(note.get(), 11);
    });
}

/// Whether something was seen in any execution; loom does not track it.
type Flag = std::sync::Arc<std::sync::atomic::AtomicBool>;

fn flag() -> Flag {
    Flag::default()
}

fn set(flag: &Flag) {
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
}

fn is_set(flag: &Flag) -> bool {
    flag.load(std::sync::atomic::Ordering::Relaxed)
}

/// I12: a wait for room ends without a pump, even beside a future of another thread that is dropped
/// while it waits.
#[test]
fn awaited_room_comes_without_a_pump() {
    loom::model(|| {
        let device = open();
        let client = device.client_builder().max_tasks(2).build();
        let stream = client.new_stream();
        let values = stream.create(&[0_u32]).unwrap();
        let (theirs, shared) = (stream.clone(), values.clone());
        let filling = thread::spawn(move || {
            let mut gone = Box::pin(theirs.when_ready(|stream| stream.fill(&shared, 1)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = gone.as_mut().poll(&mut context);
        });
        let filled = stream.when_ready(|stream| stream.fill(&values, 2));
        loom::future::block_on(filled).unwrap();
        filling.join().unwrap();
        loom::future::block_on(stream.sync()).unwrap();
    });
}
