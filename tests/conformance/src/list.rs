//! The names of all tests, and what each needs of a device.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::subject::Mode;
use crate::suite;
use crate::support::{NoTwin, On};

/// An ability that a test needs. A device that lacks it skips the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Need {
    /// The device has threads.
    Threads,
    /// The device is driven.
    Driven,
    /// The device has one queue.
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
    /// The need in words, for the message of a skipped test.
    fn words(self) -> &'static str {
        match self {
            Need::Threads => "a device with threads",
            Need::Driven => "a driven device",
            Need::OneQueue => "a device with one queue",
            Need::QueuesOverlap => "queues whose tasks run at the same time",
            Need::RustKernels => "kernels in Rust",
            Need::DynamicCounts => "cube counts that are read on the device",
            Need::HeldKernels => "kernels that can be held",
            Need::LeavesTasksBehind => "a close that leaves unfinished tasks behind",
            Need::LazyMemory => "slices larger than the memory of the host",
        }
    }

    fn is_met(self, on: On) -> bool {
        let abilities = on.abilities();
        match self {
            Need::Threads => on.mode() != Mode::Driven,
            Need::Driven => on.mode() == Mode::Driven,
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

/// A test of the suite.
pub struct Test {
    /// The module of the suite, which is the theme.
    pub module: &'static str,
    /// The name.
    pub name: &'static str,
    /// The abilities that the test needs.
    pub needs: &'static [Need],
    function: fn(On),
}

impl Test {
    /// Returns the test with this name.
    pub fn named(module: &str, name: &str) -> Option<&'static Self> {
        let mut all = TESTS.iter();
        all.find(|test| test.module == module && test.name == name)
    }

    /// Returns the first need that the device does not meet.
    pub fn unmet_need(&self, on: On) -> Option<Need> {
        let mut needs = self.needs.iter().copied();
        needs.find(|need| !need.is_met(on))
    }

    /// Runs the test on a device.
    ///
    /// # Errors
    /// The reason, if the test is skipped.
    ///
    /// # Panics
    /// If the test fails.
    pub fn run(&self, on: On) -> Result<(), Skipped> {
        if let Some(why) = on.unavailable() {
            return Err(Skipped(why.to_owned()));
        }
        if let Some(need) = self.unmet_need(on) {
            return Err(Skipped(format!("it needs {}", need.words())));
        }
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.function)(on))) else {
            return Ok(());
        };
        match panic.downcast::<NoTwin>() {
            Ok(lacks) => Err(Skipped(format!("it needs a twin of `{}`", lacks.kernel))),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// The reason why a test was skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped(pub String);

/// The body of a registered test: runs it, or prints why it is skipped.
///
/// # Panics
/// If the test fails.
#[doc(hidden)]
pub fn run(on: On, module: &str, name: &str) {
    let test = Test::named(module, name).expect("registered tests come from the list");
    if let Err(Skipped(why)) = test.run(on) {
        print_line(&format!("SKIPPED {module}::{name}: {why}"));
    }
}

/// Returns the tests that need an ability that the device lacks, and that need.
pub fn skipped(on: On) -> Vec<(&'static Test, Need)> {
    let lacking = |test: &'static Test| Some((test, test.unmet_need(on)?));
    TESTS.iter().filter_map(lacking).collect()
}

/// The body of the test that prints all skipped tests.
#[doc(hidden)]
pub fn print_skipped(on: On) {
    if let Some(why) = on.unavailable() {
        return print_line(&format!("all {} tests are SKIPPED: {why}", TESTS.len()));
    }
    let skipped = skipped(on);
    for (test, need) in &skipped {
        let words = need.words();
        print_line(&format!(
            "SKIPPED {}::{}: it needs {words}",
            test.module, test.name
        ));
    }
    print_line(&format!(
        "{} of {} tests are skipped",
        skipped.len(),
        TESTS.len()
    ));
}

/// Writes a line to the standard error directly: the test harness captures the output of `eprintln` in a passing test.
fn print_line(line: &str) {
    // A closed standard error fails no test.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Calls the macro `$then` with its context and with every test: its module, its name, and what it needs.
#[doc(hidden)]
#[macro_export]
macro_rules! __list {
    ($then:ident $context:tt) => { $crate::$then! { $context
        answers {
            an_answer_can_be_waited_for_polled_awaited_and_called_back;
            a_look_at_an_answer_leaves_the_waker_of_its_task_i5 [Threads, HeldKernels];
            tensors_are_pitched_on_the_device_and_dense_for_the_host;
            several_handles_are_read_in_one_answer;
            readback_sequence_is_ordered_tagged_and_bounded;
            longest_timeout_never_expires;
            readbacks_beyond_the_mailbox_capacity_all_arrive_in_order;
            readback_without_a_consumer_is_an_error_and_not_busy;
            readback_refused_by_a_full_stream_returns_its_tag_i8;
            readback_refused_by_a_full_mailbox_returns_its_tag_i8;
            consumer_that_waits_before_the_first_readback_receives_it;
            readback_sequence_of_two_devices_keeps_the_request_order;
        }
        collectives {
            collectives_compute_what_they_say [Threads];
            collectives_take_their_place_among_kernels [Threads];
            poison_of_one_device_reaches_all [Threads];
        }
        copies {
            staging_memory_is_reused_only_after_the_device_read_it_i2;
            readback_uses_the_callers_memory_if_it_is_long_enough;
            memory_of_a_dropped_frame_is_reused_by_a_later_frame;
            foreign_memory_is_asked_for_its_bytes_once_i5;
            uploads_read_foreign_memory_and_drop_it_once;
            reads_land_in_memory_of_the_caller;
        }
        failure {
            kernel_panic_poisons_exactly_its_outputs_and_readers_receive_the_message;
            an_overwrite_heals_poisoned_data_and_an_update_does_not;
            a_panic_after_a_full_overwrite_was_queued_does_not_poison_the_new_data;
            device_works_after_a_thousand_kernel_panics;
            host_function_panic_poisons_its_bindings;
            blocking_call_on_a_runtime_thread_returns_would_deadlock;
            guard_of_poisoned_data_returns_the_failure;
            custom_task_panic_poisons_its_bindings_and_names_the_task;
            kernel_that_misuses_its_arguments_fails_and_the_message_names_the_fix [RustKernels];
            failure_keeps_its_size_when_thousands_of_tasks_inherit_it;
            bytes_between_hundreds_of_poisoned_ranges_stay_clean;
            launch_of_zero_cubes_does_not_heal_its_outputs;
            launch_with_a_dynamic_count_heals_only_if_a_cube_runs [DynamicCounts];
        }
        late_writes {
            late_bytes_are_seen_by_every_later_task_and_delay_no_other;
            a_late_write_that_fails_poisons_its_target_with_the_cause;
            a_late_write_is_withdrawn_before_its_turn_only;
            a_thousand_late_writes_in_flight_arrive_in_any_order;
            an_external_task_ends_when_its_owner_says_so;
            a_panic_that_drops_a_late_write_fails_it;
            an_external_task_outlives_a_panic_of_its_beginning;
            late_bytes_after_a_close_do_no_harm [Threads, LeavesTasksBehind];
            a_staged_task_replaces_its_data_at_its_place;
            a_staged_task_that_fails_poisons_its_output;
        }
        lifetime {
            device_properties_match_the_declared_abilities;
            dropping_every_client_with_work_in_flight_drains_and_leaks_nothing;
            calls_on_a_closed_device_return_closed;
            a_close_with_work_that_does_not_end_reports_it_in_time [Threads, HeldKernels, LeavesTasksBehind];
            two_devices_in_one_process_are_independent;
            a_value_is_dropped_after_the_streams_point_and_not_before;
            destructor_that_blocks_holds_up_no_caller_i6;
            closed_device_refuses_callbacks;
            close_that_times_out_reports_the_rest_and_frees_it_later [Threads];
            code_that_a_close_leaves_is_dropped_on_a_thread_for_user_code_i6 [Threads];
            a_guard_that_outlives_the_device_keeps_its_memory;
        }
        memory {
            slice_without_device_memory_fails_alone;
            readback_larger_than_host_memory_is_an_error_i5 [LazyMemory];
            a_task_out_of_memory_parks_its_stream_alone_and_proceeds_when_memory_returns;
            freed_slice_is_not_reused_while_a_held_task_reads_it_i4;
            a_clients_hard_limit_is_charged_at_once_and_credited_at_the_last_drop;
            zero_sized_buffers_and_zero_cubes_are_valid_no_ops;
            cleanup_gives_unused_pages_back;
            can_mut_is_true_only_for_a_sole_handle;
            reservation_waits_for_handles_owned_by_deferred_drops_and_user_code;
            reservation_waits_for_such_handles_when_the_slot_table_is_full_i6;
            hard_limit_bounds_a_loop_that_drops_its_slices;
            hard_limit_returns_busy_while_tasks_hold_the_memory_and_an_error_while_handles_do;
            loop_that_drops_its_slices_waits_for_slots;
            full_slot_table_is_an_error_in_user_code_and_awaited_by_a_future;
            slots_of_freed_slices_return_without_further_messages [Threads, HeldKernels];
        }
        memory_pressure {
            small_clients_go_on_while_a_large_reservation_waits_i6;
            reservation_waits_for_drops_behind_work_outside_i6;
            thousands_of_streams_wait_for_memory_and_end_i5_i12;
        }
        metrics {
            metrics_of_an_idle_device_are_exact;
            held_tasks_are_counted_for_their_client;
            faults_are_counted_by_reason_and_poisoned_slices_until_healed_i7;
            cancelled_tasks_are_counted_as_cancelled_faults;
            dropped_slices_and_values_are_counted_until_they_are_freed [Threads, HeldKernels];
            every_task_is_timed_if_the_sampling_interval_is_one;
        }
        ordering {
            a_write_waits_for_every_reader;
            a_write_waits_for_a_reader_that_is_still_running [Threads, HeldKernels];
            a_buffer_rewritten_in_place_by_another_thread_is_never_read_stale;
            reader_waits_for_a_writer_in_the_middle_of_a_batch [Threads, HeldKernels];
            data_passed_between_streams_without_a_flush_arrives;
            writes_to_disjoint_halves_overlap_and_a_reader_of_the_whole_waits_for_both [Threads, HeldKernels, QueuesOverlap];
            streams_on_one_queue_issue_no_waits [OneQueue];
            consumer_waits_once_for_an_unchanged_buffer_of_another_queue [Threads, HeldKernels, QueuesOverlap];
            a_stream_waits_for_the_point_of_another [Threads, HeldKernels];
            happens_before_between_threads_orders_their_tasks;
            a_dynamic_count_is_read_after_it_was_written [RustKernels, DynamicCounts];
        }
        parameters {
            replays_bind_parameters_and_fill_slots_from_any_thread_i1_i2;
            parameter_is_identified_by_its_handle_i5;
            view_of_a_parameter_is_the_same_view_of_the_bound_handle;
            parameter_may_be_bound_to_a_shorter_handle_if_allowed;
            incomplete_replay_is_refused_and_submits_nothing;
            replay_inherits_no_failure_of_an_earlier_replay_from_its_scratch [RustKernels];
            use_of_a_parameter_outside_of_a_recording_fails_i5_i7;
            replay_that_finds_no_room_returns_busy_i8;
        }
        profiled_programs {
            each_task_is_in_exactly_the_profiles_that_were_open_when_it_was_submitted [RustKernels];
            each_task_of_a_long_program_is_in_exactly_the_profiles_that_were_open;
        }
        profiles {
            profile_covers_exactly_the_tasks_between_its_start_and_its_end;
            tokens_nest_and_overlap_across_streams_and_threads;
            closure_is_profiled_and_its_panic_does_not_affect_the_next_profile;
            a_recording_is_profiled_task_by_task;
            foreign_tokens_and_ended_tokens_are_errors;
            profile_waits_for_held_tasks;
            closing_answers_open_profiles;
            open_profiles_are_bounded_and_the_oldest_is_evicted;
            tasks_without_room_for_their_spans_are_counted_as_untimed;
            profile_ends_automatically_when_it_is_full;
            a_timeline_and_profiles_have_the_same_spans;
        }
        programs {
            program_on_many_streams_computes_the_same_as_on_one;
            programs_compute_the_same_with_small_limits;
            threads_that_share_buffers_lose_no_update_and_keep_their_own_data;
        }
        recordings {
            recording_replays_its_tasks_with_other_handles;
            replay_orders_tasks_whose_new_arguments_alias;
            poisoned_parameter_fails_only_the_tasks_that_read_it;
            recording_keeps_its_handles_and_kernels_alive;
            a_rebound_handle_must_be_aligned_as_the_recorded_one_was;
        }
        scalar_parameters {
            replay_sets_scalar_parameters_beside_fixed_scalars_and_words;
            scalar_parameters_have_every_width [RustKernels];
            misused_scalar_parameter_is_refused_and_submits_nothing_i5;
        }
        replays {
            replay_equals_its_tasks_submitted_one_by_one_i1_i2;
        }
        requests {
            answer_can_be_waited_for_again_after_a_timeout [Threads, HeldKernels];
            offsets_past_the_end_overflowing_sizes_and_foreign_handles_give_typed_errors;
            arguments_that_do_not_match_the_signature_are_refused;
            adjacent_or_read_only_bindings_may_share_a_slice;
            typed_kernel_accepts_exactly_the_types_of_its_signature;
            custom_tasks_run_in_order_and_a_guard_holds_conflicting_tasks;
            a_kernel_that_the_device_cannot_run_is_refused_when_it_is_prepared;
            every_cube_runs_once_with_its_own_coordinates;
            a_kernel_that_may_alias_still_gets_no_two_references_to_the_same_bytes;
        }
        at_limit {
            requests_of_a_client_that_waits_at_its_limit_all_succeed_i8 [Threads];
            request_too_large_for_ever_and_one_too_large_now_are_two_errors_i8;
        }
        tensors {
            refused_tensors_are_not_charged_to_the_hard_limit_i12;
            tensors_above_the_limit_together_are_refused_at_once_i8_i12;
            requests_for_tensors_of_a_client_that_waits_all_succeed_i8 [Threads];
            tensors_without_room_for_all_submit_nothing_i12;
            tensors_without_room_in_the_mailbox_submit_nothing_i8_i12 [Driven];
            host_function_makes_more_tensors_than_the_mailbox_has_room_for_i8;
        }
        back_pressure {
            calls_through_nowait_never_wait [Driven];
            host_functions_callbacks_and_values_to_drop_have_a_bound [Threads];
            host_function_that_would_wait_for_room_gets_an_error;
            uploads_beyond_the_limit_return_busy_with_the_figures [Threads, HeldKernels];
            caller_that_waits_for_room_receives_closed_when_the_driver_is_dropped [Driven];
            max_tasks_bounds_all_streams_of_a_client_together;
            upload_limit_of_a_client_replaces_that_of_the_device [Threads];
            refused_reservation_is_not_charged_to_the_hard_limit;
            create_without_room_for_both_of_its_tasks_submits_neither_i12;
            refused_call_returns_its_value;
            refused_on_ready_returns_the_answer_and_the_callback [Threads];
        }
        when_ready {
            futures_get_room_for_tasks_in_request_order;
            future_that_awaits_room_ends_with_closed;
            future_awaits_room_in_the_mailbox [Driven];
            future_awaits_room_for_uploads_and_jobs [Threads];
            many_futures_that_await_room_all_complete [Threads];
        }
        callbacks {
            callbacks_that_submit_lose_nothing;
            callbacks_that_read_into_one_sequence_lose_nothing;
            user_code_may_exceed_the_limits_only_up_to_the_headroom;
            nowait_calls_in_user_code_find_room_in_the_mailbox [Driven];
        }
        scheduling {
            flushing_a_stream_listed_twice_runs_each_task_once;
            lone_launch_runs_without_a_flush [Threads, HeldKernels];
            lone_launch_runs_when_the_driver_is_pumped [Driven];
            ten_thousand_held_launches_do_not_block_other_streams;
            lone_task_starts_while_another_client_floods_the_queue [Threads, OneQueue];
            full_mailbox_returns_busy_and_loses_nothing [Driven];
            stream_at_max_held_returns_busy_while_others_go_on [Threads];
            ten_thousand_streams_all_answer;
        }
        soft_limits {
            reservation_above_the_soft_limit_waits_behind_one_within;
            bytes_and_crossings_above_a_soft_limit_are_reported;
        }
        stepping_in {
            callers_that_wait_concurrently_get_their_own_answers;
            blocked_kernel_delays_no_caller_that_waits_for_another_answer [Threads, HeldKernels, QueuesOverlap];
            close_ends_while_callers_wait_on_the_device [Threads];
        }
        untyped {
            untyped_bytes_and_words_work_as_arguments;
            a_replay_takes_any_number_of_parameters_and_words;
            untyped_arguments_that_do_not_match_are_refused;
            arguments_are_written_one_by_one;
            half_precision_values_are_elements;
            kernels_take_half_precision_arguments [RustKernels];
        }
        views {
            view_that_cuts_an_element_is_refused;
            views_overlap_if_they_share_a_byte;
            fill_sets_every_element_of_its_view_and_no_other;
        }
        withdrawal {
            a_dropped_guard_cancels_its_token;
            task_cancelled_while_held_poisons_its_outputs;
            a_task_that_was_issued_runs_to_its_end;
            a_reservation_that_waits_for_memory_is_given_up_when_it_is_cancelled;
            a_reservation_that_waits_for_memory_is_given_up_at_its_deadline;
            a_task_whose_deadline_has_passed_is_not_issued;
            a_cancelled_stream_still_answers_a_sync;
            running_work_that_is_cancelled_is_detached_and_ends [Threads, HeldKernels];
            tasks_behind_a_long_one_are_withdrawn_by_default_i6 [Threads, HeldKernels];
            a_guard_outlives_the_cancel_of_its_request;
            dropping_an_answer_withdraws_no_task;
            read_behind_a_guard_is_answered_at_its_deadline_or_cancel_while_the_guard_lives;
            read_behind_a_guard_is_answered_at_its_cancel_when_the_slot_table_is_full_i5;
            guard_behind_a_guard_is_refused_at_its_deadline;
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    (() $($module:ident { $($test:ident $([$($need:ident),+])?;)+ })+) => {
        /// Every test of the suite.
        pub static TESTS: &[Test] = &[$($(Test {
            module: stringify!($module),
            name: stringify!($test),
            needs: &[$($(Need::$need),+)?],
            function: suite::$module::$test,
        }),+),+];
    };
}

crate::__list! { __table () }
