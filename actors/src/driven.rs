//! A device that its owner runs: no thread is started.
//!
//! Messages go through the same mailbox, so both channels keep one total order; they are taken when
//! the owner pumps, when the mailbox is full, or when somebody waits. User code (host functions,
//! callbacks) runs on the pumping thread, outside the device's lock, so that it may submit.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use millstream_core::backend::Backend;
use millstream_core::channel::{Build, ComputeChannel, Job, Refusal, mark_runtime_thread};
use millstream_core::client::Gone;
use millstream_core::message::Task;
use millstream_core::report::Report;
use millstream_core::server::Effect;
use millstream_sync::channel;
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Refused, Sender};

use crate::actor::{Control, DeviceActor, Outside};
use crate::gc::{Gc, Handover, Then};
use crate::host::{host_job, run_job};

/// How long one drive of a waiting thread lets the backend run before it looks for its answer.
const DRIVE_BUDGET: Duration = Duration::from_micros(200);

/// What pumping runs.
struct Core<B: Backend> {
    /// None once the device is closed.
    actor: Option<DeviceActor<B>>,
    inline: Inline,
}

/// Effects without threads.
struct Inline {
    gc: Gc,
    jobs: Arc<Mutex<VecDeque<Job>>>,
    control: channel::Sender<Control>,
    gate: Arc<Gate>,
}

impl Outside for Inline {
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        match effect {
            Effect::Host {
                work,
                resources,
                token,
            } => {
                let job = host_job(
                    work,
                    resources,
                    token,
                    self.control.clone(),
                    self.gate.clone(),
                );
                lock(&self.jobs).push_back(job);
            }
            Effect::Collect { value, after } => {
                self.gc.take(Handover {
                    after,
                    then: Then::Drop(value),
                });
            }
            // Whoever pumps looks at the queues anyway.
            Effect::Watch(_) => {}
        }
        Ok(())
    }
}

/// The direct channel of a driven device.
pub(crate) struct DirectChannel<B: Backend> {
    core: Arc<Mutex<Core<B>>>,
    sender: Sender<Task>,
    jobs: Arc<Mutex<VecDeque<Job>>>,
    gone: Arc<Gone>,
}

impl<B: Backend> Clone for DirectChannel<B> {
    fn clone(&self) -> Self {
        Self {
            core: self.core.clone(),
            sender: self.sender.clone(),
            jobs: self.jobs.clone(),
            gone: self.gone.clone(),
        }
    }
}

impl<B: Backend> DirectChannel<B> {
    pub(crate) fn new(
        actor: DeviceActor<B>,
        sender: Sender<Task>,
        control: channel::Sender<Control>,
        gc: Gc,
        gate: Arc<Gate>,
        gone: Arc<Gone>,
    ) -> (Self, Driver) {
        let jobs = Arc::new(Mutex::new(VecDeque::new()));
        let inline = Inline {
            gc,
            jobs: jobs.clone(),
            control,
            gate,
        };
        let core = Arc::new(Mutex::new(Core {
            actor: Some(actor),
            inline,
        }));
        let channel = Self {
            core,
            sender,
            jobs,
            gone,
        };
        let driver = Driver {
            device: Box::new(channel.clone()),
        };
        (channel, driver)
    }

    /// Calls `f` with the actor of a device that was just opened.
    pub(crate) fn with_actor<R>(&self, f: impl FnOnce(&DeviceActor<B>) -> R) -> R {
        let core = lock(&self.core);
        match &core.actor {
            Some(actor) => f(actor),
            None => unreachable!("a device is closed only after it was opened"),
        }
    }

    /// Pushes the message if there is room; else it stays.
    fn try_push(&self, message: &mut Option<Build<'_>>) -> Result<(), Refusal> {
        // SAFETY: a `Build` initializes the slot and does not panic, by its constructor's contract. It is
        // there: only an accepted call takes it, and that ends the sending.
        let sent = unsafe {
            self.sender.try_send_with(|slot| {
                if let Some(message) = message.take() {
                    message.into_slot(slot);
                }
            })
        };
        sent.map(drop).map_err(|refused| match refused {
            Refused::Full => Refusal::Full,
            Refused::Closed => Refusal::Closed,
        })
    }

