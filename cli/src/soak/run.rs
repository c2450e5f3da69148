//! One soak from end to end: the device, the threads, the end, the figures.

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use millstream::sim::{Call, Faults, Findings, Sim};
use millstream::{Cpu, Device, DeviceOptions, Health, MemoryOptions, Report as Closing};
use millstream_testkit::{BOOM, Count, Dice, Excuses, Ground, Sizes, Tally};

use super::even::{self, EVEN_CLIENTS};
use super::report::{Report, Settings};
use super::system;
use super::verdict::{Checked, Closed, Figures, Left};
use super::watch::{INTERVAL, Watch};
use super::worker::{self, Load};
use crate::args::{Backend, SoakArgs};
use crate::exit::CommandError;
use crate::top::{self, Publication};

/// Device memory, in pages of 1 MiB: little enough that it runs out now and then.
const MEMORY_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 1 << 20;
/// Elements of the largest buffer: 1 MiB on the CPU; less where every byte is checked as it is touched.
const ELEMENTS_MAX: usize = 1 << 18;
const ELEMENTS_MAX_SIM: usize = 1 << 13;
/// Buffers and streams that a session has at most.
const BUFFERS_MAX: usize = 12;
const STREAMS_MAX: usize = 6;
/// How long an answer may take. One that takes longer is taken to have been lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// How likely each call fails that may, where faults are on.
const FAULT_CHANCE: f64 = 0.000_5;
/// Calls after which the device is lost, where faults are on: from the first to about twice as many.
const CALLS_UNTIL_LOSS: u64 = 50_000;
/// How long threads of the system may take to go after they were joined.
const THREADS_PATIENCE: Duration = Duration::from_secs(5);

/// Soaks, and reports.
pub(crate) fn run(args: &SoakArgs) -> Result<Report, CommandError> {
    let settings = Settings::of(args);
    let threads_before = system::threads();
    let soak = Soak::open(args)?;
    system::stop_on_interrupt(&soak.load.ground.tally.stop);
    quiet_panics();
    let device = &soak.load.device;
    let publication = Publication::start(args.publish.as_deref(), "soak", device)?;
    let (even, watch) = soak.work(args)?;
    // What it has of the device is none of what is left.
    drop(publication);
    soak.finish(settings, threads_before, even, watch)
}

/// Kernels panic on purpose; everything else is told as ever.
fn quiet_panics() {
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let said = info.payload_as_str().unwrap_or_default();
        if said != BOOM {
            told(info);
        }
    }));
}

struct Soak {
    load: Load,
    seed: u64,
    /// The simulator's findings in this epoch, where it is the device.
    findings: Option<Mutex<Findings>>,
    checked: Mutex<Checked>,
    losses: AtomicU64,
    /// Values that lost epochs were left with.
    parked: AtomicU64,
}

