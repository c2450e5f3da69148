//! An engine that provides the threads of a device (`DeviceOptions::spawn_with`), for tests of such devices.
#![allow(dead_code, reason = "shared by several test binaries")]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream::{
    Cpu, CubeCount, Device, DeviceOptions, Kernel,
    device::{ThreadBody, ThreadRole},
    update,
};

/// A time limit far above any wait of these tests. A wait that would never end fails the test instead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The reaction of an engine to a request for a thread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Answer {
    /// Runs the body on a new thread.
    Start,
    /// Returns an error.
    Refuse,
    /// Panics.
    Panic,
    /// Drops the body and returns `Ok`.
    Forget,
    /// Runs the body on the calling thread.
    RunInPlace,
    /// Runs the body on a new thread and returns an error.
    StartAndRefuse,
}

/// An engine that starts threads, and that a test can make react otherwise at any request.
#[derive(Default)]
pub(crate) struct Engine {
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    roles: Mutex<Vec<ThreadRole>>,
    asked: AtomicUsize,
}

impl Engine {
    /// Returns options whose `spawn_with` reacts to the nth request, counted from 0, as `answer` says.
    pub(crate) fn options(
        self: &Arc<Self>,
        answer: impl Fn(usize) -> Answer + Send + Sync + 'static,
    ) -> DeviceOptions {
        let engine = self.clone();
        DeviceOptions::default().spawn_with(move |body| {
            let call = engine.asked.fetch_add(1, Ordering::Relaxed);
            match answer(call) {
                Answer::Start => engine.start(body),
                Answer::Refuse => Err(io::Error::other("all workers are busy")),
                Answer::Panic => panic!("the job system has ended"),
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
                    Err(io::Error::other("the thread was refused"))
                }
            }
        })
    }

    /// Runs the body on a new thread.
    pub(crate) fn start(&self, body: ThreadBody) -> io::Result<()> {
        self.roles.lock().unwrap().push(body.role());
        let thread = std::thread::Builder::new().name("engine".into());
        let thread = thread.spawn(move || body.run())?;
        self.threads.lock().unwrap().push(thread);
        Ok(())
    }

    /// Returns the number of requests.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the number of started threads with this role.
    pub(crate) fn count(&self, role: ThreadRole) -> usize {
        let roles = self.roles.lock().unwrap();
        roles.iter().filter(|one| **one == role).count()
    }

    /// Joins all threads, and panics if a body has not returned within [`PATIENCE`].
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
            .expect("a thread of the device has not ended");
    }
}

/// Returns the names of the threads of this process, or nothing without `/proc`.
pub(crate) fn names() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let mut names: Vec<_> = tasks.flatten().filter_map(name).collect();
    names.sort();
    names
}

/// Returns a CPU with two queues and three threads.
pub(crate) fn cpu() -> Cpu {
    Cpu::default().queues(2).threads(3)
}

/// Makes a device use every kind of thread: queues, the team for cubes, host functions that block, callbacks, the GC
/// thread.
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
            // Three host functions at a time need two more threads than there are at first.
            let meet = move || {
                together.wait();
            };
            stream.host("meet", (), meet).unwrap();
            stream.drop_after(vec![1_u8; 100]).unwrap();
            values
        })
        .collect();
    let (sender, answers) = mpsc::channel();
    for (stream, values) in streams.iter().zip(&values) {
        let sender = sender.clone();
        stream
            .read(values)
            .on_ready(move |answer| sender.send(answer).unwrap())
            .unwrap();
    }
    for _ in 0..3 {
        let answer = answers.recv_timeout(PATIENCE).unwrap().unwrap();
        assert!(answer.iter().all(|value| *value == 2));
    }
}