    /// One turn of everything. Says whether anything was done.
    ///
    /// Where somebody else pumps, it is left to them, unless `patient`.
    fn step_as(&self, budget: Duration, patient: bool) -> bool {
        let mut worked = false;
        {
            let mut core = match self.core.try_lock() {
                Ok(core) => core,
                Err(std::sync::TryLockError::Poisoned(core)) => PoisonError::into_inner(core),
                Err(std::sync::TryLockError::WouldBlock) if patient => lock(&self.core),
                Err(std::sync::TryLockError::WouldBlock) => return false,
            };
            let _mark = mark_runtime_thread();
            let _stepping = Stepping::enter();
            let Core { actor, inline } = &mut *core;
            if let Some(actor) = actor {
                worked |= actor.turn(inline);
                worked |= actor.server.backend_mut().pump(budget);
                worked |= actor.turn(inline);
                worked |= inline.gc.collect();
            }
        }
        let _mark = mark_runtime_thread();
        loop {
            let job = lock(&self.jobs).pop_front();
            let Some(job) = job else { break };
            run_job(job);
            worked = true;
        }
        worked
    }

    fn step(&self, budget: Duration) -> bool {
        self.step_as(budget, false)
    }

    fn shut_down(&self) -> Report {
        let started = Instant::now();
        let mut report = Report::default();
        // Nothing more is accepted. What can end by itself does; what a guard holds back cannot.
        if let Some(actor) = &mut lock(&self.core).actor {
            actor.close();
        }
        while self.step_as(DRIVE_BUDGET, true) {}
        let actor = lock(&self.core).actor.take();
        if let Some(mut actor) = actor {
            report.drained = actor.server.is_drained();
            report.slices_held = actor.server.live_slices();
            report.tasks_left = actor.abandon();
            self.gone.end_credits();
            if report.drained {
                report.bytes_freed = actor.server.free_pages();
                drop(actor);
            } else {
                // A guard may still be looking at the memory.
                report.threads_left = actor.leak();
            }
            lock(&self.core).inline.gc.leak();
        }
        // Callbacks of what was answered just now.
        while let Some(job) = { lock(&self.jobs).pop_front() } {
            run_job(job);
        }
        report.took = started.elapsed();
        report
    }
}

impl<B: Backend> ComputeChannel for DirectChannel<B> {
    fn send(&self, message: Build<'_>) -> Result<(), Refusal> {
        let mut message = Some(message);
        loop {
            match self.try_push(&mut message) {
                // Room is made by driving.
                Err(Refusal::Full) if STEPPING.get() => return Err(Refusal::WouldDeadlock),
                Err(Refusal::Full) => {
                    if !self.step(DRIVE_BUDGET) {
                        // Somebody else pumps, or what is in flight needs time.
                        std::thread::yield_now();
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn try_send(&self, message: Build<'_>) -> Result<(), Refusal> {
        self.try_push(&mut Some(message))
    }

    fn depth(&self) -> usize {
        self.sender.depth()
    }

    fn drive(&self) -> Option<bool> {
        Some(self.step(DRIVE_BUDGET))
    }

    fn execute(&self, job: Job) {
        if self.sender.is_closed() {
            // Nobody pumps any more: the caller is as good a thread as any.
            return run_job(job);
        }
        lock(&self.jobs).push_back(job);
    }
}

thread_local! {
    /// Is the thread inside the device, under its lock?
    static STEPPING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as inside the device.
struct Stepping;

impl Stepping {
    fn enter() -> Self {
        STEPPING.set(true);
        Self
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        STEPPING.set(false);
    }
}

/// What a driver needs of its device, whatever the backend.
trait Driven: Send {
    fn step(&self, budget: Duration) -> bool;
    fn shut_down(&self) -> Report;
}

impl<B: Backend> Driven for DirectChannel<B> {
    fn step(&self, budget: Duration) -> bool {
        DirectChannel::step(self, budget)
    }

    fn shut_down(&self) -> Report {
        DirectChannel::shut_down(self)
    }
}

/// Runs a driven device. Dropping it closes the device and answers everything.
pub struct Driver {
    device: Box<dyn Driven>,
}

impl Driver {
    /// Runs the device on the calling thread until there is nothing to do or about `budget` is over,
    /// and says whether there may be more to do. A kernel that has started is not interrupted.
    pub fn pump(&mut self, budget: Duration) -> bool {
        let end = Instant::now().checked_add(budget);
        loop {
            let left = end.map_or(Duration::MAX, |end| {
                end.saturating_duration_since(Instant::now())
            });
            let worked = self.device.step(left);
            if !worked || left.is_zero() {
                return worked;
            }
        }
    }

    /// Finishes what can be finished, closes the device and says what was left.
    pub fn close(self) -> Report {
        self.device.shut_down()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.device.shut_down();
    }
}
