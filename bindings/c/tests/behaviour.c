// What the functions do: kernels, answers, callbacks, failures, recordings, driven devices, reports, the log.
#include "scale.h"

#include <pthread.h>
#include <stdatomic.h>

static ms_device *open_device(const char *backend) {
    ms_device *device = NULL;
    CHECK_OK(ms_device_open(backend, NULL, &device));
    return device;
}

static ms_stream *open_stream(ms_device *device, ms_client **client) {
    ms_stream *stream = NULL;
    CHECK_OK(ms_client_create(device, NULL, client));
    CHECK_OK(ms_stream_create(*client, &stream));
    return stream;
}

static void close_all(ms_device *device, ms_client *client, ms_stream *stream) {
    CHECK_OK(ms_stream_destroy(stream));
    CHECK_OK(ms_client_destroy(client));
    CHECK_OK(ms_device_destroy(device));
}

static void bytes_move_and_kernels_run(const char *backend) {
    ms_client *client;
    ms_device *device = open_device(backend);
    ms_stream *stream = open_stream(device, &client);
    ms_kernel *kernel = make_scale(client);
    float values[1000], got[1000];
    for (int i = 0; i < 1000; i++) {
        values[i] = (float)i;
    }
    ms_buffer *a = NULL, *b = NULL, *part = NULL;
    CHECK_OK(ms_buffer_create_from(stream, values, sizeof values, &a));
    CHECK_OK(ms_buffer_create(stream, sizeof values, &b));
    CHECK_OK(ms_copy(stream, a, b));
    const ms_argument arguments[2] = {ms_arg_update(b), ms_arg_f32(2)};
    const ms_cubes cubes = {7, 1, 1};
    CHECK_OK(ms_launch(stream, kernel, cubes, arguments, 2));
    const float one = 1;
    CHECK_OK(ms_buffer_slice(b, 0, 8, &part));
    CHECK_OK(ms_fill(stream, part, &one, sizeof one));
    CHECK_OK(ms_read_into(stream, b, got, sizeof got));
    for (int i = 0; i < 1000; i++) {
        CHECK(got[i] == (i < 2 ? 1.0f : 2.0f * (float)i));
    }
    const uint32_t count[3] = {3, 1, 1};
    ms_buffer *counted = NULL;
    CHECK_OK(ms_buffer_create_from(stream, count, sizeof count, &counted));
    CHECK_OK(ms_launch_indirect(stream, kernel, counted, arguments, 2));
    CHECK_OK(ms_read_into(stream, b, got, sizeof got));
    CHECK(got[0] == 2.0f && got[999] == 4.0f * 999.0f);
    CHECK_OK(ms_write(stream, b, values, sizeof values));
    CHECK_OK(ms_read_into(stream, b, got, sizeof got));
    CHECK(memcmp(got, values, sizeof got) == 0);
    size_t size = 0;
    CHECK_OK(ms_buffer_get_bytes(part, &size));
    CHECK(size == 8);
    // Destroyed at once: the tasks keep what they use.
    CHECK_OK(ms_launch(stream, kernel, cubes, arguments, 2));
    ms_pending *read = NULL;
    CHECK_OK(ms_read(stream, b, &read));
    CHECK_OK(ms_buffer_destroy(b));
    CHECK_OK(ms_kernel_destroy(kernel));
    CHECK_OK(ms_pending_wait(read, MS_FOREVER));
    CHECK_OK(ms_pending_wait(read, 0));
    CHECK_OK(ms_pending_poll(read));
    const void *data = NULL;
    CHECK_OK(ms_pending_data(read, &data, &size));
    CHECK(size == sizeof values && ((const float *)data)[999] == 2.0f * 999.0f);
    CHECK_OK(ms_pending_destroy(read));
    CHECK_OK(ms_buffer_destroy(a));
    CHECK_OK(ms_buffer_destroy(part));
    CHECK_OK(ms_buffer_destroy(counted));
    close_all(device, client, stream);
}

