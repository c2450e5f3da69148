//! One soak from end to end: opens the device, runs the threads, closes the device and collects the figures.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use millstream::sim::{Call, Faults, Findings, Sim};
use millstream::{Cpu, Device, DeviceOptions, Health, MemoryOptions, Vulkan};
use millstream_testkit::{AllowedFailures, BOOM, Count, Dice, ProgramConfig, Sizes};

use crate::equal::{self, EQUAL_CLIENTS};
use crate::report::Report;
use crate::verdict::{Checked, Figures, Left};
use crate::watch::{INTERVAL, Watch};
use crate::worker::{self, Load};
use crate::{Arguments, Backend, system};

/// An error that ends the soak before it has anything to report.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Device memory, in pages of 1 MiB: little enough to run out sometimes.
const MEMORY_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 1 << 20;
/// Elements of the largest buffer: 1 MiB on the CPU, less on the simulator, which checks every byte.
const ELEMENTS_MAX: usize = 1 << 18;
const ELEMENTS_MAX_SIM: usize = 1 << 13;
/// The most buffers and streams of a session.
const BUFFERS_MAX: usize = 12;
const STREAMS_MAX: usize = 6;
/// The timeout of an answer. An answer that takes longer counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The probability that a call fails, with faults.
const FAULT_CHANCE: f64 = 0.000_5;
/// With faults, the device is lost after this number of calls or up to twice as many.
const CALLS_UNTIL_LOSS: u64 = 50_000;
/// How long the system may still count threads after they were joined.
const THREADS_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the soak and returns its report.
pub(crate) fn run(args: &Arguments) -> Result<Report, Failure> {
    let threads_before = system::threads();
    let soak = Soak::open(args)?;
    system::stop_on_interrupt(&soak.load.config.tally.stop);
    silence_intended_panics();
    let (even, watch) = soak.work(args);
    Ok(soak.finish(threads_before, even, watch))
}

/// Silences the intended panics of kernels. All other panics are reported as by default.
fn silence_intended_panics() {
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default();
        if message != BOOM {
            default_hook(info);
        }
    }));
}

struct Soak {
    load: Load,
    seed: u64,
    /// The simulator's findings in this epoch, if it is the device.
    findings: Option<Mutex<Findings>>,
    checked: Mutex<Checked>,
    losses: AtomicU64,
    /// The values that lost epochs keep.
    parked: AtomicU64,
}

impl Soak {
    fn open(args: &Arguments) -> Result<Self, Failure> {
        let memory = MemoryOptions::default()
            .page_bytes(PAGE_BYTES)
            .max_pages_cached(4);
        let options = DeviceOptions::default().memory(memory);
        let faults = args.backend == Backend::Sim;
        let (opened, findings) = match args.backend {
            Backend::Cpu => {
                let cpu = Cpu::default().queues(4).memory_limit(MEMORY_BYTES);
                (Device::open_with(cpu, options), None)
            }
            Backend::Vulkan => {
                let vulkan = Vulkan::ordinal(0).queues(4).memory_limit(MEMORY_BYTES);
                (Device::open_with(vulkan, options), None)
            }
            Backend::Sim => {
                let sim = simulator(args.seed, 0, faults);
                let findings = Mutex::new(sim.findings());
                (Device::open_with(sim, options), Some(findings))
            }
        };
        let elements_max = match args.backend {
            Backend::Cpu | Backend::Vulkan => ELEMENTS_MAX,
            Backend::Sim => ELEMENTS_MAX_SIM,
        };
        let allowed = match faults {
            true => AllowedFailures::INJECTED.and(AllowedFailures::LOST),
            false => AllowedFailures::NONE,
        };
        let config = ProgramConfig {
            allowed: allowed.and(AllowedFailures::MEMORY),
            sizes: Sizes::UpTo(elements_max),
            buffers_max: BUFFERS_MAX,
            streams_max: STREAMS_MAX,
            patience: ANSWER_TIMEOUT,
            ..ProgramConfig::small(elements_max)
        };
        let load = Load {
            device: opened?,
            config,
            // The size of the largest buffer, so that clients often reach the limit.
            limit_bytes: (elements_max * size_of::<u32>()) as u64,
        };
        Ok(Self {
            load,
            seed: args.seed,
            findings,
            checked: Mutex::default(),
            losses: AtomicU64::new(0),
            parked: AtomicU64::new(0),
        })
    }

