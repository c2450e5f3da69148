//! The device actor: a server with its mailbox and control channel.
//!
//! # One turn
//! 1. Takes a burst of messages from the mailbox, at most `flush_every`, and admits them.
//! 2. Honours drops whose stamp the mailbox has passed.
//! 3. Takes controls: host functions that ended, timelines that ended, a close.
//! 4. Advances what completions allow, and flushes what streams hold.
//! 5. Carries out effects: values to the GC, host functions to their threads.
//!
//! If the server finds the device lost during any of these, a lost turn follows: it closes the mailbox, ends the
//! timelines, and answers everything that is held or still arrives (I5).
//!
//! A turn never waits.
//!
//! What others decide:
//!
//! | question | where |
//! | --- | --- |
//! | Which thread takes the turn, and what happens between turns? | `executor` |
//! | What does a message do? | `server`, which asks the machines of `runtime/state`: hazards, memory, objects, observers |
//! | Which held task is issued next? | `scheduler` and [`stream_actor`](crate::stream_actor) |
//! | When is a value dropped that the device may use? | [`gc_actor`](crate::gc_actor) |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::server::Server;
use millstream_protocol::{Backend, DeferredDrop, Point, QueueId, Recovery, Report, Table, Task};
use millstream_sync::channel;
use millstream_sync::mailbox::Receiver;
use millstream_sync::payload::{self, KeptValues};
use millstream_sync::timeline::{Timeline, WaitKey};

use crate::control::Control;
use crate::effects::Effects;

