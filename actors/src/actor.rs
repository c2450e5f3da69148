//! The device actor: one turn takes a burst of messages, what completions and host functions have to
//! say, flushes what streams hold, and carries out effects.
//!
//! It never waits. Who runs it, and what happens between turns, is `mailbox`'s or `driven`'s.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::health::Recovery;
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::message::Task;
use millstream_protocol::report::Report;
use millstream_protocol::table::Table;
use millstream_server::server::{Effect, HostToken, Server};
use millstream_sync::channel;
use millstream_sync::facade::{Edges, Mutex, SpinPolicy, Spinner, lock};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::Receiver;
use millstream_sync::payload;
use millstream_sync::timeline::{Timeline, WaitKey};

/// What is told to the device apart from its mailbox. Never lost, never refused.
pub(crate) enum Control {
    /// A host function ended, or panicked with this message.
    HostFinished(HostToken, Result<(), String>),
    /// The timeline of a queue ended by itself.
    TimelineEnded,
    /// Memory has become free, or there is room for what was kept.
    LookAround,
    /// Accept nothing more, finish what there is.
    Close,
}

/// What is left of a closed device, which no thread turns any more.
pub(crate) trait Heir: Send + Sync {
    /// Something was told to the device. Says whether nothing that is told later matters.
    fn look(&self) -> bool;
}

/// How the device is told things apart from its mailbox.
#[derive(Clone)]
pub(crate) struct ToDevice {
    control: channel::Sender<Control>,
    pub(crate) gate: Arc<Gate>,
    edges: Arc<Edges>,
    /// Takes what others send the device once no thread turns it. Set only while user code of the device runs, since the heir holds the device.
    heir: Arc<Mutex<Option<Arc<dyn Heir>>>>,
}

impl ToDevice {
    /// The way to a device that sleeps at this gate, and its end of it.
    pub(crate) fn new(gate: Arc<Gate>, edges: Arc<Edges>) -> (Self, channel::Receiver<Control>) {
        let (control, receiver) = channel::unbounded();
        let device = Self {
            control,
            gate,
            edges,
            heir: Arc::default(),
        };
        (device, receiver)
    }

    /// Tells it this. A device that is gone needs no telling.
    pub(crate) fn tell(&self, control: Control) {
        self.edges.release();
        let _ = self.control.send(control);
        self.gate.wake();
        self.look_as_heir();
    }

    /// The device is closed, and no thread turns it any more: `heir` takes what was sent before, and what is sent from here on.
    pub(crate) fn set_heir(&self, heir: Arc<dyn Heir>) {
        *lock(&self.heir) = Some(heir);
        self.look_as_heir();
    }

    fn look_as_heir(&self) {
        let heir = lock(&self.heir).clone();
        if heir.is_some_and(|heir| heir.look()) {
            // Dropping it may be the end of the device: after the lock.
            let heir = lock(&self.heir).take();
            drop(heir);
        }
    }
}

/// Tells a device of the end of a timeline: a backend's own word that the device is lost, from any thread.
/// It waits for a cursor that never comes, so it costs nothing until then.
struct EndWatch(ToDevice);

impl std::task::Wake for EndWatch {
    fn wake(self: Arc<Self>) {
        self.0.tell(Control::TimelineEnded);
    }
}

/// Has the device told when one of these timelines ends.
pub(crate) fn watch_ends(timelines: &[Arc<Timeline>], device: &ToDevice) {
    let waker = Waker::from(Arc::new(EndWatch(device.clone())));
    for timeline in timelines {
        if timeline.register(u64::MAX, &waker).is_none() {
            waker.wake_by_ref();
        }
    }
}

/// Where effects go.
pub(crate) trait Outside {
    /// Carries the effect out, or hands it back when there is no room for it now.
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect>;
}