static atomic_int drops;

static void do_nothing(const ms_launch_args *args, void *user) { (void)args, (void)user; }

// The errors of launches advise in C's names, and leave those of the caller as they are.
static void launches_that_do_not_fit_say_what_to_pass(void) {
    ms_device *device = NULL;
    ms_client *client = NULL;
    CHECK_OK(ms_device_open("cpu", NULL, &device));
    ms_stream *stream = open_stream(device, &client);
    ms_buffer *buffers[3] = {NULL, NULL, NULL}, *counts = NULL;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ms_buffer_create(stream, 16, &buffers[i]));
    }
    CHECK_OK(ms_buffer_create(stream, 16, &counts));
    const ms_binding_desc bindings[3] = {
        {sizeof *bindings, MS_ACCESS_READ, MS_TYPE_F32, 0, "pass `update"},
        {sizeof *bindings, MS_ACCESS_WRITE, MS_TYPE_F32, 0, "w"},
        {sizeof *bindings, MS_ACCESS_UPDATE, MS_TYPE_F32, 0, "u"},
    };
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = do_nothing;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "a dynamic cube count must be 3 `u32` (x, y, z), got a handle of";
    desc.bindings = bindings;
    desc.binding_count = 3;
    desc.sources = &source;
    desc.source_count = 1;
    ms_kernel *kernel = NULL;
    CHECK_OK(ms_kernel_create(client, &desc, &kernel));
    const ms_argument right[3] = {ms_arg_read(buffers[0]), ms_arg_write(buffers[1]), ms_arg_update(buffers[2])};
    const char *const advice[3] = {"pass it with `ms_arg_read`", "pass it with `ms_arg_write`", "pass it with `ms_arg_update`"};
    const ms_cubes cubes = {1, 1, 1};
    for (int i = 0; i < 3; i++) {
        ms_argument wrong[3] = {right[0], right[1], right[2]};
        wrong[i] = i == 0 ? ms_arg_update(buffers[i]) : ms_arg_read(buffers[i]);
        CHECK_ARGUMENT(ms_launch(stream, kernel, cubes, wrong, 3));
        CHECK_TEXT(advice[i]);
        CHECK_TEXT(desc.name);
    }
    CHECK_ARGUMENT(ms_launch_indirect(stream, kernel, counts, right, 3));
    CHECK_TEXT("an indirect count of cubes must be a buffer of 3 `uint32_t` (x, y, z), got 4");
    CHECK_TEXT(desc.name);
    CHECK_OK(ms_launch(stream, kernel, cubes, right, 3));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ms_buffer_destroy(buffers[i]));
    }
    CHECK_OK(ms_buffer_destroy(counts));
    CHECK_OK(ms_kernel_destroy(kernel));
    close_all(device, client, stream);
}

static void count_drop(void *user) {
    (void)user;
    atomic_fetch_add(&drops, 1);
}

static void check_then_fail(const ms_launch_args *args, void *user) {
    // The scalars, by type, and where this cube is.
    CHECK(*(int *)user == 42 && args->size >= sizeof *args && args->scalar_count == 4);
    CHECK(args->scalars[0].u8 == 7 && args->scalars[1].f64 == 0.5 && args->scalars[2].i16 == -3);
    CHECK(args->scalars[3].u64 == UINT64_MAX && args->cubes[0] == 1 && args->cube_count == 1 && args->cube[0] == 0);
    CHECK_OK(ms_launch_fail(args, "the reason"));
}

