//! An engine with threads of its own, for tests of devices that run on them.
#![allow(dead_code, reason = "shared by several test binaries")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream::{Cpu, CubeCount, Device, DeviceOptions, Kernel, ThreadBody, ThreadRole, update};

/// Far longer than anything here takes: a test that is about to hang fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What an engine does with the body that it is asked to give a thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Answer {
    Start,
    Refuse,
    Panic,
    Forget,
    RunInPlace,
    /// Starts it and says that it did not.
    StartAndRefuse,
}

/// An engine with threads of its own, which answers otherwise at one of the calls, or from there on.
#[derive(Default)]
pub(crate) struct Engine {
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    roles: Mutex<Vec<ThreadRole>>,
    asked: AtomicUsize,
}

impl Engine {
    pub(crate) fn options(
        self: &Arc<Self>,
        answer: impl Fn(usize) -> Answer + Send + Sync + 'static,
    ) -> DeviceOptions {
        let engine = self.clone();
        DeviceOptions::default().spawn_with(move |body| {
            let call = engine.asked.fetch_add(1, Ordering::Relaxed);
            match answer(call) {
                Answer::Start => engine.start(body),
                Answer::Refuse => Err(io::Error::other("all workers are taken")),
                Answer::Panic => panic!("the job system is gone"),
                Answer::Forget => {
                    drop(body);
                    Ok(())
                }
                Answer::RunInPlace => {
                    body.run();
                    Ok(())
                }
                Answer::StartAndRefuse => {
                    let (begin, begun) = mpsc::channel();
                    let role = body.role();
                    engine.roles.lock().unwrap().push(role);
                    let thread = std::thread::Builder::new().name("engine".into());
                    let thread = thread.spawn(move || {
                        begin.send(()).unwrap();
                        body.run();
                    })?;
                    begun.recv().unwrap();
                    engine.threads.lock().unwrap().push(thread);
                    Err(io::Error::other("no"))
                }
            }
        })
    }

    pub(crate) fn start(&self, body: ThreadBody) -> io::Result<()> {
        self.roles.lock().unwrap().push(body.role());
        let thread = std::thread::Builder::new().name("engine".into());
        let thread = thread.spawn(move || body.run())?;
        self.threads.lock().unwrap().push(thread);
        Ok(())
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, role: ThreadRole) -> usize {
        let roles = self.roles.lock().unwrap();
        roles.iter().filter(|one| **one == role).count()
    }

    /// Joins its threads: a body that has not returned would keep this.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap());
        let (done, all) = mpsc::channel();
        std::thread::spawn(move || {
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            done.send(()).unwrap();
        });
        all.recv_timeout(PATIENCE)
            .expect("a thread of the device goes on");
    }
}

/// Names of the threads of this process, where they can be known.
pub(crate) fn names() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let mut names: Vec<_> = tasks.flatten().filter_map(name).collect();
    names.sort();
    names
}

pub(crate) fn cpu() -> Cpu {
    Cpu::default().queues(2).threads(3)
}

/// Uses every kind of thread: queues, cubes, user code that blocks, callbacks, the collector.
pub(crate) fn use_everything(device: &Device) {
    let client = device.new_client();
    let kernel = Kernel::new("add").updates::<u32>("v").native(|_, args| {
        args.chunk::<u32>(0)
            .iter_mut()
            .for_each(|value| *value += 1);
    });
    let kernel = client.kernel(kernel).unwrap();
    let together = Arc::new(Barrier::new(3));
    let streams: Vec<_> = (0..3).map(|_| client.new_stream()).collect();
    let values: Vec<_> = streams
        .iter()
        .map(|stream| {
            let values = stream.create(&vec![1_u32; 64 << 10]).unwrap();
            stream
                .launch(&kernel, CubeCount::d1(64), (update(&values),))
                .unwrap();
            let together = together.clone();
            // Three at a time: two threads more than there are from the start.
            let meet = move || {
                together.wait();
            };
            stream.host("meet", (), meet).unwrap();
            stream.drop_after(vec![1_u8; 100]).unwrap();
            values
        })
        .collect();
    let (tell, told) = mpsc::channel();
    for (stream, values) in streams.iter().zip(&values) {
        let tell = tell.clone();
        stream
            .read(values)
            .on_ready(move |answer| tell.send(answer).unwrap())
            .unwrap();
    }
    for _ in 0..3 {
        let answer = told.recv_timeout(PATIENCE).unwrap().unwrap();
        assert!(answer.iter().all(|value| *value == 2));
    }
}