    /// Runs all threads until the rounds are done, the time is over, or Ctrl-C.
    fn work(&self, args: &Arguments) -> (Vec<u64>, Watch) {
        let (load, tally) = (&self.load, &self.load.config.tally);
        let working = &AtomicUsize::new(args.threads as usize);
        let seconds = args
            .rounds
            .is_none()
            .then_some((args.minutes * 60.0).ceil() as u64);
        let mut watch = Watch::new(seconds);
        let (seed, rounds) = (args.seed, args.rounds);
        let even = thread::scope(|scope| {
            // Disconnects when the last thread ends.
            let (alive, ended) = mpsc::channel();
            for thread in 0..args.threads {
                spawn(scope, &alive, move || {
                    let _guard = WorkerGuard(working);
                    let mut dice = Dice::new(seed, thread);
                    let work = AssertUnwindSafe(|| worker::work(load, &mut dice, rounds));
                    if let Err(panic) = panic::catch_unwind(work) {
                        let message = panic_message(&*panic);
                        tally.note_unexpected(format!("a call panicked: {message}"));
                    }
                });
            }
            let even: Vec<_> = (0..EQUAL_CLIENTS)
                .map(|index| {
                    spawn(scope, &alive, move || {
                        let mut dice = Dice::new(seed, 1 << 32 | index as u64);
                        // Relaxed: a later value only delays the end. No data depends on the counter.
                        let over = || tally.stopped() || working.load(Ordering::Relaxed) == 0;
                        equal::work(load, &mut dice, over)
                    })
                })
                .collect();
            spawn(scope, &alive, || self.reopen_on_loss(working));
            drop(alive);
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                watch.sample(tally);
                if seconds.is_some_and(|seconds| watch.elapsed().as_secs() >= seconds) {
                    tally.stop.store(true, Ordering::Relaxed);
                }
            }
            even.into_iter().map(join).collect()
        });
        (even, watch)
    }

    /// Reopens the device whenever it is lost, until the soak ends.
    fn reopen_on_loss(&self, working: &AtomicUsize) {
        let mut watch = self.load.device.watch_health();
        // Relaxed: a later value only delays the end. No data depends on the counter.
        while working.load(Ordering::Relaxed) > 0 && !self.load.config.tally.stopped() {
            if let Health::Lost { epoch, .. } = watch.health() {
                self.reopen(epoch + 1, true);
            }
            let _ = watch.wait_timeout(Duration::from_millis(20));
        }
    }

    fn reopen(&self, epoch: u64, faults: bool) {
        let sim = simulator(self.seed, epoch, faults);
        let next = sim.findings();
        match self.load.device.reopen_with(sim) {
            Ok(report) if report.threads_left > 0 => {
                let left = report.threads_left;
                self.load
                    .config
                    .tally
                    .note_unexpected(format!("the reopened device left {left} threads"));
            }
            Ok(report) => {
                // Relaxed: statistics only.
                self.parked
                    .fetch_add(report.values_parked, Ordering::Relaxed);
                self.losses.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self
                .load
                .config
                .tally
                .note_unexpected(format!("the device could not be reopened: {error}")),
        }
        self.take_findings(next);
    }

    /// Adds the findings of the ended epoch to the totals, and continues with `next`.
    fn take_findings(&self, next: Findings) {
        let Some(findings) = &self.findings else {
            return;
        };
        let (mut findings, mut checked) = (lock(findings), lock(&self.checked));
        checked.violations.seen += findings.violations_seen();
        let sentences = findings
            .violations()
            .into_iter()
            .map(|violation| violation.to_string());
        let room = 20_usize.saturating_sub(checked.violations.sentences.len());
        checked.violations.sentences.extend(sentences.take(room));
        checked.needless_waits += findings.figures().waits.implied;
        *findings = next;
    }

    /// Returns what the device still has. A lost device is reopened first.
    fn left(&self) -> Option<Left> {
        let device = &self.load.device;
        if let Health::Lost { epoch, .. } = device.health() {
            self.reopen(epoch + 1, false);
        }
        device.sync().wait_timeout(ANSWER_TIMEOUT).ok()?;
        left(device).ok()
    }

    fn finish(self, threads_before: Option<usize>, even: Vec<u64>, watch: Watch) -> Report {
        let seconds = watch.elapsed().as_secs_f64();
        let samples = watch.finish();
        let left = self.left();
        let name = (self.load.device.properties().name.to_string(), self.seed);
        let closing = self.load.device.close(ANSWER_TIMEOUT);
        let next = Findings::default();
        self.take_findings(next);
        let tally = self.load.config.tally.clone();
        let losses = self.losses.load(Ordering::Relaxed);
        let parked = self.parked.load(Ordering::Relaxed);
        let checked = self.findings.as_ref().map(|_| lock(&self.checked).clone());
        drop(self);
        let [wrong, unexpected, unanswered] = tally.violations();
        let figures = Figures {
            asked: tally.get(Count::Requests),
            answered: tally.get(Count::Answered),
            withdrawn: tally.get(Count::Withdrawn),
            given: tally.get(Count::Closures),
            ended: tally.get(Count::Ended),
            values: tally.get(Count::Values),
            dropped: tally.get(Count::Dropped),
            parked,
            wrong,
            unexpected,
            unanswered,
            left,
            closed: closing,
            threads: threads_before.map(|before| (before, threads_after(before))),
            samples,
            even,
            checked,
        };
        Report::new(name, seconds, losses, tally.all(), figures)
    }
}