static void a_failed_kernel_poisons_what_it_writes(void) {
    ms_client *client;
    ms_device *device = open_device("cpu");
    ms_stream *stream = open_stream(device, &client);
    int answer = 42;
    ms_binding_desc binding = {sizeof binding, MS_ACCESS_WRITE, MS_TYPE_U32, 0, "out"};
    ms_scalar_desc scalars[4] = {{sizeof *scalars, MS_TYPE_U8, "a"},
                                 {sizeof *scalars, MS_TYPE_F64, "b"},
                                 {sizeof *scalars, MS_TYPE_I16, "c"},
                                 {sizeof *scalars, MS_TYPE_U64, "d"}};
    ms_source source = {0};
    source.size = sizeof source;
    source.kind = MS_SOURCE_KIND_NATIVE;
    source.function = check_then_fail;
    source.user = &answer;
    source.drop = count_drop;
    ms_kernel_desc desc = {0};
    desc.size = sizeof desc;
    desc.name = "fails";
    desc.bindings = &binding;
    desc.binding_count = 1;
    desc.scalars = scalars;
    desc.scalar_count = 4;
    desc.sources = &source;
    desc.source_count = 1;
    ms_kernel *kernel = NULL;
    CHECK_OK(ms_kernel_create(client, &desc, &kernel));
    ms_buffer *buffer = NULL, *copy = NULL;
    uint32_t zeros[4] = {0}, got[4];
    CHECK_OK(ms_buffer_create_from(stream, zeros, sizeof zeros, &buffer));
    CHECK_OK(ms_buffer_create(stream, sizeof zeros, &copy));
    const ms_argument arguments[5] = {ms_arg_write(buffer), ms_arg_u8(7), ms_arg_f64(0.5), ms_arg_i16(-3),
                                      ms_arg_u64(UINT64_MAX)};
    const ms_cubes cubes = {1, 1, 1};
    CHECK_OK(ms_launch(stream, kernel, cubes, arguments, 5));
    CHECK_OK(ms_copy(stream, buffer, copy));
    CHECK_STATUS(MS_STATUS_FAILED, ms_read_into(stream, copy, got, sizeof got));
    CHECK(strstr(ms_last_error(), "the reason") != NULL && strstr(ms_last_error(), "fails") != NULL);
    ms_pending *read = NULL;
    CHECK_OK(ms_read(stream, copy, &read));
    CHECK_STATUS(MS_STATUS_FAILED, ms_pending_wait(read, MS_FOREVER));
    CHECK_STATUS(MS_STATUS_FAILED, ms_pending_poll(read)); // the same again
    CHECK_OK(ms_pending_destroy(read));
    CHECK_OK(ms_write(stream, copy, zeros, sizeof zeros)); // heals
    CHECK_OK(ms_read_into(stream, copy, got, sizeof got));
    CHECK_OK(ms_kernel_destroy(kernel));
    // A kernel that cannot be made leaves `user` to the caller.
    desc.name = NULL;
    CHECK_ARGUMENT(ms_kernel_create(client, &desc, &kernel));
    desc.name = "fails";
    binding.access = 0;
    CHECK_ARGUMENT(ms_kernel_create(client, &desc, &kernel));
    CHECK_OK(ms_buffer_destroy(buffer));
    CHECK_OK(ms_buffer_destroy(copy));
    close_all(device, client, stream);
    CHECK(atomic_load(&drops) == 1);
}

struct seen {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int calls;
    ms_status status;
    ms_status wait_inside;
    float first;
    ms_pending *pending;
    ms_stream *stream;
};

static void ready(ms_status status, const void *data, size_t bytes, void *user) {
    struct seen *seen = user;
    pthread_mutex_lock(&seen->mutex);
    seen->status = status;
    if (bytes >= sizeof(float)) {
        memcpy(&seen->first, data, sizeof(float));
    }
    // A callback may destroy handles, and must not wait.
    CHECK_OK(ms_pending_destroy(seen->pending));
    ms_pending *sync = NULL;
    CHECK_OK(ms_sync(seen->stream, &sync));
    seen->wait_inside = ms_pending_wait(sync, MS_FOREVER);
    CHECK_OK(ms_pending_destroy(sync));
    seen->calls++;
    pthread_cond_signal(&seen->changed);
    pthread_mutex_unlock(&seen->mutex);
}

