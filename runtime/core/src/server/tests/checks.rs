//! What must hold when a random program has ended.

use super::oracle::Oracle;
use super::program::Run;

impl Run {
    /// Nothing more is sent: everything must end by itself.
    pub(super) fn finish(mut self) {
        self.rig.drain();
        assert_eq!(self.rig.held(), 0, "tasks are held for ever (I5)");
        self.check_answers();
        self.check_orders();
        self.check_nothing_is_left();
    }

    pub(super) fn check_answers(&mut self) {
        let (reserved, refused) = {
            let ledger = self.rig.ledger.get();
            (ledger.memory.reserved.clone(), ledger.refused.clone())
        };
        let oracle = Oracle::run(&self.sent, &reserved, &refused);
        for (index, answer) in self.answers.iter_mut().enumerate() {
            let got = answer
                .look(&self.rig)
                .unwrap_or_else(|| panic!("ask {index} is never answered (I5)"));
            match oracle.answers.get(&index) {
                None => assert!(got.is_ok(), "a sync has no failure of its own"),
                Some(expected) => assert_eq!(
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
            // A task that did not run has no place.
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

    /// I10.
    pub(super) fn check_nothing_is_left(mut self) {
        self.slices.clear();
        self.points.clear();
        self.recordings.clear();
        for stream in &self.streams {
            assert!(stream.credit.in_use() < 32, "credit is given back");
        }
        self.streams.clear();
        drop(self.kernel);
        self.rig.drain();
        let server = &self.rig.server;
        assert!(server.is_drained());
        assert_eq!((server.live_slices(), server.slices.len()), (0, 0));
        assert_eq!((server.streams.len(), server.kernels.len()), (0, 0));
        assert_eq!((server.recordings.len(), self.rig.table.live()), (0, 0));
        assert_eq!((server.dropped_in_use, server.hungry.len()), (0, 0));
        assert!(server.host_turns.is_empty() && server.early_drops.is_empty());
        let usage = server.pools.usage();
        assert_eq!((usage.in_use, usage.busy, usage.live), (0, 0, 0));
        assert_eq!(
            server
                .accounts
                .iter()
                .map(|(_, account)| account.in_use)
                .sum::<u64>(),
            0
        );
        for queue in &server.queues {
            assert_eq!((queue.turn.len(), queue.streams), (0, 0));
            assert!(queue.retiring.is_empty());
        }
        assert_eq!((self.rig.collects(), self.rig.hosts()), (0, 0));
        self.rig.server.free_pages();
        assert_eq!(self.rig.ledger.get().memory.live(), (0, 0));
    }
}
