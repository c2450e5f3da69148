//! The facts that must hold when a random program has ended.

use millstream_sync::credit::AcquireError;
use millstream_sync::facade::SpinPolicy;

use super::oracle::{self, Expected};
use super::program::Run;

impl Run {
    /// Ends the program: without further messages, everything must end.
    pub(super) fn finish(mut self) {
        self.rig.drain();
        assert_eq!(self.rig.held(), 0, "tasks are held for ever (I5)");
        self.check_answers(|_| true);
        self.check_orders();
        self.check_nothing_is_left();
    }

    /// Abandons the device here, whatever it holds, while everything else goes on: issued tasks complete, host
    /// functions and guards end or never do.
    pub(super) fn abandon(mut self) {
        let choice = self.number;
        if choice.is_multiple_of(2) {
            // Admits without carrying out effects, so that some are pending.
            self.rig.admit();
        }
        let before: Vec<bool> = self
            .answers
            .iter_mut()
            .map(|answer| answer.look(&self.rig).is_some())
            .collect();
        let guards_out = !self.rig.guards.lock().unwrap().is_empty();
        let held = self.rig.abandon();
        let mut ledger = self.rig.ledger.get();
        let coverage = &mut ledger.coverage;
        coverage.note("abandoned");
        coverage.note_if("abandoned with tasks held", held > 0);
        coverage.note_if("abandoned with requests open", before.contains(&false));
        coverage.note_if("abandoned with guards out", guards_out);
        drop(ledger);
        assert_eq!(self.rig.abandon(), 0, "nothing is left");
        self.check_credits();
        match choice % 3 {
            0 => self.rig.forget_hosts(),
            _ => while self.rig.run_host(choice as usize) {},
        }
        while choice % 3 == 1 && self.rig.end_guard(choice as usize) {}
        self.rig.complete();
        self.check_answers(|index| before[index]);
        self.check_orders();
    }

    /// I12: no caller waits for credit of a stream of an abandoned device.
    fn check_credits(&self) {
        let now = std::time::Instant::now();
        let streams = self.streams.iter();
        for stream in streams.filter(|stream| self.rig.server.objects.stream(stream.id()).is_some())
        {
            stream.credit.try_acquire(1).unwrap();
            let all = stream.credit.limit();
            let wait =
                stream
                    .credit
                    .acquire_in_order((all, false), &SpinPolicy::never(), Some(now));
            assert!(matches!(wait, Some(Err(AcquireError::Ended))), "{wait:?}");
        }
    }

    /// I5: every request is answered, as the oracle computes. One that was not `settled` may have failed because the
    /// device was abandoned.
    pub(super) fn check_answers(&mut self, settled: impl Fn(usize) -> bool) {
        let expected = oracle::answers(
            &self.sent,
            &self.rig.ledger.get(),
            &self.rig.server.reserved_again,
        );
        for (index, answer) in self.answers.iter_mut().enumerate() {
            let Some(got) = answer.look(&self.rig) else {
                // A caller that waits for a point of an abandoned device is woken by the end of the timeline.
                assert!(
                    answer.is_answered() && !settled(index),
                    "request {index} is never answered (I5)"
                );
                continue;
            };
            if got.is_err() && !settled(index) {
                continue;
            }
            match expected.get(&index) {
                None => assert!(got.is_ok(), "a sync has no failure of its own"),
                Some(Expected::Unknown) => {}
                Some(Expected::Known(expected)) => assert_eq!(
                    got.ok().as_ref(),
                    expected.as_ref(),
                    "answer {index} differs (I1, I2, I7)"
                ),
            }
        }
    }

    /// I1: the order within streams, and explicit edges.
    pub(super) fn check_orders(&self) {
        let ledger = self.rig.ledger.get();
        for (first, second) in &self.orders {
            // A task that did not run has no point.
            if let (Some(first), Some(second)) =
                (ledger.issues.get(first), ledger.issues.get(second))
            {
                assert!(
                    second.comes_after(first.point),
                    "{second:?} must come after {first:?} (I1)"
                );
            }
        }
    }

    /// I10: nothing is left.
    pub(super) fn check_nothing_is_left(mut self) {
        self.slices.clear();
        self.points.clear();
        self.recordings.clear();
        for stream in &self.streams {
            assert!(stream.credit.in_use() < 32, "credit is given back");
        }
        self.streams.clear();
        self.rig.kernel = None;
        self.rig.drain();
        let server = &self.rig.server;
        assert!(server.is_drained());
        assert_eq!((server.live_slices(), server.hazards.ids().count()), (0, 0));
        let scheduler = &server.scheduler;
        assert_eq!((scheduler.stream_count(), self.rig.table.live()), (0, 0));
        assert!(server.objects.is_empty());
        assert_eq!(
            (
                server.drops.held_slices,
                server.memory.wait_list.streams().count()
            ),
            (0, 0)
        );
        assert!(!scheduler.has_waiting_hosts() && server.drops.pending() == 0);
        assert!(server.drops.retiring.is_empty());
        let usage = server.memory.pools.usage();
        assert_eq!((usage.in_use, usage.waiting, usage.live_slices), (0, 0, 0));
        assert_eq!(
            server
                .memory
                .accounts
                .iter()
                .map(|memory| memory.in_use)
                .sum::<u64>(),
            0
        );
        for (id, queue) in scheduler.queue_ids().zip(scheduler.queue_stats()) {
            assert_eq!((scheduler.has_turns(id), queue.streams), (false, 0));
        }
        assert_eq!((self.rig.collects(), self.rig.hosts()), (0, 0));
        self.rig.server.free_pages();
        assert_eq!(self.rig.ledger.get().memory.live(), (0, 0));
    }
}