static void a_callback_receives_the_answer(void) {
    ms_client *client;
    ms_device *device = open_device("cpu");
    ms_stream *stream = open_stream(device, &client);
    struct seen seen = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, MS_STATUS_INTERNAL,
                        MS_STATUS_INTERNAL,        0,                        NULL, stream};
    const float values[4] = {5, 6, 7, 8};
    ms_buffer *buffer = NULL;
    CHECK_OK(ms_buffer_create_from(stream, values, sizeof values, &buffer));
    pthread_mutex_lock(&seen.mutex); // the callback waits until the pending is known
    CHECK_OK(ms_read(stream, buffer, &seen.pending));
    CHECK_OK(ms_pending_on_ready(seen.pending, ready, &seen));
    CHECK_STATUS(MS_STATUS_TAKEN, ms_pending_on_ready(seen.pending, ready, &seen));
    CHECK_STATUS(MS_STATUS_TAKEN, ms_pending_wait(seen.pending, 0));
    CHECK_STATUS(MS_STATUS_TAKEN, ms_pending_poll(seen.pending));
    while (seen.calls == 0) {
        pthread_cond_wait(&seen.changed, &seen.mutex);
    }
    pthread_mutex_unlock(&seen.mutex);
    CHECK(seen.status == MS_STATUS_OK && seen.first == 5 && seen.wait_inside == MS_STATUS_WOULD_DEADLOCK);
    CHECK_HANDLE(ms_pending_poll(seen.pending));
    CHECK_OK(ms_buffer_destroy(buffer));
    close_all(device, client, stream);
}

static void recordings_are_replayed_with_other_buffers_and_scalars(void) {
    ms_client *client;
    ms_device *device = open_device("cpu");
    ms_stream *stream = open_stream(device, &client);
    ms_kernel *kernel = make_scale(client);
    ms_recorder *recorder = NULL;
    ms_buffer *parameter = NULL, *source = NULL, *target = NULL;
    uint64_t factor = 99;
    const float ones[4] = {1, 1, 1, 1};
    CHECK_OK(ms_buffer_create_from(stream, ones, sizeof ones, &source));
    CHECK_OK(ms_recorder_create(stream, &recorder));
    CHECK_OK(ms_recorder_parameter(recorder, sizeof ones, &parameter));
    CHECK_OK(ms_recorder_scalar(recorder, MS_TYPE_F32, &factor));
    CHECK_OK(ms_recorder_copy(recorder, source, parameter));
    const ms_argument by_parameter[2] = {ms_arg_update(parameter), ms_arg_parameter(factor)};
    const ms_argument by_three[2] = {ms_arg_update(parameter), ms_arg_f32(3)};
    const ms_cubes cubes = {2, 1, 1};
    CHECK_OK(ms_recorder_launch(recorder, kernel, cubes, by_parameter, 2));
    CHECK_OK(ms_recorder_launch(recorder, kernel, cubes, by_three, 2));
    ms_recording *recording = NULL;
    CHECK_OK(ms_recorder_finish(recorder, &recording));
    CHECK_OK(ms_recorder_destroy(recorder));
    CHECK_OK(ms_buffer_destroy(source)); // the recording keeps it
    for (int round = 1; round < 4; round++) {
        float got[4];
        CHECK_OK(ms_buffer_create(stream, sizeof ones, &target));
        ms_rebind rebind = {sizeof rebind, 0, parameter, target};
        ms_rescalar rescalar = {sizeof rescalar, MS_TYPE_F32, factor, {0}};
        rescalar.value.f32 = (float)round;
        CHECK_OK(ms_replay(stream, recording, &rebind, 1, &rescalar, 1));
        CHECK_OK(ms_read_into(stream, target, got, sizeof got));
        CHECK(got[0] == 3.0f * (float)round && got[3] == got[0]);
        // What is missing, twice, or of another type is refused.
        ms_rebind twice[2] = {rebind, rebind};
        CHECK_ARGUMENT(ms_replay(stream, recording, NULL, 0, &rescalar, 1));
        CHECK_TEXT("has no memory of its own; pass an `ms_rebind` for it");
        CHECK_ARGUMENT(ms_replay(stream, recording, &rebind, 1, NULL, 0));
        CHECK_TEXT("has no value; pass an `ms_rescalar` for it");
        const ms_rebind unknown = {sizeof unknown, 0, target, target};
        CHECK_ARGUMENT(ms_replay(stream, recording, &unknown, 1, &rescalar, 1));
        CHECK_TEXT("the buffer to bind to: use one that `ms_recorder_parameter` gave for this recording");
        CHECK_ARGUMENT(ms_replay(stream, recording, twice, 2, &rescalar, 1));
        rescalar.dtype = MS_TYPE_F64;
        CHECK_ARGUMENT(ms_replay(stream, recording, &rebind, 1, &rescalar, 1));
        CHECK_OK(ms_buffer_destroy(target));
    }
    // A parameter is no buffer outside of the recording.
    float got[4];
    CHECK_STATUS(MS_STATUS_FAILED, ms_read_into(stream, parameter, got, sizeof got));
    CHECK_OK(ms_buffer_destroy(parameter));
    CHECK_OK(ms_recording_destroy(recording));
    CHECK_OK(ms_kernel_destroy(kernel));
    close_all(device, client, stream);
}

