// Tokens and deadlines, profiles, submission logs, and metadata. A part of the program `behaviour.c`.
#include "scale.h"

#include <pthread.h>

static const float ones[4] = {1, 1, 1, 1};
static const ms_cubes one_cube = {1, 1, 1};

struct opened {
    ms_device *device;
    ms_driver *driver;
    ms_client *client;
    ms_stream *stream;
    ms_buffer *buffer; // four ones
};

static struct opened open_device(const char *backend, const ms_device_options *options, bool driven) {
    struct opened opened = {NULL, NULL, NULL, NULL, NULL};
    if (driven) {
        CHECK_OK(ms_device_open_driven(backend, options, &opened.device, &opened.driver));
    } else {
        CHECK_OK(ms_device_open(backend, options, &opened.device));
    }
    CHECK_OK(ms_client_create(opened.device, NULL, &opened.client));
    CHECK_OK(ms_stream_create(opened.client, &opened.stream));
    CHECK_OK(ms_buffer_create_from(opened.stream, ones, sizeof ones, &opened.buffer));
    return opened;
}

static void close_device(struct opened *opened) {
    CHECK_OK(ms_buffer_destroy(opened->buffer));
    CHECK_OK(ms_stream_destroy(opened->stream));
    CHECK_OK(ms_client_destroy(opened->client));
    CHECK_OK(ms_driver_destroy(opened->driver));
    CHECK_OK(ms_device_destroy(opened->device));
}

static ms_tally tally(void) {
    ms_tally tally = {0};
    tally.size = sizeof tally;
    return tally;
}

static void a_token_withdraws_what_has_not_begun(void) {
    struct opened opened = open_device("cpu", NULL, true);
    ms_cancel_token *token = NULL;
    ms_stream *request = NULL, *late = NULL;
    ms_pending *read = NULL;
    bool cancelled = true;
    float got[4];
    CHECK_OK(ms_cancel_token_create(&token));
    CHECK_OK(ms_cancel_token_is_cancelled(token, &cancelled));
    CHECK(!cancelled);
    CHECK_OK(ms_stream_with_cancel(opened.stream, token, &request));
    CHECK_OK(ms_fill(request, opened.buffer, ones, 4));
    CHECK_OK(ms_read(request, opened.buffer, &read));
    ms_tally before = tally(), after = tally();
    CHECK_OK(ms_stream_get_tally(request, &before));
    CHECK(before.accepted == 2 && before.waiting == 2 && before.withdrawn == 0 && before.size == sizeof before);
    // Nothing pumped the device, so nothing began.
    CHECK_OK(ms_cancel_token_cancel(token, &after));
    CHECK(after.waiting == 2 && after.detached == 0);
    CHECK_OK(ms_cancel_token_cancel(token, NULL));
    CHECK_OK(ms_cancel_token_is_cancelled(token, &cancelled));
    CHECK(cancelled);
    CHECK_OK(ms_fill(request, opened.buffer, ones, 4));
    CHECK_STATUS(MS_STATUS_CANCELLED, ms_pending_wait(read, MS_FOREVER));
    CHECK_STATUS(MS_STATUS_CANCELLED, ms_read_into(opened.stream, opened.buffer, got, sizeof got));
    CHECK_OK(ms_cancel_token_get_tally(token, &after));
    CHECK(after.accepted == 3 && after.withdrawn == 3 && after.waiting == 0 && after.finished == 0);
    CHECK_OK(ms_write(opened.stream, opened.buffer, ones, sizeof ones)); // heals
    CHECK_OK(ms_read_into(opened.stream, opened.buffer, got, sizeof got));
    // A deadline has a status of its own, and counts too. A stream without both counts nothing.
    CHECK_OK(ms_stream_with_deadline(opened.stream, 0, &late));
    CHECK_OK(ms_fill(late, opened.buffer, ones, 4));
    CHECK_STATUS(MS_STATUS_DEADLINE_PASSED, ms_read_into(opened.stream, opened.buffer, got, sizeof got));
    CHECK_OK(ms_stream_get_tally(late, &after));
    CHECK(after.accepted == 1 && after.withdrawn == 1);
    CHECK_ARGUMENT(ms_stream_get_tally(opened.stream, &after));
    // The stream keeps the token.
    CHECK_OK(ms_cancel_token_destroy(token));
    CHECK_OK(ms_fill(request, opened.buffer, ones, 4));
    CHECK_OK(ms_stream_get_tally(request, &after));
    CHECK(after.accepted == 4);
    CHECK_OK(ms_pending_destroy(read));
    CHECK_OK(ms_stream_destroy(late));
    CHECK_OK(ms_stream_destroy(request));
    close_device(&opened);
}

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool begun, released;
};

