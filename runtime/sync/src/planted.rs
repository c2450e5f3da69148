//! Planted bugs: each model in `loom-tests` must be able to fail, and these make it fail.
//!
//! They exist only in models (`--cfg loom` or `--cfg shuttle`) with the feature `planted-bugs`, where the
//! environment variable `MILLSTREAM_BUG` names the one that is on; in any other build [`on`] is a
//! constant `false`. They are chosen at run time because a build per bug would take minutes.

use std::sync::atomic::Ordering;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $($(#[$doc])* $name,)* }
        impl Bug {
            /// All of them, in the order of the modules.
            pub const ALL: &'static [Bug] = &[$(Bug::$name,)*];
            /// The name that `MILLSTREAM_BUG` takes.
            pub const fn name(self) -> &'static str { match self { $(Bug::$name => $text,)* } }
        }
    };
}

bugs! {
    /// `Gate::wake` reads `asleep` without the fence before it.
    GateNoFence = "gate_no_fence",
    /// The gate's sleeper looks again without the fence before it.
    GateSleeperNoFence = "gate_sleeper_no_fence",
    /// The gate's sleeper does not look again after it has said that it sleeps.
    GateNoSecondLook = "gate_no_second_look",
    /// `Bell::ring` looks for sleepers without the fence before it.
    BellNoFence = "bell_no_fence",
    /// Who goes to sleep listens again without the fence before it.
    BellSleeperNoFence = "bell_sleeper_no_fence",
    /// Who is woken by a ring that he had heard sleeps on without entering the list again.
    BellLateRing = "bell_late_ring",
    /// Arming a gate does not fence before the caller's last look.
    GateArmNoFence = "gate_arm_no_fence",
    /// Who finds a door shut tries again without the fence before it.
    DoorNoFence = "door_no_fence",
    /// Who finds a door shut does not try again.
    DoorNoSecondTry = "door_no_second_try",
    /// Who leaves looks for others without the fence before it.
    DoorLeaverNoFence = "door_leaver_no_fence",
    /// A message is published with a relaxed store.
    MailboxPublishRelaxed = "mailbox_publish_relaxed",
    /// The receiver looks for a message with a relaxed load.
    MailboxReceiveRelaxed = "mailbox_receive_relaxed",
    /// The consumer frees a slot with a relaxed store.
    MailboxFreeRelaxed = "mailbox_free_relaxed",
    /// A producer looks for a free slot with a relaxed load.
    MailboxClaimRelaxed = "mailbox_claim_relaxed",
    /// Closing reads the tail instead of marking it.
    MailboxCloseNoMark = "mailbox_close_no_mark",
    /// The last sender closes without waking the receiver.
    MailboxLastSenderSilent = "mailbox_last_sender_silent",
    /// The receiver looks for waiting producers without the fence.
    MailboxRoomNoFence = "mailbox_room_no_fence",
    /// A producer that waits for room tries again without the fence.
    MailboxWaiterNoFence = "mailbox_waiter_no_fence",
    /// A closing receiver forgets the producers that wait for room.
    MailboxCloseSilent = "mailbox_close_silent",
    /// A wake for room is spent on a task, which may be gone, though a thread waits behind it.
    MailboxWakesTaskAlone = "mailbox_wakes_task_alone",
    /// A task that waits for room looks once more without the fence.
    MailboxTaskNoFence = "mailbox_task_no_fence",
    /// What is sent overtakes what lies in the overflow.
    OverflowOvertaken = "overflow_overtaken",
    /// The overflow is taken without another look at the ring.
    OverflowFirst = "overflow_first",
    /// What goes to the overflow wakes nobody.
    OverflowSilent = "overflow_silent",
    /// The answer is published with a relaxed exchange.
    ReplyRelaxed = "reply_relaxed",
    /// The waiter is announced with a relaxed exchange.
    ReplyAnnounceRelaxed = "reply_announce_relaxed",
    /// The answer is looked for with relaxed loads.
    ReplyLookRelaxed = "reply_look_relaxed",
    /// A changed waker is written while the sender may read the old one.
    ReplyWakerInPlace = "reply_waker_in_place",
    /// A dropped sender says nothing.
    ReplyDropSilent = "reply_drop_silent",
    /// What is known is looked for before the lock of the flights is taken.
    FlightLookFirst = "flight_look_first",
    /// Who leaves a key tells nobody.
    FlightEndSilent = "flight_end_silent",
    /// `Timeline::publish` looks for waiters without the fence.
    TimelineNoFence = "timeline_no_fence",
    /// Who waits for a cursor looks at it again without the fence.
    TimelineWaiterNoFence = "timeline_waiter_no_fence",
    /// `Timeline::publish` stores the cursor relaxed.
    TimelineRelaxed = "timeline_relaxed",
    /// The cursor is read with a relaxed load.
    TimelineReadRelaxed = "timeline_read_relaxed",
    /// `Timeline::end` wakes nobody.
    TimelineEndSilent = "timeline_end_silent",
    /// A handle's drop does not release.
    CountDropRelaxed = "count_drop_relaxed",
    /// The last drop does not acquire.
    CountNoAcquire = "count_no_acquire",
    /// `is_unique` is a relaxed load.
    CountUniqueRelaxed = "count_unique_relaxed",
    /// The free list's head carries no tag.
    FreeListNoTag = "free_list_no_tag",
    /// Recycling pushes without release.
    FreeListRelaxed = "free_list_relaxed",
    /// Acquiring pops without acquire.
    FreeListPopRelaxed = "free_list_pop_relaxed",
    /// The dropped list is pushed without release.
    DroppedRelaxed = "dropped_relaxed",
    /// The dropped list is taken without acquire.
    DroppedTakeRelaxed = "dropped_take_relaxed",
    /// The stamp is read before the count reaches zero.
    DroppedStampEarly = "dropped_stamp_early",
    /// Nobody is woken by the first push on the dropped list.
    DroppedSilent = "dropped_silent",
    /// Recycling a slot that is waited for wakes no waiter.
    SlotReturnSilent = "slot_return_silent",
    /// The poison cell's flag is written after its lock was given back.
    PoisonFlagOutsideLock = "poison_flag_outside_lock",
    /// The poison cell's flag is not written at all when a range is marked.
    PoisonNoFlag = "poison_no_flag",
    /// A release looks for waiters before it gives back.
    CreditLookFirst = "credit_look_first",
    /// Credit is given back with a relaxed subtraction.
    CreditReleaseRelaxed = "credit_release_relaxed",
    /// Credit is taken with a relaxed exchange.
    CreditAcquireRelaxed = "credit_acquire_relaxed",
    /// A release serves one waiter, though there is room for two.
    CreditNoBaton = "credit_no_baton",
    /// `Credit::end` wakes nobody.
    CreditEndSilent = "credit_end_silent",
    /// Who takes credit beyond the limit forgets that others wait.
    CreditBeyondForgets = "credit_beyond_forgets",
    /// A place that is given up keeps what it was granted.
    CreditPlaceKeeps = "credit_place_keeps",
    /// A token is given back without release.
    TokenGiveRelaxed = "token_give_relaxed",
    /// A token is taken without acquire.
    TokenTakeRelaxed = "token_take_relaxed",
    /// A job is posted without release.
    TeamOpenRelaxed = "team_open_relaxed",
    /// A member enters without acquire.
    TeamEnterRelaxed = "team_enter_relaxed",
    /// A member stays in a slot that it has found closed.
    TeamEnterClosed = "team_enter_closed",
    /// A member leaves without release.
    TeamExitRelaxed = "team_exit_relaxed",
    /// The last member to leave wakes nobody.
    TeamExitSilent = "team_exit_silent",
    /// The seat looks without acquire whether everybody has left.
    TeamDoneRelaxed = "team_done_relaxed",
    /// `Team::stop` wakes nobody.
    TeamStopSilent = "team_stop_silent",
    /// The model channel's last sender wakes nobody.
    ChannelDropSilent = "channel_drop_silent",
}

/// Whether this bug is switched on.
#[cfg(all(
    feature = "planted-bugs",
    any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle"))
))]
pub fn on(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN
        .get_or_init(|| std::env::var("MILLSTREAM_BUG").ok())
        .as_deref()
        == Some(bug.name())
}

/// Whether this bug is switched on: never, in this build.
#[cfg(not(all(
    feature = "planted-bugs",
    any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle"))
)))]
#[inline(always)]
pub const fn on(_: Bug) -> bool {
    false
}

/// `ordering`, or `Relaxed` when the bug is on.
#[inline(always)]
pub(crate) fn weaken(bug: Bug, ordering: Ordering) -> Ordering {
    if on(bug) { Ordering::Relaxed } else { ordering }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bug_is_on_in_a_build() {
        assert!(Bug::ALL.iter().all(|&bug| !on(bug)));
    }

    #[test]
    fn every_bug_has_a_name_of_its_own() {
        let mut names: Vec<_> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Bug::ALL.len());
    }
}
