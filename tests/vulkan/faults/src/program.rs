//! A short program that uses most of the backend: two streams on two queues, hazards between them, kernels with pushed
//! and with spilled parameters, copies, fills, readbacks, a custom task that waits for the queue, and a profile. Every
//! answer must be the correct data or an error.

use std::time::Duration;

use millstream::vulkan::Vulkan;
use millstream::{
    Access, CubeCount, Device, DeviceOptions, Error, Handle, KernelHandle, LaunchArgs, Pending,
    Stream, read, report::Profile, update, write,
};

use crate::kernels::{add_one, large, mix, set};

const LEN: usize = 3000;
/// More than one staging block.
const LONG: usize = 300_000;

/// A timeout that no test reaches, even on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the arguments of the kernel `large`, with the same buffer as all its inputs.
pub fn large_args<'a>(input: &'a Handle<u32>, out: &'a Handle<u64>) -> LaunchArgs<'a> {
    let inputs = (0..11).fold(LaunchArgs::new(), |args, _| args.arg(read(input)));
    (0..30_u64).fold(inputs.arg(write(out)), LaunchArgs::arg)
}

/// Launches the kernel `large`.
///
/// # Errors
/// As for launches.
pub fn launch_large(
    stream: &Stream,
    kernel: &KernelHandle,
    input: &Handle<u32>,
    out: &Handle<u64>,
) -> Result<(), Error> {
    stream.launch(kernel, CubeCount::single(), large_args(input, out))
}

/// Runs the program once.
///
/// # Errors
/// The last error of a request.
///
/// # Panics
/// If it reads wrong data.
pub fn run(device: &Device) -> Result<(), Error> {
    submit(device)?.finish()
}

/// The program up to its first wait for a task.
pub struct Submitted {
    one: Stream,
    other: Stream,
    a: Handle<u32>,
    b: Handle<u32>,
    long: Handle<u32>,
    total: Handle<u64>,
    odd: Handle<u8>,
    copied: Pending<Vec<u32>>,
    profile: Option<Pending<Profile>>,
}

/// Returns options of a device that issues its tasks at once, however long they take: what is in flight then does not
/// depend on measured times.
pub fn all_in_flight() -> DeviceOptions {
    DeviceOptions::default().max_in_flight_time(Duration::MAX)
}

/// Submits the program up to its first wait for a task.
///
/// # Errors
/// The error of a request.
pub fn submit(device: &Device) -> Result<Submitted, Error> {
    let client = device.new_client();
    let (set, mix) = (client.kernel(set())?, client.kernel(mix())?);
    let (add_one, large) = (client.kernel(add_one())?, client.kernel(large())?);
    let (one, other) = (client.new_stream(), client.new_stream());
    let cubes = || CubeCount::cover(LEN, 256);
    let n = LEN as u32;
    let a = one.empty::<u32>(LEN)?;
    one.launch(&set, cubes(), (write(&a), 9_u32, n))?;
    // Hazards between the streams: the copy reads after the kernel's write, and the fill writes after that read.
    let copy = other.empty::<u32>(LEN)?;
    other.copy(&a, &copy)?;
    one.fill(&a, 4)?;
    let b = other.create(&vec![2_u32; LEN])?;
    other.launch(&mix, cubes(), (read(&a), update(&b), n))?;
    one.launch(&add_one, cubes(), (update(&a), n))?;
    let long = one.create_owned((0..LONG as u32).collect());
    let long = long.map_err(Error::from)?;
    other.launch(
        &add_one,
        CubeCount::cover(LONG, 256),
        (update(&long), LONG as u32),
    )?;
    let total = one.empty::<u64>(1)?;
    let recording = one.record(|recorder| {
        let sum = recorder.empty::<u64>(1)?;
        (0..3)
            .try_for_each(|_| recorder.launch(&large, CubeCount::single(), large_args(&a, &sum)))?;
        recorder.fill(&sum, 1 << 40)
    })?;
    // The second replay records a secondary command buffer. Before the profile: with spans none is used.
    (0..3).try_for_each(|_| recording.replay(&one))?;
    let profiled = one.profiled(|one| {
        one.launch(&add_one, cubes(), (update(&a), n)).ok();
    });
    launch_large(&one, &large, &a, &total)?;
    let odd = one.create(&[0_u8; 7])?;
    one.fill(&odd.slice(1..6)?, 3)?;
    one.fill(&total, 1 << 40)?;
    other.with_resource::<Vulkan>("wait", &[(&b, Access::ReadWrite)][..], |resources| {
        resources.finish().ok();
    })?;
    Ok(Submitted {
        copied: other.read(&copy),
        profile: profiled.ok().map(|((), profile)| profile),
        one,
        other,
        a,
        b,
        long,
        total,
        odd,
    })
}

impl Submitted {
    /// Waits until the device thread has issued and flushed everything.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn await_issued(&self, device: &Device) -> Result<(), Error> {
        self.one.flush()?;
        self.other.flush()?;
        // Each query is answered in its own turn, and a turn ends with the flush of what it has issued.
        (0..2).try_for_each(|_| device.metrics().map(drop))
    }

    /// Reads and checks the results.
    ///
    /// # Errors
    /// The last error of a request.
    ///
    /// # Panics
    /// If it reads wrong data.
    pub fn finish(self) -> Result<(), Error> {
        let Self { one, other, .. } = self;
        let mut copied = self.copied;
        let mut waits = Failures::default();
        waits.check(copied.wait_timeout(PATIENCE), |got| got == [9; LEN]);
        waits.check(one.read(&self.a).wait_timeout(PATIENCE), |got| {
            got == [6; LEN]
        });
        waits.check(other.read(&self.b).wait_timeout(PATIENCE), |got| {
            got == [2 * 31 + 4; LEN]
        });
        waits.check(other.read(&self.long).wait_timeout(PATIENCE), |got| {
            got.iter().zip(1..).all(|(got, expected)| *got == expected)
        });
        waits.check(one.read(&self.total).wait_timeout(PATIENCE), |got| {
            got == [1 << 40]
        });
        waits.check(one.read(&self.odd).wait_timeout(PATIENCE), |got| {
            got == [0, 3, 3, 3, 3, 3, 0]
        });
        if let Some(mut profile) = self.profile {
            waits.check(profile.wait_timeout(PATIENCE).map(drop), |()| true);
        }
        waits.last.map_or(Ok(()), Err)
    }
}

/// The errors of a program.
#[derive(Default)]
struct Failures {
    last: Option<Error>,
}

impl Failures {
    /// Notes an error, or checks the data.
    fn check<T>(&mut self, answer: Result<T, Error>, is_correct: impl FnOnce(T) -> bool) {
        match answer {
            Ok(data) => assert!(is_correct(data), "the program read wrong data"),
            Err(error) => self.last = Some(error),
        }
    }
}