/// Returns what the device still has after all handles were dropped.
fn left(device: &Device) -> Result<Left, millstream::Error> {
    let (stats, memory) = (device.stats()?, device.memory_usage()?);
    Ok(Left {
        streams: stats.streams,
        tasks_held: stats.tasks_held,
        live_slices: memory.device.live_slices,
        bytes_in_use: memory.device.in_use,
        bytes_waiting: memory.device.waiting,
        clients: memory.clients.len() as u64,
    })
}

/// Starts a thread that owns `alive` until it ends, also by a panic.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    alive: &mpsc::Sender<()>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let alive = alive.clone();
    scope.spawn(move || {
        let _alive = alive;
        work()
    })
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a payload that is not a string")
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(done) => done,
        // A panic is a bug of the soak; the main thread propagates it unchanged.
        Err(panic) => panic::resume_unwind(panic),
    }
}

/// Decrements the count of working threads on drop.
struct WorkerGuard<'a>(&'a AtomicUsize);

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        // Relaxed: no data depends on the counter.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn simulator(seed: u64, epoch: u64, faults: bool) -> Sim {
    // All epochs share the seed: it is part of the device's name, which must not change on reopening.
    let sim = Sim::seed(seed).memory_bytes(MEMORY_BYTES);
    if !faults {
        return sim;
    }
    let until = CALLS_UNTIL_LOSS + Dice::new(seed, epoch).wide() % CALLS_UNTIL_LOSS;
    let faults = Faults::none().lost_from(until);
    let chances = Call::OF_TASKS.into_iter();
    sim.faults(chances.fold(faults, |faults, call| faults.chance(call, FAULT_CHANCE)))
}

/// Returns the number of threads, once the system no longer counts joined ones.
fn threads_after(before: usize) -> usize {
    let began = Instant::now();
    loop {
        let now = system::threads().unwrap_or(before);
        if now <= before || began.elapsed() > THREADS_TIMEOUT {
            return now;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
