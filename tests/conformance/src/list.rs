//! The facts by name, once, and what each needs of a device.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::facts;
use crate::subject::Way;
use crate::support::{NoTwin, On};

/// What a fact needs of a device. A device that lacks it skips the fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Need {
    /// It runs by itself.
    Threads,
    /// It is driven.
    Driven,
    /// It has one queue.
    OneQueue,
    /// See [`Abilities::queues_overlap`](crate::Abilities::queues_overlap).
    QueuesOverlap,
    /// See [`Abilities::rust_kernels`](crate::Abilities::rust_kernels).
    RustKernels,
    /// See [`Abilities::dynamic_counts`](crate::Abilities::dynamic_counts).
    DynamicCounts,
    /// See [`Abilities::holds_kernels`](crate::Abilities::holds_kernels).
    HeldKernels,
    /// See [`Abilities::leaves_tasks_behind`](crate::Abilities::leaves_tasks_behind).
    LeavesTasksBehind,
    /// See [`Abilities::memory_is_lazy`](crate::Abilities::memory_is_lazy).
    LazyMemory,
}

impl Need {
    /// The need in words, as a skip says it.
    fn words(self) -> &'static str {
        match self {
            Need::Threads => "a device that runs by itself",
            Need::Driven => "a driven device",
            Need::OneQueue => "a device with one queue",
            Need::QueuesOverlap => "queues whose tasks run at the same time",
            Need::RustKernels => "kernels in Rust",
            Need::DynamicCounts => "cube counts that are read on the device",
            Need::HeldKernels => "kernels that can be held",
            Need::LeavesTasksBehind => "a close that leaves behind what does not end",
            Need::LazyMemory => "slices longer than the memory of the host",
        }
    }

    fn is_met(self, on: On) -> bool {
        let abilities = on.abilities();
        match self {
            Need::Threads => on.way() != Way::Driven,
            Need::Driven => on.way() == Way::Driven,
            Need::OneQueue => abilities.one_queue,
            Need::QueuesOverlap => abilities.queues_overlap,
            Need::RustKernels => abilities.rust_kernels,
            Need::DynamicCounts => abilities.dynamic_counts,
            Need::HeldKernels => abilities.holds_kernels,
            Need::LeavesTasksBehind => abilities.leaves_tasks_behind,
            Need::LazyMemory => abilities.memory_is_lazy,
        }
    }
}

/// One fact.
pub struct Fact {
    /// Its theme.
    pub module: &'static str,
    /// Its name, which is the fact.
    pub name: &'static str,
    /// What it needs of a device.
    pub needs: &'static [Need],
    holds: fn(On),
}