static void wait_at_gate(const ms_launch_args *args, void *user) {
    (void)args;
    struct gate *gate = user;
    pthread_mutex_lock(&gate->mutex);
    gate->begun = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->released) {
        pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    pthread_mutex_unlock(&gate->mutex);
}

static ms_kernel *make_gate(const ms_client *client, struct gate *gate) {
    ms_binding_desc binding = {sizeof binding, MS_ACCESS_UPDATE, MS_TYPE_F32, 0, "values"};
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = wait_at_gate;
    source.user = gate;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "gate";
    desc.bindings = &binding;
    desc.binding_count = 1;
    desc.sources = &source;
    desc.source_count = 1;
    ms_kernel *kernel = NULL;
    CHECK_OK(ms_kernel_create(client, &desc, &kernel));
    return kernel;
}

static void a_task_that_runs_is_detached_by_a_cancel(void) {
    struct opened opened = open_device("cpu", NULL, false);
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    ms_kernel *kernel = make_gate(opened.client, &gate);
    ms_cancel_token *token = NULL;
    ms_stream *request = NULL;
    float got[4];
    CHECK_OK(ms_cancel_token_create(&token));
    CHECK_OK(ms_stream_with_cancel(opened.stream, token, &request));
    const ms_argument argument = ms_arg_update(opened.buffer);
    CHECK_OK(ms_launch(request, kernel, one_cube, &argument, 1));
    pthread_mutex_lock(&gate.mutex);
    while (!gate.begun) {
        pthread_cond_wait(&gate.changed, &gate.mutex);
    }
    ms_tally now = tally();
    CHECK_OK(ms_cancel_token_cancel(token, &now));
    CHECK(now.running == 1 && now.detached == 1 && now.finished == 0);
    gate.released = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    CHECK_OK(ms_read_into(opened.stream, opened.buffer, got, sizeof got)); // what it wrote is valid
    CHECK_OK(ms_stream_get_tally(request, &now));
    CHECK(now.finished == 1 && now.running == 0 && now.withdrawn == 0);
    CHECK_OK(ms_stream_destroy(request));
    CHECK_OK(ms_cancel_token_destroy(token));
    CHECK_OK(ms_kernel_destroy(kernel));
    close_device(&opened);
}

static ms_profile_summary summary_of(const ms_profile *profile) {
    ms_profile_summary summary = {0};
    summary.size = sizeof summary;
    CHECK_OK(ms_profile_get_summary(profile, &summary));
    return summary;
}

