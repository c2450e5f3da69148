//! Which model, and which walk, catches which planted bug.

use millstream_sync::planted::Bug;

/// The model that must fail when `bug` is on. A new bug does not compile without one.
pub const fn caught_by(bug: Bug) -> &'static str {
    match bug {
        Bug::GateNoFence | Bug::GateSleeperNoFence | Bug::GateNoSecondLook => {
            "gate::no_wake_is_lost"
        }
        Bug::BellNoFence | Bug::BellSleeperNoFence => "bell::no_ring_is_lost",
        Bug::GateArmNoFence => "gate::an_armed_gate_rings",
        Bug::DoorNoFence | Bug::DoorNoSecondTry | Bug::DoorLeaverNoFence => {
            "door::nothing_is_left_behind"
        }
        Bug::BellLateRing => "bell::a_late_ring_does_not_hide_the_next",
        Bug::MailboxPublishRelaxed | Bug::MailboxReceiveRelaxed => {
            "mailbox::two_messages_of_one_sender"
        }
        Bug::MailboxFreeRelaxed | Bug::MailboxClaimRelaxed => "mailbox::a_freed_slot_is_used_again",
        Bug::MailboxRoomNoFence | Bug::MailboxWaiterNoFence => "mailbox::a_full_mailbox_makes_room",
        Bug::MailboxCloseNoMark => "mailbox::closing_tells_what_was_accepted",
        Bug::MailboxLastSenderSilent => "mailbox::the_last_sender_closes",
        Bug::MailboxCloseSilent => "mailbox::closing_releases_a_blocked_sender",
        Bug::MailboxTaskNoFence => "mailbox::a_task_that_waits_for_room_is_woken",
        Bug::MailboxWakesTaskAlone => "mailbox::tasks_that_are_gone_keep_no_room_from_a_thread",
        Bug::OverflowOvertaken => "overflow::the_ring_is_used_again_after_the_overflow_alone",
        Bug::OverflowFirst | Bug::OverflowSilent => {
            "overflow::a_burst_wakes_a_sleeper_and_keeps_its_order"
        }
        Bug::ReplyRelaxed | Bug::ReplyAnnounceRelaxed => "reply::a_value_arrives",
        Bug::ReplyWakerInPlace => "reply::the_waker_changes_between_polls",
        Bug::ReplyLookRelaxed => "reply::a_value_is_taken_as_soon_as_it_is_there",
        Bug::ReplyDropSilent => "reply::a_dropped_sender_is_an_answer",
        Bug::FlightLookFirst => "flight::a_key_is_done_once",
        Bug::FlightEndSilent => "flight::nobody_waits_for_who_has_left",
        Bug::TimelineNoFence | Bug::TimelineWaiterNoFence => {
            "timeline::a_wait_ends_when_the_cursor_is_published"
        }
        Bug::TimelineRelaxed | Bug::TimelineReadRelaxed => {
            "timeline::a_published_cursor_carries_what_was_done"
        }
        Bug::TimelineEndSilent => "timeline::the_end_wakes_who_waits",
        Bug::CountDropRelaxed | Bug::CountNoAcquire => {
            "slots::the_last_drop_may_be_on_either_thread"
        }
        Bug::CountUniqueRelaxed => "slots::alone_means_that_the_others_are_done",
        Bug::FreeListNoTag => "slots::a_slot_is_not_handed_out_twice",
        Bug::FreeListRelaxed | Bug::FreeListPopRelaxed => {
            "slots::a_recycled_slot_is_as_its_recycler_left_it"
        }
        Bug::DroppedRelaxed | Bug::DroppedTakeRelaxed => "slots::two_droppers_and_one_taker",
        Bug::DroppedStampEarly => "slots::a_stamp_covers_what_was_sent_before",
        Bug::DroppedSilent => "slots::a_drop_wakes_the_device_thread",
        Bug::SlotReturnSilent => "slots::who_waits_for_a_slot_learns_of_its_return",
        Bug::PoisonFlagOutsideLock => "poison::healing_one_range_keeps_the_mark_of_another",
        Bug::PoisonNoFlag => "poison::a_mark_is_seen_by_who_comes_after",
        Bug::CreditLookFirst => "credit::a_release_reaches_who_waits",
        Bug::CreditReleaseRelaxed | Bug::CreditAcquireRelaxed => {
            "credit::credit_orders_its_holders"
        }
        Bug::CreditNoBaton => "credit::one_release_serves_two",
        Bug::CreditBeyondForgets => {
            "credit::who_goes_beyond_the_limit_leaves_those_who_wait_their_turn"
        }
        Bug::CreditPlaceKeeps => "credit::a_place_that_is_given_up_keeps_nothing",
        Bug::CreditEndSilent => "credit::the_end_is_an_answer",
        Bug::TokenGiveRelaxed | Bug::TokenTakeRelaxed => {
            "tokens::who_takes_a_token_comes_after_its_last_holder"
        }
        Bug::TeamOpenRelaxed
        | Bug::TeamEnterRelaxed
        | Bug::TeamExitRelaxed
        | Bug::TeamDoneRelaxed
        | Bug::TeamExitSilent => "team::each_piece_runs_once_and_is_seen",
        Bug::TeamEnterClosed => "team::a_late_member_leaves_the_next_job_alone",
        Bug::TeamStopSilent => "team::the_stop_ends_a_member",
        Bug::ChannelDropSilent => "channel::a_hand_over_ends_with_its_last_sender",
    }
}

/// Errors of protocol, and the walk of whole devices that must fail when one of them is on.
pub const CAUGHT_BY_ACTORS: &[(Bug, &str)] = &[
    (
        Bug::GateNoSecondLook,
        "closing::every_ask_of_a_closing_simulator_ends",
    ),
    (
        Bug::MailboxCloseNoMark,
        "pressure::a_close_ends_the_wait_for_room",
    ),
    (
        Bug::ReplyDropSilent,
        "losing::every_ask_of_a_dying_device_ends",
    ),
    (
        Bug::TimelineEndSilent,
        "losing::every_ask_of_a_dying_device_ends",
    ),
    (
        Bug::DroppedSilent,
        "closing::a_last_drop_wakes_a_device_that_sleeps",
    ),
    (
        Bug::CreditLookFirst,
        "pressure::nobody_waits_for_room_for_ever",
    ),
    (
        Bug::TeamStopSilent,
        "closing::every_ask_of_a_closing_cpu_ends",
    ),
    (
        Bug::ChannelDropSilent,
        "closing::a_device_may_be_dropped_in_a_host_function",
    ),
];

/// Errors of protocol, and the walk that must fail when one of them is on. Errors of ordering are invisible
/// to walks.
pub const CAUGHT_BY_WALKS: &[(Bug, &str)] = &[
    (Bug::ReplyDropSilent, "asks_end_when_the_actor_dies"),
    (Bug::MailboxCloseNoMark, "asks_end_when_the_actor_dies"),
    (
        Bug::DroppedStampEarly,
        "a_slot_outlives_the_messages_that_name_it",
    ),
    (
        Bug::CreditLookFirst,
        "work_in_flight_is_bounded_and_collected",
    ),
    (
        Bug::ChannelDropSilent,
        "work_in_flight_is_bounded_and_collected",
    ),
];
