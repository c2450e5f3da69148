//! Threads that send requests to a device; each request returns its value, or the error of a device
//! that is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millstream::{ComputeClient, CubeCount, Error, Kernel, read, update};
use millstream_sync::facade::thread::{JoinHandle, spawn};

use crate::rig::choose;

/// Counts accepted and executed user code. A walk's threads are one thread of the system, so
/// Relaxed suffices.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<(AtomicU32, AtomicU32)>);

impl Jobs {
    pub(crate) fn accept(&self) {
        self.0.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn run(&self) {
        self.0.1.fetch_add(1, Relaxed);
    }

    /// Returns how many jobs were accepted and how many ran.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.0.0.load(Relaxed), self.0.1.load(Relaxed))
    }
}

/// The user code that the callers have submitted.
#[derive(Clone, Default)]
pub(crate) struct Submitted {
    pub(crate) kernels: Jobs,
    pub(crate) host: Jobs,
    pub(crate) callbacks: Jobs,
}

impl Submitted {
    /// I6: everything that was accepted ran exactly once.
    pub(crate) fn assert_all_ran(&self) {
        for jobs in [&self.kernels, &self.host, &self.callbacks] {
            let (accepted, ran) = jobs.counts();
            assert_eq!(accepted, ran, "accepted jobs, and jobs that ran");
        }
    }

    /// I5: all callbacks were called, even by a lost device, which may skip kernels and host functions.
    pub(crate) fn assert_all_answered(&self) {
        let (owed, called) = self.callbacks.counts();
        assert_eq!(
            owed, called,
            "accepted callbacks, and callbacks that were called"
        );
        for jobs in [&self.kernels, &self.host] {
            let (accepted, ran) = jobs.counts();
            assert!(ran <= accepted, "{ran} of {accepted} ran");
        }
    }
}

/// One thread's sequence of requests.
pub(crate) type Requests = fn(&ComputeClient, &Submitted) -> Result<(), Error>;

/// All sequences of requests.
pub(crate) const REQUESTS: [Requests; 3] = [launches, callbacks, futures];

/// Starts a thread for each sequence of requests. Each thread drops its client itself. If a request
/// fails, `is_gone` must return `true` for the error.
pub(crate) fn start(
    client: &ComputeClient,
    submitted: &Submitted,
    rounds: usize,
    is_gone: impl Fn(&Error) -> bool + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let start = |requests: Requests| {
        let (client, submitted, is_gone) = (client.clone(), submitted.clone(), is_gone.clone());
        spawn(move || {
            for _ in 0..rounds {
                if let Err(error) = requests(&client, &submitted) {
                    assert!(is_gone(&error), "I5: a request failed with {error:?}");
                }
            }
        })
    };
    REQUESTS.map(start).into()
}

pub(crate) fn join(threads: Vec<JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Launches kernels and waits for them; in half of the schedules with a profile open.
pub(crate) fn launches(client: &ComputeClient, submitted: &Submitted) -> Result<(), Error> {
    let jobs = submitted.kernels.clone();
    let add_one = Kernel::new("add_one")
        .updates::<u32>("values")
        .native(move |_, args| {
            jobs.run();
            args.chunk::<u32>(0)[0] += 1;
        });
    let add_one = client.kernel(add_one)?;
    let stream = client.new_stream();
    let token = (choose(2) == 0).then(|| stream.start_profile());
    let token = token.transpose()?;
    let values = stream.create(&[0_u32])?;
    for _ in 0..2 {
        stream.launch(&add_one, CubeCount::single(), (update(&values),))?;
        submitted.kernels.accept();
    }
    assert_eq!(stream.read(&values).wait()?, [2]);
    if let Some(token) = token {
        let profile = stream.end_profile(token).wait()?;
        let launches = profile.kernel("add_one").map(|kernel| kernel.tasks);
        assert_eq!((launches, profile.untimed), (Some(2), 0));
    }
    Ok(())
}

/// Submits a host function and callbacks, more than the limits admit.
pub(crate) fn callbacks(client: &ComputeClient, submitted: &Submitted) -> Result<(), Error> {
    let stream = client.new_stream();
    let values = stream.create(&[7_u32])?;
    let jobs = submitted.host.clone();
    stream.host("host", (read(&values),), move || jobs.run())?;
    submitted.host.accept();
    for _ in 0..2 {
        let jobs = submitted.callbacks.clone();
        stream.read(&values).on_ready(move |answer| {
            jobs.run();
            assert!(answer.is_err() || matches!(&answer, Ok(values) if values == &[7]));
        })?;
        submitted.callbacks.accept();
    }
    stream.sync().wait()
}

/// Awaits futures of a stream that depends on another's data.
pub(crate) fn futures(client: &ComputeClient, _: &Submitted) -> Result<(), Error> {
    let (first, second) = (client.new_stream(), client.new_stream());
    let values = first.create(&[1_u32, 2])?;
    let copy = second.empty::<u32>(2)?;
    second.copy(&values, &copy)?;
    first.fill(&values, 5)?;
    let answer = shuttle::future::block_on(second.read(&copy))?;
    assert_eq!(answer, [1, 2]);
    shuttle::future::block_on(client.sync())
}