static void a_profile_has_the_tasks_between_its_calls(void) {
    struct opened opened = open_device("cpu", NULL, true);
    ms_kernel *kernel = make_scale(opened.client);
    const ms_argument arguments[2] = {ms_arg_update(opened.buffer), ms_arg_f32(2)};
    ms_stream *other = NULL;
    CHECK_OK(ms_stream_create(opened.client, &other));
    ms_profile *of_stream = NULL, *of_client = NULL, *of_other = NULL, *of_device = NULL, *open = NULL;
    const ms_stream *const streams[2] = {other, other};
    CHECK_OK(ms_fill(opened.stream, opened.buffer, ones, 4)); // before
    CHECK_OK(ms_stream_start_profile(opened.stream, &of_stream));
    CHECK_OK(ms_client_start_profile(opened.client, NULL, 0, &of_client));
    CHECK_OK(ms_client_start_profile(opened.client, streams, 2, &of_other));
    CHECK_OK(ms_device_start_profile(opened.device, &of_device));
    CHECK_OK(ms_stream_start_profile(opened.stream, &open));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ms_launch(opened.stream, kernel, one_cube, arguments, 2));
    }
    CHECK_OK(ms_fill(other, opened.buffer, ones, 4));
    ms_profile_summary summary = {0};
    summary.size = sizeof summary;
    CHECK_ARGUMENT(ms_profile_get_summary(of_stream, &summary)); // not ended
    CHECK_ARGUMENT(ms_profile_wait(of_stream, 0));
    CHECK_OK(ms_profile_end(of_stream));
    CHECK_OK(ms_profile_end(of_client));
    CHECK_OK(ms_profile_end(of_other));
    CHECK_OK(ms_profile_end(of_device));
    CHECK_STATUS(MS_STATUS_TAKEN, ms_profile_end(of_stream));
    CHECK_OK(ms_fill(opened.stream, opened.buffer, ones, 4)); // after
    CHECK_STATUS(MS_STATUS_PENDING, ms_profile_poll(of_stream));
    CHECK_STATUS(MS_STATUS_PENDING, ms_profile_get_summary(of_stream, &summary));
    CHECK_OK(ms_profile_wait(of_stream, MS_FOREVER));
    CHECK_OK(ms_profile_wait(of_client, MS_FOREVER));
    CHECK_OK(ms_profile_wait(of_other, MS_FOREVER));
    CHECK_OK(ms_profile_wait(of_device, MS_FOREVER));
    CHECK_OK(ms_profile_poll(of_stream));
    summary = summary_of(of_stream);
    CHECK(summary.tasks == 3 && summary.entries == 1 && summary.untimed == 0 && summary.failed == 0);
    CHECK(summary.clock == MS_CLOCK_HOST && summary.is_cut == 0 && summary.busy_ns <= summary.elapsed_ns);
    ms_profile_entry entry = {0};
    entry.size = sizeof entry;
    CHECK_OK(ms_profile_get_entry(of_stream, 0, &entry));
    CHECK(strcmp(entry.name, "scale") == 0 && entry.tasks == 3 && entry.timed == 3);
    CHECK(entry.min_ns <= entry.max_ns && entry.max_ns <= entry.total_ns);
    CHECK_ARGUMENT(ms_profile_get_entry(of_stream, 1, &entry));
    CHECK(summary_of(of_other).tasks == 1);
    CHECK(summary_of(of_client).tasks == 4 && summary_of(of_device).entries == 2);
    size_t needed = 0;
    char text[1024];
    CHECK_STATUS(MS_STATUS_TOO_SMALL, ms_profile_get_text(of_device, text, 3, &needed));
    CHECK(needed > 3 && needed <= sizeof text);
    CHECK_OK(ms_profile_get_text(of_device, text, sizeof text, &needed));
    CHECK(strlen(text) + 1 == needed && strstr(text, "4 tasks") && strstr(text, "scale") && strstr(text, "fill"));
    CHECK_OK(ms_profile_destroy(open)); // ends it
    CHECK_OK(ms_profile_destroy(of_device));
    CHECK_OK(ms_profile_destroy(of_other));
    CHECK_OK(ms_profile_destroy(of_client));
    CHECK_OK(ms_profile_destroy(of_stream));
    // A profile that the close of the device ends.
    CHECK_OK(ms_device_start_profile(opened.device, &open));
    CHECK_OK(ms_device_close(opened.device, MS_FOREVER, NULL));
    CHECK_STATUS(MS_STATUS_CLOSED, ms_profile_end(open));
    CHECK_STATUS(MS_STATUS_CLOSED, ms_profile_wait(open, 0));
    CHECK_OK(ms_profile_destroy(open));
    CHECK_OK(ms_stream_destroy(other));
    CHECK_OK(ms_kernel_destroy(kernel));
    close_device(&opened);
}

