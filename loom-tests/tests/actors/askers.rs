//! What threads ask of a device, and what each ask may be answered: its value, or that the device is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millstream::{ComputeClient, CubeCount, Error, Kernel, read, update};
use millstream_sync::facade::thread::{JoinHandle, spawn};

use crate::rig::choose;

/// User code that was accepted, and that ran. A walk's threads are one thread of the system: Relaxed will do.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<(AtomicU32, AtomicU32)>);

impl Jobs {
    pub(crate) fn accept(&self) {
        self.0.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn run(&self) {
        self.0.1.fetch_add(1, Relaxed);
    }

    /// How many were accepted and how many ran.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.0.0.load(Relaxed), self.0.1.load(Relaxed))
    }
}

/// What the askers have given the device to run.
#[derive(Clone, Default)]
pub(crate) struct Given {
    pub(crate) kernels: Jobs,
    pub(crate) host: Jobs,
    pub(crate) callbacks: Jobs,
}

impl Given {
    /// I6: whatever was accepted ran exactly once.
    pub(crate) fn assert_all_ran(&self) {
        for jobs in [&self.kernels, &self.host, &self.callbacks] {
            let (accepted, ran) = jobs.counts();
            assert_eq!(accepted, ran, "accepted, and ran");
        }
    }

    /// I5: whoever is owed an answer has it, also of a device that was lost, which runs nothing else.
    pub(crate) fn assert_all_told(&self) {
        let (owed, told) = self.callbacks.counts();
        assert_eq!(owed, told, "callbacks owed, and called");
        for jobs in [&self.kernels, &self.host] {
            let (accepted, ran) = jobs.counts();
            assert!(ran <= accepted, "{ran} of {accepted} ran");
        }
    }
}

/// A thread that asks.
pub(crate) type Ask = fn(&ComputeClient, &Given) -> Result<(), Error>;

/// All ways of asking.
pub(crate) const ASKS: [Ask; 3] = [launches, callbacks, futures];

/// Starts a thread for each way of asking. Each drops its client itself; what ended its asking early must be
/// what `is_gone` takes for a device that is gone.
pub(crate) fn start(
    client: &ComputeClient,
    given: &Given,
    rounds: usize,
    is_gone: impl Fn(&Error) -> bool + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let ask = |ask: Ask| {
        let (client, given, is_gone) = (client.clone(), given.clone(), is_gone.clone());
        spawn(move || {
            for _ in 0..rounds {
                if let Err(error) = ask(&client, &given) {
                    assert!(is_gone(&error), "I5: answered with {error:?}");
                }
            }
        })
    };
    ASKS.map(ask).into()
}

pub(crate) fn join(threads: Vec<JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Kernels, waited for, in half of the schedules with a profile open.
pub(crate) fn launches(client: &ComputeClient, given: &Given) -> Result<(), Error> {
    let jobs = given.kernels.clone();
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
        given.kernels.accept();
    }
    assert_eq!(stream.read(&values).wait()?, [2]);
    if let Some(token) = token {
        let profile = stream.end_profile(token).wait()?;
        let launches = profile.kernel("add_one").map(|kernel| kernel.tasks);
        assert_eq!((launches, profile.untimed), (Some(2), 0));
    }
    Ok(())
}

/// A host function and callbacks, more of them than there is room for.
pub(crate) fn callbacks(client: &ComputeClient, given: &Given) -> Result<(), Error> {
    let stream = client.new_stream();
    let values = stream.create(&[7_u32])?;
    let jobs = given.host.clone();
    stream.host("host", (read(&values),), move || jobs.run())?;
    given.host.accept();
    for _ in 0..2 {
        let jobs = given.callbacks.clone();
        stream.read(&values).on_ready(move |answer| {
            jobs.run();
            assert!(answer.is_err() || matches!(&answer, Ok(values) if values == &[7]));
        })?;
        given.callbacks.accept();
    }
    stream.sync().wait()
}

/// Futures, of a stream that waits for another's data.
pub(crate) fn futures(client: &ComputeClient, _: &Given) -> Result<(), Error> {
    let (first, second) = (client.new_stream(), client.new_stream());
    let values = first.create(&[1_u32, 2])?;
    let copy = second.empty::<u32>(2)?;
    second.copy(&values, &copy)?;
    first.fill(&values, 5)?;
    let answer = shuttle::future::block_on(second.read(&copy))?;
    assert_eq!(answer, [1, 2]);
    shuttle::future::block_on(client.sync())
}