impl Soak {
    fn open(args: &SoakArgs) -> Result<Self, CommandError> {
        let memory = MemoryOptions::default()
            .page_bytes(PAGE_BYTES)
            .max_pages_cached(4);
        let options = DeviceOptions::default()
            .memory(memory)
            .sample_latencies(top::sampling(args.publish.as_deref()));
        let faults = args.has_faults();
        let (opened, findings) = match args.backend {
            Backend::Cpu => {
                let cpu = Cpu::default().queues(4).memory_limit(MEMORY_BYTES);
                (Device::open_with(cpu, options), None)
            }
            Backend::Sim => {
                let sim = simulator(args.seed, 0, faults);
                let findings = Mutex::new(sim.findings());
                (Device::open_with(sim, options), Some(findings))
            }
        };
        let elements_max = match args.backend {
            Backend::Cpu => ELEMENTS_MAX,
            Backend::Sim => ELEMENTS_MAX_SIM,
        };
        let excuses = match faults {
            true => Excuses::INJECTED.and(Excuses::LOST),
            false => Excuses::NONE,
        };
        let ground = Ground {
            excuses: excuses.and(Excuses::MEMORY),
            sizes: Sizes::UpTo(elements_max),
            buffers_max: BUFFERS_MAX,
            streams_max: STREAMS_MAX,
            patience: PATIENCE,
            ..Ground::small(elements_max)
        };
        let load = Load {
            device: opened.map_err(|source| CommandError::Open { source })?,
            ground,
            // The largest buffer: the limit is met often.
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

    /// Runs all threads until the work is done, the time is up, or somebody asks.
    fn work(&self, args: &SoakArgs) -> Result<(Vec<u64>, Watch), CommandError> {
        let (load, tally) = (&self.load, &self.load.ground.tally);
        let working = &AtomicUsize::new(args.threads as usize);
        let seconds = args.rounds.is_none().then_some(args.seconds());
        let mut watch = Watch::new(seconds);
        let (seed, rounds) = (args.seed, args.rounds);
        let even = thread::scope(|scope| {
            let (mut crew, ends) = Crew::new(scope);
            for thread in 0..args.threads {
                crew.spawn(format!("soak {thread}"), move || {
                    let _leaving = Leaving(working);
                    let mut dice = Dice::new(seed, thread);
                    let work = AssertUnwindSafe(|| worker::work(load, &mut dice, rounds));
                    if let Err(panic) = panic::catch_unwind(work) {
                        let said = said(&*panic);
                        tally.note_unexpected(format!("a call panicked: {said}"));
                    }
                });
            }
            let even: Vec<_> = (0..EVEN_CLIENTS)
                .map(|index| {
                    crew.spawn(format!("even {index}"), move || {
                        let mut dice = Dice::new(seed, 1 << 32 | index as u64);
                        // Relaxed: it says when, not what.
                        let over = || tally.stopped() || working.load(Ordering::Relaxed) == 0;
                        even::work(load, &mut dice, over)
                    })
                })
                .collect();
            crew.spawn("keeper".to_owned(), || self.keep(working));
            crew.all_there(tally)?;
            while ends.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                watch.sample(tally, self.losses.load(Ordering::Relaxed));
                if seconds.is_some_and(|seconds| watch.elapsed().as_secs() >= seconds) {
                    tally.stop.store(true, Ordering::Relaxed);
                }
            }
            Ok(even.into_iter().flatten().map(joined).collect())
        })?;
        Ok((even, watch))
    }

    /// Opens the device again whenever it is lost, until the soak ends.
    fn keep(&self, working: &AtomicUsize) {
        let mut watch = self.load.device.watch_health();
        // Relaxed: it says when, not what.
        while working.load(Ordering::Relaxed) > 0 && !self.load.ground.tally.stopped() {
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
                    .ground
                    .tally
                    .note_unexpected(format!("reopening left {left} threads"));
            }
            Ok(report) => {
                // Relaxed: figures.
                self.parked
                    .fetch_add(report.values_parked, Ordering::Relaxed);
                self.losses.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self
                .load
                .ground
                .tally
                .note_unexpected(format!("reopening: {error}")),
        }
        self.take_findings(next);
    }

    /// Adds up what the epoch that ended found; `next` tells of the next.
    fn take_findings(&self, next: Findings) {
        let Some(findings) = &self.findings else {
            return;
        };
        let (mut findings, mut checked) = (lock(findings), lock(&self.checked));
        checked.violations.seen += findings.violations_seen();
        let sentences = findings
            .violations()
            .into_iter()
            .map(|found| found.to_string());
        let room = 20_usize.saturating_sub(checked.violations.sentences.len());
        checked.violations.sentences.extend(sentences.take(room));
        checked.needless_waits += findings.figures().waits.implied;
        *findings = next;
    }

    /// What the device has left; it is opened again for that, if it was lost.
    fn left(&self) -> Option<Left> {
        let device = &self.load.device;
        if let Health::Lost { epoch, .. } = device.health() {
            self.reopen(epoch + 1, false);
        }
        device.sync().wait_timeout(PATIENCE).ok()?;
        left(device).ok()
    }

    fn finish(
        self,
        settings: Settings,
        threads_before: Option<usize>,
        even: Vec<u64>,
        watch: Watch,
    ) -> Result<Report, CommandError> {
        let seconds = watch.elapsed().as_secs_f64();
        let samples = watch.finish();
        let left = self.left();
        let closing = self.load.device.close(PATIENCE);
        let next = Findings::default();
        self.take_findings(next);
        let tally = self.load.ground.tally.clone();
        let losses = self.losses.load(Ordering::Relaxed);
        let parked = self.parked.load(Ordering::Relaxed);
        let checked = self.findings.as_ref().map(|_| lock(&self.checked).clone());
        drop(self);
        let [wrong, unexpected, unanswered] = tally.wrongs();
        let figures = Figures {
            asked: tally.get(Count::Asked),
            answered: tally.get(Count::Answered),
            withdrawn: tally.get(Count::Withdrawn),
            given: tally.get(Count::Given),
            ended: tally.get(Count::Ended),
            values: tally.get(Count::Values),
            dropped: tally.get(Count::Dropped),
            parked,
            wrong,
            unexpected,
            unanswered,
            left,
            closed: closed(&closing),
            threads: threads_before.map(|before| (before, threads_after(before))),
            samples,
            even,
            checked,
        };
        Ok(Report::new(settings, seconds, losses, tally.all(), figures))
    }
}

/// What the device says it has, once nobody has anything of it.
pub(crate) fn left(device: &Device) -> Result<Left, millstream::Error> {
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

/// Threads of one soak, and how their end is noticed.
struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    /// Each thread has one; the receiver ends with the last of them, also where a thread panics.
    ended: mpsc::Sender<()>,
    refused: Option<io::Error>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>) -> (Self, mpsc::Receiver<()>) {
        let (ended, ends) = mpsc::channel();
        let crew = Self {
            scope,
            ended,
            refused: None,
        };
        (crew, ends)
    }