static void a_profile_registers_no_stream(void) {
    struct opened opened = open_device("cpu", NULL, false);
    ms_profile *of_client = NULL, *of_device = NULL;
    CHECK_OK(ms_client_start_profile(opened.client, NULL, 0, &of_client));
    CHECK_OK(ms_device_start_profile(opened.device, &of_device));
    char text[8192];
    CHECK_OK(ms_device_get_metrics(opened.device, text, sizeof text, NULL));
    CHECK(strstr(text, "\nmillstream_streams 1\n") != NULL);
    CHECK_OK(ms_profile_destroy(of_device));
    CHECK_OK(ms_profile_destroy(of_client));
    close_device(&opened);
}

struct readbacks {
    int count;
    float values[8];
    ms_status last;
    ms_submission_log *log;
};

static void on_readback(ms_status status, const void *data, size_t bytes, void *user) {
    struct readbacks *seen = user;
    seen->last = status;
    if (status == MS_STATUS_OK) {
        CHECK(bytes == 16 && seen->count < 2);
        memcpy(seen->values + 4 * seen->count, data, bytes);
        CHECK_STATUS(MS_STATUS_BUSY, ms_submission_log_accept_cut(seen->log)); // it is being read
    }
    seen->count++;
}

static ms_submission_log_info info_of(const ms_submission_log *log) {
    ms_submission_log_info info = {0};
    info.size = sizeof info;
    CHECK_OK(ms_submission_log_get_info(log, &info));
    return info;
}