/// A device's deciding half with its mailbox.
pub(crate) struct DeviceActor<B: Backend> {
    pub(crate) server: Server<B>,
    receiver: Receiver<Task>,
    control: channel::Receiver<Control>,
    table: Arc<Table>,
    pub(crate) timelines: Vec<Arc<Timeline>>,
    burst: usize,
    closing: bool,
    /// The device was lost, and everything that it held was answered.
    wrecked: bool,
    /// The last effect found no room outside: the server keeps it, and those after it.
    outside_full: bool,
    /// Points that wake us, registered while idle.
    watches: Vec<(QueueId, WaitKey)>,
    wanted: Vec<Point>,
}

impl<B: Backend> DeviceActor<B> {
    pub(crate) fn new(
        server: Server<B>,
        receiver: Receiver<Task>,
        control: channel::Receiver<Control>,
        table: Arc<Table>,
        timelines: Vec<Arc<Timeline>>,
        burst: usize,
    ) -> Self {
        Self {
            server,
            receiver,
            control,
            table,
            timelines,
            burst,
            closing: false,
            wrecked: false,
            outside_full: false,
            watches: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// One turn. Says whether there was anything to do.
    pub(crate) fn turn(&mut self, outside: &mut impl Outside) -> bool {
        if self.server.wants_time() {
            self.server.tell_time(Instant::now());
        }
        // Asked once a burst: a log that is off costs no message anything.
        let taken = match self.server.is_logged() {
            false => self.take_burst(Server::admit),
            true => self.take_burst(Server::admit_logged),
        };
        if taken > 0 {
            self.receiver.wake_senders();
        }
        if self.server.is_lost() {
            return self.lost_turn(outside);
        }
        let mut worked = taken > 0;
        if taken > 0 || self.server.has_drops() {
            self.server.honour_drops();
            worked = true;
        }
        worked |= self.take_controls();
        if !self.server.is_lost() {
            worked |= self.server.progress();
        }
        if !self.server.is_lost() && self.server.can_flush() {
            self.server.flush_all();
            worked = true;
        }
        if self.server.is_lost() {
            return self.lost_turn(outside);
        }
        worked | self.carry_out(outside)
    }

    /// Takes messages while there are any, but not more than a burst, and tells how many.
    #[inline]
    fn take_burst(&mut self, mut admit: impl FnMut(&mut Server<B>, &mut Task)) -> usize {
        let Self {
            server,
            receiver,
            burst,
            ..
        } = self;
        let mut taken = 0;
        while taken < *burst
            && !server.is_lost()
            && receiver
                .try_recv_emptied(|task| admit(server, task))
                .is_some()
        {
            taken += 1;
        }
        taken
    }

    pub(crate) fn take_controls(&mut self) -> bool {
        let mut worked = false;
        while let Ok(control) = self.control.try_recv() {
            worked = true;
            match control {
                Control::HostFinished(token, outcome) => self.server.host_finished(token, outcome),
                Control::TimelineEnded => self.server.timeline_ended(),
                Control::LookAround => {}
                Control::Close => self.close(),
            }
        }
        worked
    }

    /// One turn of a lost device: whatever it has, and whatever still comes, is answered (I5).
    #[cold]
    fn lost_turn(&mut self, outside: &mut impl Outside) -> bool {
        let mut worked = false;
        if !self.wrecked {
            self.wrecked = true;
            worked = true;
            // From here on those who send are told at once, and those who wait on queues.
            self.receiver.close();
            self.timelines.iter().for_each(|timeline| timeline.end());
            self.table.returns().end();
            self.server.wreck();
        }
        let server = &mut self.server;
        while self
            .receiver
            .try_recv_emptied(|task| server.lose(task))
            .is_some()
        {
            worked = true;
        }
        if self.server.has_drops() {
            self.server.honour_drops();
            worked = true;
        }
        worked |= self.take_controls();
        worked | self.carry_out(outside)
    }

    fn carry_out(&mut self, outside: &mut impl Outside) -> bool {
        let mut worked = false;
        self.outside_full = false;
        while let Some(effect) = self.server.take_effect() {
            if let Err(effect) = outside.carry_out(effect) {
                self.server.return_effect(effect);
                self.outside_full = true;
                break;
            }
            worked = true;
        }
        worked
    }

    /// Accepts nothing more.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.receiver.close();
    }

    /// Is the device closing, and everything done?
    pub(crate) fn is_finished(&self) -> bool {
        self.closing && self.receiver.is_finished() && self.server.is_drained()
    }

    /// Is the device closing?
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Has somebody something for us? Only loads.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.receiver.has_next()
            || self.server.has_drops()
            || !self.control.is_empty()
            || self
                .wanted
                .iter()
                .any(|point| self.timelines[point.queue.index()].completed() >= point.cursor)
    }

