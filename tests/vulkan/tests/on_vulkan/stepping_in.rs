//! Callers that step in for the device thread: they submit their batches and wait for the driver themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use millstream::vulkan::Vulkan;
use millstream::{Handle, Stream, write};

use crate::gpu::{Buffers, Gpu};

/// Waits after a message, a few times, so that such a wait is expected.
fn get_used_to_waits(stream: &Stream, data: &Handle<u32>) {
    for round in 0..5 {
        stream.fill(data, round).unwrap();
        stream.sync().wait().unwrap();
    }
}

/// I8: the code of a custom task may take a lock that the caller of another request holds, so no caller runs it.
#[test]
fn no_caller_runs_the_code_of_a_custom_task_i8() {
    let Some(gpu) = Gpu::open_with_queues(Buffers::Descriptors, 1) else {
        return;
    };
    let data = gpu.stream.create(&[0_u32; 64]).unwrap();
    get_used_to_waits(&gpu.stream, &data);
    let lock = Arc::new(Mutex::new(()));
    let other = gpu.client.new_stream();
    for _ in 0..20 {
        let (sender, receiver) = mpsc::channel();
        let locked = lock.clone();
        let work = move |_: &millstream::vulkan::VulkanResources| {
            drop(locked.lock());
            sender.send(thread::current().id()).unwrap();
        };
        thread::scope(|scope| {
            let held = lock.lock();
            let task = scope.spawn(|| {
                let bindings = (write(&data),);
                other
                    .with_resource::<Vulkan>("lock", bindings, work)
                    .unwrap();
                thread::current().id()
            });
            // Requests while the lock is held, with the custom task before, between or after them.
            for value in 0..3 {
                gpu.stream.fill(&data, value).unwrap();
            }
            drop(held);
            let sent_by = task.join().unwrap();
            gpu.stream.sync().wait().unwrap();
            let ran_on = receiver.recv().unwrap();
            assert!(ran_on != sent_by && ran_on != thread::current().id());
        });
    }
}

/// I5: a caller that waits too long for its batch leaves it to the queue's thread, which completes it before later ones.
#[test]
fn batch_that_a_caller_gave_up_completes_before_later_ones_i5() {
    const LEN: usize = 4 << 20;
    let Some(gpu) = Gpu::open_with_queues(Buffers::Descriptors, 1) else {
        return;
    };
    let contents: Vec<u32> = (0..LEN as u32).collect();
    let large = gpu.stream.create(&contents).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let stream = gpu.client.new_stream();
            let small = stream.create(&[0_u32; 64]).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                stream.fill(&small, 1).unwrap();
                stream.sync().wait().unwrap();
                thread::yield_now();
            }
        });
        for _ in 0..30 {
            let got = gpu.stream.read(&large).wait();
            // Before an assertion that fails, so that the other thread ends.
            let is_right = got.as_ref().is_ok_and(|got| *got == contents);
            is_done.store(!is_right, Ordering::Relaxed);
            assert!(is_right, "{:?}", got.err());
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