static void a_log_is_run_again_on_another_device(void) {
    ms_device_options options = {0};
    options.size = sizeof options;
    options.log_submissions = 1 << 20;
    struct opened opened = open_device("cpu", &options, true), plain = open_device("sim", NULL, false);
    ms_kernel *kernel = make_scale(opened.client);
    const ms_argument arguments[2] = {ms_arg_update(opened.buffer), ms_arg_f32(3)};
    ms_submission_log *log = NULL, *next = NULL, *again = NULL;
    ms_cancel_token *token = NULL;
    ms_stream *request = NULL;
    float got[4];
    CHECK_OK(ms_launch(opened.stream, kernel, one_cube, arguments, 2));
    CHECK_OK(ms_read_into(opened.stream, opened.buffer, got, sizeof got));
    CHECK_OK(ms_device_take_log(opened.device, &log));
    CHECK_OK(ms_launch(opened.stream, kernel, one_cube, arguments, 2));
    CHECK_OK(ms_read_into(opened.stream, opened.buffer, got, sizeof got));
    CHECK_OK(ms_cancel_token_create(&token));
    CHECK_OK(ms_cancel_token_cancel(token, NULL));
    CHECK_OK(ms_stream_with_cancel(opened.stream, token, &request));
    CHECK_STATUS(MS_STATUS_CANCELLED, ms_read_into(request, opened.buffer, got, sizeof got));
    CHECK_OK(ms_device_take_log(opened.device, &next));
    const uint64_t first = info_of(log).entries;
    CHECK(first > 0 && info_of(log).is_complete == 1 && info_of(next).first_part == 1);
    CHECK_ARGUMENT(ms_submission_log_append(next, log)); // in the wrong order
    CHECK_ARGUMENT(ms_submission_log_append(log, log));
    CHECK_OK(ms_submission_log_append(log, next));
    CHECK(info_of(log).entries == first + info_of(next).entries && info_of(log).last_part == 1);
    size_t needed = 0;
    CHECK_STATUS(MS_STATUS_TOO_SMALL, ms_submission_log_encode(log, NULL, 0, &needed));
    unsigned char *file = malloc(needed);
    CHECK(file != NULL && needed > info_of(log).bytes);
    CHECK_OK(ms_submission_log_encode(log, file, needed, NULL));
    CHECK_OK(ms_submission_log_decode(file, needed, &again));
    CHECK(info_of(again).entries == info_of(log).entries);
    struct readbacks seen = {0, {0}, MS_STATUS_OK, again};
    uint64_t digests[2] = {0, 1};
    // The kernel must be one of the other device.
    ms_kernel *other = make_scale(plain.client);
    const ms_kernel *const kernels[1] = {other};
    CHECK_ARGUMENT(ms_resubmit(plain.client, again, NULL, 0, 0, on_readback, &seen, NULL)); // without it
    CHECK_STATUS(MS_STATUS_TOO_LARGE, ms_resubmit(plain.client, again, kernels, 1, 1, on_readback, &seen, NULL));
    CHECK(seen.count == 0);
    CHECK_OK(ms_resubmit(plain.client, again, kernels, 1, 0, on_readback, &seen, &digests[0]));
    CHECK(seen.count == 3 && seen.values[0] == 3 && seen.values[7] == 9 && seen.last == MS_STATUS_CANCELLED);
    CHECK_OK(ms_resubmit(plain.client, again, kernels, 1, 0, NULL, NULL, &digests[1]));
    CHECK(digests[0] == digests[1]);
    CHECK_ARGUMENT(ms_resubmit(plain.client, next, kernels, 1, 0, NULL, NULL, NULL)); // does not begin with part 0
    // Damaged bytes are found.
    file[needed / 2] ^= 1;
    CHECK_OK(ms_submission_log_destroy(again));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, again, ms_submission_log_decode(file, needed, &again));
    CHECK_GIVES_NONE(MS_STATUS_INVALID_ARGUMENT, again, ms_submission_log_decode(file, 9, &again));
    free(file);
    CHECK_GIVES_NONE(MS_STATUS_UNSUPPORTED, again, ms_device_take_log(plain.device, &again));
    CHECK_OK(ms_submission_log_destroy(log));
    CHECK_OK(ms_submission_log_destroy(next));
    CHECK_OK(ms_stream_destroy(request));
    CHECK_OK(ms_cancel_token_destroy(token));
    CHECK_OK(ms_kernel_destroy(other));
    CHECK_OK(ms_kernel_destroy(kernel));
    close_device(&plain);
    close_device(&opened);
}

static void a_full_log_is_cut(void) {
    ms_device_options options = {0};
    options.size = sizeof options;
    options.log_submissions = 64; // room for the first entries
    struct opened opened = open_device("cpu", &options, true);
    ms_submission_log *log = NULL;
    float got[4];
    for (int i = 0; i < 100; i++) {
        CHECK_OK(ms_fill(opened.stream, opened.buffer, ones, 4));
    }
    CHECK_OK(ms_read_into(opened.stream, opened.buffer, got, sizeof got));
    CHECK_OK(ms_device_take_log(opened.device, &log));
    CHECK(info_of(log).is_complete == 0);
    CHECK_ARGUMENT(ms_resubmit(opened.client, log, NULL, 0, 0, NULL, NULL, NULL));
    CHECK_OK(ms_submission_log_accept_cut(log));
    CHECK_OK(ms_resubmit(opened.client, log, NULL, 0, 0, NULL, NULL, NULL));
    CHECK_OK(ms_submission_log_destroy(log));
    close_device(&opened);
}

static void read_metadata(const ms_launch_args *args, void *user) {
    (void)user;
    uint32_t *words = args->bindings[0].data;
    words[0] = (uint32_t)args->metadata_count;
    for (size_t i = 0; i < args->metadata_count && i < 15; i++) {
        words[1 + i] = args->metadata[i];
    }
}