    fn spawn<T: Send + 'scope>(
        &mut self,
        name: String,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<ScopedJoinHandle<'scope, T>> {
        let ended = self.ended.clone();
        let spawned = thread::Builder::new()
            .name(name)
            .spawn_scoped(self.scope, move || {
                let _ended = ended;
                work()
            });
        spawned.map_err(|error| self.refused = Some(error)).ok()
    }

    /// Says whether the system gave all threads; if not, those that there are end.
    fn all_there(self, tally: &Tally) -> Result<(), CommandError> {
        match self.refused {
            None => Ok(()),
            Some(source) => {
                // Relaxed: it says when, not what.
                tally.stop.store(true, Ordering::Relaxed);
                Err(CommandError::Thread { source })
            }
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("something that is no text")
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(done) => done,
        // A bug of ours: let it be seen as it is.
        Err(bug) => panic::resume_unwind(bug),
    }
}

/// One worker less.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // Relaxed: it says when, not what.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn simulator(seed: u64, epoch: u64, faults: bool) -> Sim {
    // The same seed: its name tells it, and a device that is opened again has the same name.
    let sim = Sim::seed(seed).memory_bytes(MEMORY_BYTES);
    if !faults {
        return sim;
    }
    let until = CALLS_UNTIL_LOSS + Dice::new(seed, epoch).wide() % CALLS_UNTIL_LOSS;
    let faults = Faults::none().lost_from(until);
    let chances = Call::OF_TASKS.into_iter();
    sim.faults(chances.fold(faults, |faults, call| faults.chance(call, FAULT_CHANCE)))
}

fn closed(closing: &Closing) -> Closed {
    Closed {
        drained: closing.drained,
        tasks_left: closing.tasks_left,
        slices_held: closing.slices_held,
        values_parked: closing.values_parked,
        threads_left: closing.threads_left,
    }
}

/// Threads once those that were joined have left the system's books, too.
fn threads_after(before: usize) -> usize {
    let began = Instant::now();
    loop {
        let now = system::threads().unwrap_or(before);
        if now <= before || began.elapsed() > THREADS_PATIENCE {
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