    /// Before going idle: arranges to be woken by every point whose passing lets the server go on, and
    /// for the GC actor to watch what only frees memory. Says whether there is something to do at once.
    pub(crate) fn prepare_idle(&mut self, waker: &Waker, outside: &mut impl Outside) -> bool {
        self.carry_out(outside);
        // Where there is no room, the watches would pile up (I12). Whoever makes room wakes us.
        if !self.outside_full && !self.server.is_lost() {
            self.server.watch_freed();
            self.carry_out(outside);
        }
        self.wanted.clear();
        self.wanted.extend(self.server.wanted());
        if self.closing && !self.server.is_lost() {
            // What is in flight is waited for as well. On a lost device it will not pass.
            self.wanted.extend(self.server.last_points());
        }
        for point in &self.wanted {
            let timeline = &self.timelines[point.queue.index()];
            if let Some(key) = timeline.register(point.cursor, waker) {
                self.watches.push((point.queue, key));
                continue;
            }
            // Passed, or never to pass. We are told of the end as well, but only once whoever ends the
            // timeline comes to it; until then we would turn in vain.
            if timeline.has_ended() {
                self.server.timeline_ended();
            }
            return true;
        }
        false
    }

    /// After idling: forgets the points that were to wake us.
    pub(crate) fn end_idle(&mut self) {
        for (queue, key) in self.watches.drain(..) {
            self.timelines[queue.index()].cancel(key);
        }
        self.wanted.clear();
    }

    /// Waits until no user code of a closed device runs that may look at its memory. Blocks for as long as that takes.
    pub(crate) fn wait_for_user_code(&mut self, gate: &Gate) {
        let mut spinner = Spinner::new(SpinPolicy::never());
        loop {
            self.take_controls();
            if !self.server.user_code_runs() {
                return;
            }
            gate.wait_until(&mut spinner, || (!self.control.is_empty()).then_some(()));
        }
    }

    /// Leaves the backend to work that cannot be interrupted, and says how many queues that are.
    pub(crate) fn leak(self) -> u64 {
        let busy = self.server.busy_queues();
        std::mem::forget(self.server);
        busy
    }

    /// Ends with a lost device: what there is to be said of it, and the server where it may be dropped.
    pub(crate) fn end_lost(self) -> (Report, Option<Server<B>>) {
        let server = self.server;
        let mut report = Report::default();
        report.slices_held = server.live_slices();
        report.tasks_left = server.tasks_lost();
        if server.recovery() == Some(Recovery::SameProcess) && !server.user_code_runs() {
            return (report, Some(server));
        }
        // Nothing of it may be touched any more, or somebody may still look at its memory.
        report.bytes_left = server.leave_pages();
        report.threads_left = server.busy_queues();
        std::mem::forget(server);
        (report, None)
    }

    /// Nothing will run any more: fails what is held, answers what is left in the mailbox, refuses what comes, wakes the threads that wait.
    pub(crate) fn abandon(&mut self) -> u64 {
        self.receiver.close();
        for timeline in &self.timelines {
            timeline.end();
        }
        self.table.returns().end();
        // Dropping what users gave is running their code; what it panics with ends here.
        let mut left = 0;
        let Self {
            server, receiver, ..
        } = self;
        let mut refuse_all = || {
            left += server.abandon();
            // The mailbox may outlive the close, behind user code that runs: its askers do not wait for that (I5).
            receiver.finish_with(|task| server.lose(task));
        };
        while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut refuse_all)) {
            payload::end(panic);
        }
        left + server.tasks_lost()
    }
}