static void pump_inside(ms_status status, const void *data, size_t bytes, void *user) {
    (void)status, (void)data, (void)bytes;
    ms_driver **driver = user;
    CHECK_STATUS(MS_STATUS_BUSY, ms_pump(*driver, 0, NULL));
    CHECK_OK(ms_driver_destroy(*driver)); // while it pumps
    *driver = NULL;
}

static void a_driven_device_runs_when_it_is_pumped(void) {
    ms_device *device = NULL;
    ms_driver *driver = NULL;
    ms_client *client = NULL;
    ms_device_options options = {0};
    options.size = sizeof options;
    options.mailbox_capacity = 4;
    CHECK_OK(ms_device_open_driven("cpu", &options, &device, &driver));
    ms_stream *stream = open_stream(device, &client), *nowait = NULL;
    CHECK_OK(ms_stream_nowait(stream, &nowait));
    const float values[4] = {1, 2, 3, 4};
    ms_buffer *buffer = NULL;
    CHECK_OK(ms_buffer_create_from(stream, values, sizeof values, &buffer));
    ms_pending *read = NULL;
    CHECK_OK(ms_read(stream, buffer, &read));
    CHECK_STATUS(MS_STATUS_PENDING, ms_pending_poll(read));
    const void *data;
    size_t bytes;
    CHECK_STATUS(MS_STATUS_PENDING, ms_pending_data(read, &data, &bytes));
    bool more = true;
    while (more) {
        CHECK_OK(ms_pump(driver, 1000000, &more));
    }
    CHECK_OK(ms_pending_poll(read));
    CHECK_OK(ms_pending_destroy(read));
    // Without a pump the mailbox fills: a stream that does not block says so, another one runs the device itself.
    int accepted = 0;
    while (ms_fill(nowait, buffer, values, 4) == MS_STATUS_OK) {
        accepted++;
    }
    CHECK_STATUS(MS_STATUS_BUSY, ms_fill(nowait, buffer, values, 4));
    CHECK(accepted > 0 && accepted < 100000);
    ms_kernel *kernel = make_scale(client);
    const ms_argument arguments[2] = {ms_arg_update(buffer), ms_arg_f32(1)};
    const ms_cubes cubes = {1, 1, 1};
    for (int i = 0; i < 100; i++) {
        CHECK_OK(ms_launch(stream, kernel, cubes, arguments, 2));
    }
    CHECK_OK(ms_kernel_destroy(kernel));
    // A callback may destroy what is in use.
    CHECK_OK(ms_read(stream, buffer, &read));
    CHECK_OK(ms_pending_on_ready(read, pump_inside, &driver));
    for (int i = 0; driver != NULL && i < 100; i++) {
        CHECK_OK(ms_pump(driver, 1000000, &more));
    }
    CHECK(driver == NULL);
    CHECK_OK(ms_pending_destroy(read));
    CHECK_OK(ms_stream_destroy(nowait));
    CHECK_OK(ms_buffer_destroy(buffer));
    close_all(device, client, stream);
}

