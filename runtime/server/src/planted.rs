//! Planted bugs: what random programs on the adversarial device must find.
//!
//! They exist only with the feature `planted-bugs`, which the swarm alone turns on, and one at most is on at
//! a time. In any other build nothing of them is left.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One planted bug.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Bug { $($(#[$doc])* $name,)* }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Bug] = &[$(Bug::$name,)*];

            /// Its name on a command line.
            pub const fn name(self) -> &'static str {
                match self { $(Bug::$name => $text,)* }
            }
        }
    };
}

bugs! {
    /// A wait between queues is noted, but not issued.
    WaitDropped = "wait_dropped",
    /// What is waited for is the task before the one that matters.
    WaitOneEarly = "wait_one_early",
    /// A wait brings in what its point's queue has waited for by now, not what it had at the point.
    ClockAtWait = "clock_at_wait",
    /// A write does not come after the reads since the last write.
    WriteIgnoresReaders = "write_ignores_readers",
    /// A task is not ordered with what other streams hold.
    ConflictIgnored = "conflict_ignored",
    /// The last four bytes of a binding are not entered in the log.
    RangeShort = "range_short",
    /// Memory is free one task before its last use.
    ReuseEarly = "reuse_early",
    /// Memory that is only read is free at once.
    ReuseIgnoresReaders = "reuse_ignores_readers",
    /// A slice in reused memory does not inherit what still uses it.
    ResidueForgotten = "residue_forgotten",
    /// A drop is honoured before the messages that were sent before it.
    DropEarly = "drop_early",
    /// A task that fails when it is issued poisons nothing.
    PoisonLost = "poison_lost",
    /// What is defined anew stays poisoned.
    HealForgotten = "heal_forgotten",
    /// A sync is answered before the task before it.
    AnswerEarly = "answer_early",
    /// A stream changes its queue while it has work on the old one.
    MovesBusy = "moves_busy",
    /// Who waits for a held task is not told when it goes.
    WakeForgotten = "wake_forgotten",
}

#[cfg(feature = "planted-bugs")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(u8::MAX);

/// Switches one bug on for the whole process, or all off.
#[cfg(feature = "planted-bugs")]
pub fn choose(bug: Option<Bug>) {
    let chosen = bug.map_or(u8::MAX, |bug| bug as u8);
    // Relaxed: a switch, thrown before the programs that it is for.
    CHOSEN.store(chosen, std::sync::atomic::Ordering::Relaxed);
}

/// Is this bug switched on?
#[cfg(feature = "planted-bugs")]
#[inline]
pub(crate) fn on(bug: Bug) -> bool {
    // Relaxed: see `choose`.
    CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Is this bug switched on? Never, in this build.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn on(_: Bug) -> bool {
    false
}