impl Fact {
    /// The fact of this name.
    pub fn named(module: &str, name: &str) -> Option<&'static Self> {
        let mut all = FACTS.iter();
        all.find(|fact| fact.module == module && fact.name == name)
    }

    /// What the fact needs and the device lacks, the first of it.
    pub fn lacks(&self, on: On) -> Option<Need> {
        let mut needs = self.needs.iter().copied();
        needs.find(|need| !need.is_met(on))
    }

    /// Checks the fact on a device.
    ///
    /// # Errors
    /// Why the fact is skipped.
    ///
    /// # Panics
    /// If the fact does not hold.
    pub fn check(&self, on: On) -> Result<(), Skipped> {
        if let Some(need) = self.lacks(on) {
            return Err(Skipped(format!("it needs {}", need.words())));
        }
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.holds)(on))) else {
            return Ok(());
        };
        match panic.downcast::<NoTwin>() {
            Ok(lacks) => Err(Skipped(format!("it needs a twin of `{}`", lacks.kernel))),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Why a fact was not checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped(pub String);

/// The test of a fact.
///
/// # Panics
/// If the fact does not hold.
#[doc(hidden)]
pub fn test(on: On, module: &str, name: &str) {
    let fact = Fact::named(module, name).expect("the list has it");
    if let Err(Skipped(why)) = fact.check(on) {
        say(&format!("SKIPPED {module}::{name}: {why}"));
    }
}

/// The facts that need what a device lacks, with what that is.
pub fn skipped(on: On) -> Vec<(&'static Fact, Need)> {
    let lacking = |fact: &'static Fact| Some((fact, fact.lacks(on)?));
    FACTS.iter().filter_map(lacking).collect()
}

/// The test that prints what is skipped.
#[doc(hidden)]
pub fn tell_skipped(on: On) {
    let skipped = skipped(on);
    for (fact, need) in &skipped {
        let words = need.words();
        say(&format!(
            "SKIPPED {}::{}: it needs {words}",
            fact.module, fact.name
        ));
    }
    say(&format!(
        "{} of {} facts are skipped",
        skipped.len(),
        FACTS.len()
    ));
}

/// Writes a line to the standard error itself: the test harness captures what `eprintln` of a passing test writes.
fn say(line: &str) {
    // A closed standard error fails no test.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Calls the macro `$then` with its context and with every fact: its module, its name, and what it needs.
#[doc(hidden)]
#[macro_export]
macro_rules! __facts {
    ($then:ident $context:tt) => { $crate::$then! { $context
        answers {
            an_answer_can_be_waited_for_polled_awaited_and_called_back;
            a_wait_with_a_timeout_ends_and_the_answer_can_still_be_taken [Threads, HeldKernels];
            tensors_are_pitched_on_the_device_and_dense_for_the_host;
            several_handles_are_read_in_one_answer;
            readbacks_come_as_a_bounded_sequence_with_their_tags;
            the_longest_timeout_is_no_timeout;
            readbacks_may_be_asked_faster_than_the_mailbox_takes_them;
            readback_without_a_consumer_is_an_error_and_not_busy;
            readback_that_finds_no_room_comes_back_i8;
            readback_that_finds_the_mailbox_full_comes_back_i8;
            consumer_that_waits_before_the_first_readback_gets_it;
            sequence_of_two_devices_brings_what_both_answer;
        }
        copies {
            uploads_share_memory_one_after_the_other_i2;
            a_readback_lands_in_the_memory_that_it_is_given;
            the_memory_of_a_dropped_frame_serves_another;
        }
        failure {
            a_panic_in_a_kernel_poisons_exactly_what_it_would_have_written_and_the_message_reaches_the_reader;
            an_overwrite_heals_poisoned_data_and_an_update_does_not;
            a_panic_after_a_full_overwrite_was_queued_does_not_poison_the_new_data;
            a_thousand_panics_leave_the_device_well;
            a_panic_in_a_host_function_poisons_what_it_was_bound_to;
            a_blocking_call_in_user_code_of_the_runtime_is_an_error;
            a_guard_of_failed_data_answers_with_the_failure;
            a_panic_in_custom_work_poisons_what_it_was_bound_to_under_its_name;
            a_kernel_that_misuses_its_arguments_fails_with_what_its_author_must_do [RustKernels];
            only_an_unchecked_launch_leaves_the_guards_out [RustKernels];
            an_unchecked_launch_of_fitting_arguments_computes_the_same;
            failure_keeps_its_size_when_thousands_of_tasks_inherit_it;
            hundreds_of_failed_ranges_leave_the_bytes_between_them_sound;
            launch_of_no_cube_does_not_heal_what_it_declares_to_write;
            launch_with_a_count_on_the_device_heals_only_if_a_cube_runs [DynamicCounts];
        }
        lifetime {
            a_device_is_what_its_abilities_say;
            dropping_every_client_with_work_in_flight_drains_and_leaks_nothing;
            a_closed_device_says_so;
            a_close_with_work_that_does_not_end_reports_it_in_time [Threads, HeldKernels, LeavesTasksBehind];
            two_devices_in_one_process_do_not_meet;
            a_value_is_dropped_after_the_streams_point_and_not_before;
            destructor_that_blocks_holds_up_no_caller_i6;
            handles_beyond_the_limit_are_an_error;
            closed_device_takes_no_callbacks;
            close_that_runs_out_of_time_reports_what_is_left_and_ends_it_later [Threads];
            a_guard_that_outlives_the_device_keeps_its_memory;
        }
        memory {
            a_slice_that_the_device_has_no_memory_for_fails_alone;
            a_readback_that_the_host_has_no_room_for_is_an_error_i5 [LazyMemory];
            a_task_out_of_memory_parks_its_stream_alone_and_proceeds_when_memory_returns;
            a_slice_freed_while_another_stream_still_holds_a_task_on_it_is_not_reused_under_that_task;
            a_clients_hard_limit_is_charged_at_once_and_credited_at_the_last_drop;
            zero_sized_buffers_and_zero_cubes_are_valid_no_ops;
            cleanup_gives_unused_pages_back;
            can_mut_is_true_for_the_only_hold;
            reservation_waits_for_handles_that_leave_with_values_and_user_code;
            reservation_waits_for_handles_that_leave_where_no_slot_is_left_i6;
            hard_limit_bounds_the_memory_of_a_loop_that_drops_what_it_makes;
            hard_limit_is_busy_while_tasks_have_the_memory_and_an_error_while_handles_do;
            loop_that_drops_what_it_makes_waits_for_slots;
            slots_are_awaited_and_no_callback_waits_for_them;
            slots_of_freed_slices_return_while_nobody_sends [Threads, HeldKernels];
        }
        metrics {
            an_idle_device_tells_what_it_has_done;
            a_consumer_that_is_held_is_told_with_its_client;
            faults_are_counted_by_reason_and_poison_until_it_is_healed_i7;
            cancelled_tasks_are_faults_of_their_own;
            what_was_dropped_is_told_until_it_is_free [Threads, HeldKernels];
            every_task_is_followed_where_all_are_to_be;
        }
        ordering {
            a_write_waits_for_every_reader;
            a_write_waits_for_a_reader_that_is_still_running [Threads, HeldKernels];
            a_buffer_rewritten_in_place_by_another_thread_is_never_read_stale;
            a_reader_waits_for_a_writer_whose_batch_its_wait_ends [Threads, HeldKernels];
            what_goes_between_streams_without_a_flush_arrives;
            two_half_writes_on_two_queues_do_not_wait_for_each_other_and_a_reader_of_the_whole_waits_for_both [Threads, HeldKernels, QueuesOverlap];
            two_streams_on_one_queue_never_wait_on_each_other [OneQueue];
            a_foreign_binding_is_waited_for_once_and_not_again_while_unchanged [Threads, HeldKernels, QueuesOverlap];
            a_stream_waits_for_the_point_of_another [Threads, HeldKernels];
            messages_passed_between_threads_keep_their_order;
            a_dynamic_count_is_read_after_it_was_written [RustKernels, DynamicCounts];
        }
        parameters {
            replays_bind_parameters_and_fill_slots_from_any_thread_i1_i2;
            a_parameter_is_known_by_its_handle_i5;
            a_part_of_a_parameter_is_that_part_of_what_is_bound;
            a_parameter_may_be_bound_to_less_where_that_is_allowed;
            a_replay_that_lacks_something_is_refused_and_submits_nothing;
            replay_inherits_no_failure_that_an_earlier_one_left_in_its_scratch [RustKernels];
            a_parameter_outside_of_a_recording_is_told_i5_i7;
            a_replay_without_room_is_busy_i8;
        }
        profiled {
            each_task_is_in_exactly_the_profiles_that_were_open_when_it_was_given [RustKernels];
            each_task_of_a_long_program_is_in_exactly_its_profiles;
        }
        profiles {
            a_profile_is_of_what_the_stream_was_given_between_its_ends;
            tokens_nest_and_overlap_across_streams_and_threads;
            a_closure_is_profiled_also_if_it_panics;
            a_recording_is_profiled_task_by_task;
            tokens_of_other_devices_and_ended_ones_are_told_apart;
            a_profile_waits_for_tasks_that_are_held;
            closing_answers_open_profiles;
            ten_thousand_tokens_are_open_and_twenty_thousand_are_forgotten;
            tasks_without_room_for_their_times_are_counted;
            a_profile_ends_by_itself_when_it_is_full;
            a_timeline_and_profiles_have_the_same_spans;
        }
        programs {
            one_thread_on_many_streams_computes_what_it_would_on_one;
            programs_compute_the_same_with_little_room;
            programs_compute_the_same_with_little_room_one_after_the_other;
            threads_that_share_buffers_lose_no_update_and_disturb_nobody;
        }
        recordings {
            a_recording_runs_what_was_recorded_with_other_handles;
            a_replay_whose_arguments_alias_where_the_recorded_ones_did_not_is_still_right;
            a_copy_whose_arguments_overlap_is_refused_at_the_replay;
            one_recording_runs_from_many_threads;
            a_failed_parameter_fails_only_what_reads_it;
            a_recording_keeps_its_handles_and_kernels;
            a_rebound_handle_must_be_aligned_as_the_recorded_one_was;
        }
        replays {
            a_replay_is_its_tasks_one_by_one_i1_i2;
        }
        requests {
            an_answer_that_came_too_late_is_waited_for_again [Threads, HeldKernels];
            offsets_past_the_end_overflowing_sizes_and_foreign_handles_give_typed_errors;
            arguments_that_do_not_fit_the_signature_are_refused_with_a_sentence;
            bindings_that_only_touch_or_are_only_read_may_share_a_slice;
            launches_larger_than_a_message_work;
            a_typed_kernel_takes_what_its_signature_declares;
            resources_are_reached_in_order_and_a_guard_holds_back_what_conflicts;
            a_kernel_that_the_device_cannot_run_is_refused_when_it_is_prepared;
            every_cube_runs_once_and_knows_its_place;
            a_kernel_that_may_alias_still_gets_no_two_references_to_the_same_bytes;
        }
        room {
            calls_through_nowait_never_wait [Driven];
            host_functions_callbacks_and_values_to_drop_have_a_bound [Threads];
            a_host_function_that_would_wait_for_room_is_told;
            uploads_beyond_the_bound_give_busy_with_the_figures [Threads, HeldKernels];
            a_caller_that_waits_for_room_is_told_when_the_driver_goes [Driven];
            the_tasks_of_all_streams_of_a_client_have_a_bound;
            a_clients_own_bound_on_uploads_replaces_the_devices [Threads];
            what_finds_no_room_is_not_charged;
            what_creates_without_room_for_both_of_its_tasks_sends_none_i12;
            a_value_that_finds_no_room_comes_back;
            an_answer_and_its_callback_come_back_where_they_would_wait_for_ever [Threads];
        }
        awaited_room {
            room_for_tasks_is_awaited_in_order;
            who_awaits_room_is_told_of_the_end;
            room_in_the_mailbox_is_awaited [Driven];
            room_for_uploads_and_jobs_is_awaited [Threads];
            many_who_await_room_all_get_it [Threads];
        }
        callbacks {
            callbacks_that_submit_lose_nothing;
            callbacks_that_read_into_one_sequence_lose_nothing;
            what_callbacks_submit_beyond_the_bounds_has_a_bound;
            a_callback_that_does_not_wait_finds_room_in_the_mailbox [Driven];
        }
        scheduling {
            flushing_a_stream_listed_twice_runs_each_task_once;
            one_lone_launch_without_flush_runs [Threads, HeldKernels];
            one_lone_launch_runs_when_its_owner_pumps [Driven];
            ten_thousand_launches_while_one_consumer_is_held_do_not_stop_any_other_stream;
            a_busy_client_cannot_keep_anothers_lone_task_from_starting [Threads, OneQueue];
            a_full_mailbox_gives_busy_and_loses_nothing [Driven];
            a_stream_beyond_its_backlog_gives_busy_while_others_go_on [Threads];
            ten_thousand_streams_all_answer;
        }
        soft_limits {
            who_would_go_above_its_soft_limit_waits_behind_who_would_not;
            who_waits_behind_others_gets_what_they_leave;
            what_is_above_a_soft_limit_is_reported;
        }
        stepping {
            callers_that_wait_at_once_all_get_their_own_answers;
            a_kernel_that_blocks_holds_up_no_caller_that_waits_for_another [Threads, HeldKernels, QueuesOverlap];
            a_device_is_closed_while_callers_wait_on_it [Threads];
        }
        untyped {
            words_and_bytes_are_arguments_as_any_others;
            a_replay_takes_any_number_of_parameters_and_words;
            untyped_arguments_that_do_not_fit_are_refused;
            halves_are_elements;
            kernels_take_halves [RustKernels];
        }
        views {
            a_view_is_whole_elements;
            a_fill_sets_every_element_and_nothing_beside_them;
        }
        withdrawal {
            a_dropped_guard_cancels_its_token;
            a_task_cancelled_while_it_is_held_poisons_what_it_would_have_written;
            a_task_that_was_issued_runs_to_its_end;
            a_reservation_that_waits_for_memory_is_given_up_when_it_is_cancelled;
            a_reservation_that_waits_for_memory_is_given_up_at_its_deadline;
            a_task_whose_deadline_has_passed_is_not_issued;
            a_cancelled_stream_still_answers_a_sync;
            running_work_that_is_cancelled_is_detached_and_ends [Threads, HeldKernels];
            a_guard_outlives_the_cancel_of_its_request;
            dropping_an_answer_leaves_the_work;
            read_behind_a_guard_is_answered_at_its_deadline_or_cancel_while_the_guard_lives;
            read_behind_a_guard_is_answered_at_its_cancel_where_no_slot_is_left_i5;
            guard_behind_a_guard_is_refused_at_its_deadline;
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    (() $($module:ident { $($fact:ident $([$($need:ident),+])?;)+ })+) => {
        /// Every fact.
        pub static FACTS: &[Fact] = &[$($(Fact {
            module: stringify!($module),
            name: stringify!($fact),
            needs: &[$($(Need::$need),+)?],
            holds: facts::$module::$fact,
        }),+),+];
    };
}

crate::__facts! { __table () }