static void withdrawn_tasks_and_limits(void) {
    ms_device *device = NULL;
    ms_driver *driver = NULL;
    ms_client *client = NULL, *limited = NULL;
    CHECK_OK(ms_device_open_driven("cpu", NULL, &device, &driver));
    ms_stream *stream = open_stream(device, &client), *late = NULL, *small = NULL;
    ms_buffer *buffer = NULL, *big = NULL;
    const uint32_t zero = 0;
    uint32_t got;
    CHECK_OK(ms_buffer_create(stream, sizeof zero, &buffer));
    CHECK_OK(ms_stream_with_deadline(stream, 0, &late));
    CHECK_OK(ms_fill(late, buffer, &zero, sizeof zero));
    CHECK_STATUS(MS_STATUS_DEADLINE_PASSED, ms_read_into(stream, buffer, &got, sizeof got));
    ms_client_options options = {0};
    options.size = sizeof options;
    options.name = "limited";
    options.priority = MS_PRIORITY_LOW;
    options.weight = 2;
    options.hard_limit = 1024;
    CHECK_OK(ms_client_create(device, &options, &limited));
    CHECK_OK(ms_stream_create(limited, &small));
    CHECK_GIVES_NONE(MS_STATUS_TOO_LARGE, big, ms_buffer_create(small, 4096, &big));
    CHECK(strstr(ms_last_error(), "limited") != NULL);
    ms_pending *sync = NULL;
    CHECK_OK(ms_client_sync(limited, &sync));
    CHECK_OK(ms_pending_wait(sync, MS_FOREVER));
    CHECK_OK(ms_pending_destroy(sync));
    CHECK_OK(ms_device_sync(device, &sync));
    CHECK_OK(ms_pending_wait(sync, MS_FOREVER));
    CHECK_OK(ms_pending_destroy(sync));
    CHECK_OK(ms_stream_flush(small));
    CHECK_OK(ms_stream_destroy(late));
    CHECK_OK(ms_stream_destroy(small));
    CHECK_OK(ms_client_destroy(limited));
    CHECK_OK(ms_buffer_destroy(buffer));
    close_all(device, client, stream);
    CHECK_OK(ms_driver_destroy(driver));
}