/// A server with its mailbox and its control channel.
pub(crate) struct DeviceActor<B: Backend> {
    pub(crate) server: Server<B>,
    receiver: Receiver<Task>,
    control: channel::Receiver<Control>,
    table: Arc<Table>,
    pub(crate) timelines: Vec<Arc<Timeline>>,
    burst: usize,
    closing: bool,
    /// The device was lost, and everything that was held has been answered.
    loss_handled: bool,
    /// Points that wake us, registered while idle.
    watches: Vec<(QueueId, WaitKey)>,
    awaited_points: Vec<Point>,
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
            loss_handled: false,
            watches: Vec::new(),
            awaited_points: Vec::new(),
        }
    }

    /// Takes one turn. Returns `true` if there was anything to do. Users' values that it gives up are dropped on another
    /// thread: backends drop what they refuse.
    pub(crate) fn turn(&mut self, effects: &mut Effects) -> bool {
        let kept = KeptValues::begin();
        let worked = self.take_turn(effects);
        let values = kept.take();
        let has_values = !values.is_empty();
        for value in values {
            self.server.drop_elsewhere(value);
        }
        worked | has_values
    }

    fn take_turn(&mut self, effects: &mut Effects) -> bool {
        if self.server.wants_time() {
            self.server.set_time(Instant::now());
        }
        // Checked once a burst, so that a log that is off costs no message anything.
        let taken = match self.server.is_logged() {
            false => self.take_burst(Server::admit),
            true => self.take_burst(Server::admit_logged),
        };
        if taken > 0 {
            self.receiver.wake_senders();
        }
        if self.server.is_lost() {
            return self.lost_turn(effects);
        }
        let mut worked = taken > 0;
        if taken > 0 || self.server.has_drops() {
            self.server.process_drops();
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
            return self.lost_turn(effects);
        }
        worked | self.carry_out(effects)
    }

    /// Admits messages until there are none or a burst is complete, and returns their number.
    #[inline]
    pub(crate) fn take_burst(&mut self, mut admit: impl FnMut(&mut Server<B>, &mut Task)) -> usize {
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
                Control::HostFinished(token, outcome, keeps) => {
                    self.server.host_finished(token, outcome);
                    drop(keeps);
                }
                Control::TimelineEnded => self.server.timeline_ended(),
                Control::Wake => {}
                Control::Close => self.close(),
            }
        }
        worked
    }

    /// One turn of a lost device: answers everything that is held, and everything that still arrives (I5).
    #[cold]
    fn lost_turn(&mut self, effects: &mut Effects) -> bool {
        let mut worked = false;
        if !self.loss_handled {
            self.loss_handled = true;
            worked = true;
            // From here on senders and waiters on queues receive the error at once.
            self.receiver.close();
            self.timelines.iter().for_each(|timeline| timeline.end());
            self.table.returns().end();
            self.server.end_epoch();
        }
        let server = &mut self.server;
        while self
            .receiver
            .try_recv_emptied(|task| server.answer_lost(task))
            .is_some()
        {
            worked = true;
        }
        if self.server.has_drops() {
            self.server.process_drops();
            worked = true;
        }
        worked |= self.take_controls();
        worked | self.carry_out(effects)
    }

    fn carry_out(&mut self, effects: &mut Effects) -> bool {
        let mut worked = false;
        while let Some(effect) = self.server.effects.pop_front() {
            if let Err(effect) = effects.carry_out(effect) {
                self.server.effects.push_front(effect);
                break;
            }
            worked = true;
        }
        worked
    }

    /// Closes the mailbox: no further messages are accepted.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.receiver.close();
    }

    /// Returns `true` if the device is closing and has drained.
    pub(crate) fn is_finished(&self) -> bool {
        self.closing && self.receiver.is_finished() && self.server.is_drained()
    }

    /// Returns `true` if the device is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Returns `true` if there is work: a message, a drop, a control, or a wanted point that has passed. Only loads.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.receiver.has_next()
            || self.server.has_drops()
            || self.has_controls()
            || self
                .awaited_points
                .iter()
                .any(|point| self.timelines[point.queue.index()].completed() >= point.cursor)
    }

    /// Prepares to idle: registers at every point whose passing lets the server go on, or frees memory. Returns `true`
    /// if there is work at once.
    pub(crate) fn prepare_idle(&mut self, waker: &Waker, effects: &mut Effects) -> bool {
        self.carry_out(effects);
        if self.has_controls() {
            // A task that began just now has ended. The thread that runs the device is not woken for it.
            return true;
        }
        self.awaited_points.clear();
        self.awaited_points.extend(self.server.awaited_points());
        if self.closing && !self.server.is_lost() {
            // A close also waits for what is in flight. On a lost device that never completes.
            self.awaited_points.extend(self.server.last_points());
        }
        for point in &self.awaited_points {
            let timeline = &self.timelines[point.queue.index()];
            if let Some(key) = timeline.register_own(point.cursor, waker) {
                self.watches.push((point.queue, key));
                continue;
            }
            // The cursor has passed, or the timeline has ended. Of its end we are notified as well, but later, by the
            // thread that ends it; until then every turn would find this point and do nothing.
            if timeline.has_ended() {
                self.server.timeline_ended();
            }
            return true;
        }
        false
    }

    /// Ends idling: unregisters the points.
    pub(crate) fn end_idle(&mut self) {
        for (queue, key) in self.watches.drain(..) {
            self.timelines[queue.index()].cancel(key);
        }
        self.awaited_points.clear();
    }

    /// Returns `true` if a control was sent.
    pub(crate) fn has_controls(&self) -> bool {
        !self.control.is_empty()
    }

    /// Ends a lost device. Returns its report, and the server if it may be dropped.
    pub(crate) fn end_lost(self) -> (Report, Option<Server<B>>) {
        let server = self.server;
        let mut report = Report::default();
        report.slices_held = server.live_slices();
        report.tasks_left = server.tasks_lost();
        if server.recovery() == Some(Recovery::SameProcess) && !server.user_code_runs() {
            return (report, Some(server));
        }
        // The memory may not be touched, or user code may still access it, so the server is leaked.
        report.bytes_left = server.leave_pages();
        report.threads_left = server.busy_queues();
        std::mem::forget(server);
        (report, None)
    }

    /// Gives up everything that has not run: fails held tasks, answers the mailbox, closes it, and wakes the waiting
    /// threads. Returns the number of tasks, and the code and values of users that another thread must drop.
    pub(crate) fn abandon(&mut self) -> (u64, Vec<DeferredDrop>) {
        let kept = KeptValues::begin();
        self.receiver.close();
        for timeline in &self.timelines {
            timeline.end();
        }
        self.table.returns().end();
        let Self {
            server, receiver, ..
        } = self;
        let mut refuse_all = || {
            server.abandon();
            // User code may keep the mailbox alive beyond the close; its callers do not wait for that (I5).
            receiver.finish_with(|task| server.answer_lost(task));
        };
        while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut refuse_all)) {
            payload::end(panic);
        }
        let mut values = server.take_unused_values();
        values.extend(kept.take().into_iter().map(DeferredDrop::unawaited));
        (server.tasks_lost(), values)
    }
}