static void metadata_reaches_the_kernel(void) {
    struct opened opened = open_device("cpu", NULL, true);
    ms_binding_desc binding = {sizeof binding, MS_ACCESS_UPDATE, MS_TYPE_U32, 0, "words"};
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = read_metadata;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "metadata";
    desc.bindings = &binding;
    desc.binding_count = 1;
    desc.sources = &source;
    desc.source_count = 1;
    ms_kernel *kernel = NULL;
    ms_buffer *out = NULL;
    ms_recorder *recorder = NULL;
    ms_recording *recording = NULL;
    uint32_t got[16];
    CHECK_OK(ms_kernel_create(opened.client, &desc, &kernel));
    CHECK_OK(ms_buffer_create(opened.stream, sizeof got, &out));
    CHECK_OK(ms_fill(opened.stream, out, &(uint32_t){0}, 4));
    const uint64_t shape[2] = {2, 3}, strides[2] = {3, 1}, four = 4, one = 1;
    ms_tensor tensors[2] = {{sizeof *tensors, MS_TENSOR_GROUP_OUTPUT, &four, &one, 1, 4},
                            {sizeof *tensors, MS_TENSOR_GROUP_INPUT, shape, strides, 2, 6}};
    const ms_argument argument = ms_arg_update(out);
    const uint32_t expected[16] = {16, 2, 6, 6, 10, 12, 1, 4, 4, 14, 15, 2, 3, 3, 1, 4}; // the input comes first
    CHECK_OK(ms_launch_with_metadata(opened.stream, kernel, one_cube, &argument, 1, tensors, 2));
    CHECK_OK(ms_read_into(opened.stream, out, got, sizeof got));
    CHECK(memcmp(got, expected, sizeof got) == 0);
    CHECK_OK(ms_recorder_create(opened.stream, &recorder));
    CHECK_OK(ms_recorder_launch_with_metadata(recorder, kernel, one_cube, &argument, 1, tensors + 1, 1));
    CHECK_OK(ms_recorder_finish(recorder, &recording));
    CHECK_OK(ms_replay(opened.stream, recording, NULL, 0, NULL, 0));
    CHECK_OK(ms_read_into(opened.stream, out, got, sizeof got));
    CHECK(got[0] == 9 && got[1] == 2 && got[4] == 5 && got[5] == 7);
    // Without metadata there are no words. What is wrong with a tensor is refused.
    CHECK_OK(ms_launch_with_metadata(opened.stream, kernel, one_cube, &argument, 1, NULL, 0));
    CHECK_OK(ms_read_into(opened.stream, out, got, sizeof got));
    CHECK(got[0] == 0);
    tensors[0].group = 3;
    CHECK_ARGUMENT(ms_launch_with_metadata(opened.stream, kernel, one_cube, &argument, 1, tensors, 2));
    tensors[0].group = MS_TENSOR_GROUP_OUTPUT;
    tensors[0].shape = NULL;
    CHECK_ARGUMENT(ms_launch_with_metadata(opened.stream, kernel, one_cube, &argument, 1, tensors, 2));
    tensors[0].shape = &four;
    tensors[0].buffer_len = UINT64_MAX;
    CHECK_ARGUMENT(ms_launch_with_metadata(opened.stream, kernel, one_cube, &argument, 1, tensors, 2));
    CHECK_ARGUMENT(ms_recorder_launch_with_metadata(recorder, kernel, one_cube, &argument, 1, NULL, 1));
    CHECK_OK(ms_recording_destroy(recording));
    CHECK_OK(ms_recorder_destroy(recorder));
    CHECK_OK(ms_buffer_destroy(out));
    CHECK_OK(ms_kernel_destroy(kernel));
    close_device(&opened);
}

void check_requests(void);

void check_requests(void) {
    a_token_withdraws_what_has_not_begun();
    a_task_that_runs_is_detached_by_a_cancel();
    a_profile_has_the_tasks_between_its_calls();
    a_profile_registers_no_stream();
    a_log_is_run_again_on_another_device();
    a_full_log_is_cut();
    metadata_reaches_the_kernel();
}