static void a_device_reports_what_it_is_and_does(void) {
    ms_client *client;
    ms_device *device = open_device("cpu");
    ms_stream *stream = open_stream(device, &client);
    ms_buffer *buffer = NULL;
    CHECK_OK(ms_buffer_create(stream, 1 << 20, &buffer));
    ms_device_properties properties = {0};
    properties.size = sizeof properties;
    CHECK_OK(ms_device_get_properties(device, &properties));
    CHECK(properties.queues > 0 && properties.compute_units > 0 && properties.max_cubes[0] > 0);
    CHECK(properties.size == sizeof properties && properties.alignment >= 8);
    ms_memory_usage usage = {0};
    usage.size = sizeof usage;
    CHECK_OK(ms_device_get_memory(device, &usage));
    CHECK(usage.in_use >= 1 << 20 && usage.buffers == 1 && usage.pages >= usage.in_use);
    ms_health health = MS_HEALTH_CLOSED;
    CHECK_OK(ms_device_get_health(device, &health));
    CHECK(health == MS_HEALTH_RUNNING);
    size_t needed = 0;
    char name[256], tiny[1];
    CHECK_OK(ms_device_get_name(device, name, sizeof name, &needed));
    CHECK(strlen(name) + 1 == needed && needed > 1);
    CHECK_STATUS(MS_STATUS_TOO_SMALL, ms_device_get_name(device, tiny, sizeof tiny, &needed));
    CHECK_STATUS(MS_STATUS_TOO_SMALL, ms_device_get_metrics(device, NULL, 0, &needed));
    char *text = malloc(needed + 1024);
    CHECK(text != NULL);
    CHECK_OK(ms_device_get_metrics(device, text, needed + 1024, &needed));
    CHECK(strstr(text, "millstream_slices 1\n") != NULL && strstr(text, "{queue=\"0\"}") != NULL);
    free(text);
    CHECK_OK(ms_buffer_destroy(buffer));
    CHECK(strcmp(ms_status_name(MS_STATUS_BUSY), "MS_STATUS_BUSY") == 0 && ms_version()[0] != 0);
    close_all(device, client, stream);
    // A backend that this machine lacks is a status.
    ms_device *none = NULL;
    ms_device_options options = {0};
    options.size = sizeof options;
    options.ordinal = 99;
    CHECK_GIVES_NONE(MS_STATUS_UNAVAILABLE, none, ms_device_open("cuda", &options, &none));
    CHECK(ms_last_error()[0] != 0);
}

struct log {
    atomic_int messages;
    atomic_int of_memory;
};

static void on_log(ms_log_level level, const char *subject, const char *text, void *user) {
    struct log *log = user;
    CHECK(level >= MS_LOG_LEVEL_ERROR && level <= MS_LOG_LEVEL_TRACE && text[0] != 0);
    atomic_fetch_add(&log->messages, 1);
    if (strcmp(subject, "millstream::memory") == 0) {
        atomic_fetch_add(&log->of_memory, 1);
    }
    CHECK_STATUS(MS_STATUS_WOULD_DEADLOCK, ms_set_log(NULL, 0, NULL));
}

static void the_log_goes_to_a_function(void) {
    struct log log = {0, 0};
    CHECK_OK(ms_set_log(on_log, MS_LOG_LEVEL_TRACE, &log));
    ms_device_options options = {0};
    options.size = sizeof options;
    options.log_level = 2;
    ms_device *device = NULL;
    ms_client *client;
    CHECK_OK(ms_device_open("cpu", &options, &device));
    ms_stream *stream = open_stream(device, &client);
    ms_buffer *buffer = NULL;
    uint8_t byte = 1;
    CHECK_OK(ms_buffer_create_from(stream, &byte, 1, &buffer));
    CHECK_OK(ms_read_into(stream, buffer, &byte, 1));
    CHECK_OK(ms_set_log(NULL, 0, NULL));
    const int before = atomic_load(&log.messages);
    CHECK(before > 0 && atomic_load(&log.of_memory) > 0);
    CHECK_OK(ms_read_into(stream, buffer, &byte, 1));
    CHECK_OK(ms_buffer_destroy(buffer));
    close_all(device, client, stream);
    CHECK(atomic_load(&log.messages) == before);
}

// In requests.c.
void check_requests(void);
// In recorders.c.
void check_recorders(void);
// In limits.c.
void check_limits(void);
// In forked.c.
void check_forked(void);

int main(void) {
    bytes_move_and_kernels_run("cpu");
    bytes_move_and_kernels_run("sim");
    launches_that_do_not_fit_say_what_to_pass();
    a_failed_kernel_poisons_what_it_writes();
    a_callback_receives_the_answer();
    recordings_are_replayed_with_other_buffers_and_scalars();
    a_driven_device_runs_when_it_is_pumped();
    withdrawn_tasks_and_limits();
    a_device_reports_what_it_is_and_does();
    the_log_goes_to_a_function();
    check_requests();
    check_recorders();
    check_limits();
    check_forked();
    puts("behaviour is as documented");
    return 0;
}
